#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists every message of the programs and libraries, to be read through: FILE:LINE, a tab, the text.

    messages.py [FOLDER ...]    default: examples simt include python/distwar

Texts are the arguments of the calls below, formats included; adjacent strings are joined.
"""
import pathlib
import re
import sys

CALLS = (r"\b(fail|fail_\w+|\w+_fail|\w+_fail_with|ranks_error|device_give_up|refuse\w*|report|report_failure|GS_REQUIRE\w*|libgs_\w+|fputs|fprintf|"
         r"raise \w+|_refuse|check)\s*\(")
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def call_end(text, at):
    """The place after the bracket that closes the one before `at`; strings are skipped."""
    depth = 1
    while at < len(text) and depth:
        string = STRING.match(text, at)
        if string:
            at = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def messages(path):
    text = path.read_text()
    for call in re.finditer(CALLS, text):
        inside = text[call.end():call_end(text, call.end())]
        if call[1] in ("fprintf", "fputs") and "stderr" not in inside:
            continue
        inside = re.sub(r'"\s*(PRI\w+|[A-Z_]+_TEXT)\s*"', r"<\1>", inside)
        joined = re.sub(r'"\s*\n?\s*"', "", inside)
        for words in STRING.findall(joined):
            if re.search(r"\w.* .*\w", words):
                yield text.count("\n", 0, call.start()) + 1, words


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    for folder in sys.argv[1:] or ["examples", "simt", "include", "python/distwar"]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cpp", ".cu", ".cuh", ".py"):
                for line, words in messages(path):
                    print(f"{path.relative_to(root)}:{line}\t{words}")


main()
