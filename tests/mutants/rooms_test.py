# SPDX-License-Identifier: MIT
"""rooms.py draws the same mutants of code that has moved, and knows the files and tests of each room."""
import unittest

import rooms

CODE = """#include "a.h"
static int larger(int a, int b) {
    return a < b ? b : a; // a < b
}
int f(int x) {
    char text[16];
    const int y = x + 1;
    return y && larger(x, y);
}
"""


def mutants(code):
    return {mutant for mutant, _ in rooms.candidates(code)}


class Draw(unittest.TestCase):
    def test_changes(self):
        changed = {CODE[:at] + m.to + CODE[at + len(m.token):] for m, at in rooms.candidates(CODE)}
        self.assertEqual(changed, {CODE.replace("return a <", "return a <="), CODE.replace("y &&", "y ||"),
                                   CODE.replace("x + 1", "x - 1"), CODE.replace("x + 1", "x + 2"),
                                   CODE.replace("x + 1", "x + 0")})

    def test_code_that_moved(self):
        first, second = CODE.split("int f(")
        self.assertEqual(mutants(f"int f({second}\nint g;\n{first}"), mutants(CODE))
        self.assertEqual(mutants(CODE.replace("int y = x + 1", "int y = 1")) & mutants(CODE),
                         {m for m in mutants(CODE) if "int y" not in m.line})

    def test_tests(self):
        self.assertEqual({rooms.plain(t) for t in ("A.B", "Each/A.B/Sog", "A/0.B", "Each/A.B/0")}, {"A.B"})

    def test_rooms(self):
        for room in rooms.ROOMS:
            self.assertGreater(len(list(rooms.drawn(room, 1))), 500, room)
            self.assertGreater(len(rooms.tests_of(room)), 50, room)


if __name__ == "__main__":
    unittest.main()
