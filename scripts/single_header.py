#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the library as one header: each header of include/distwar once, in the order of inclusion.

    single_header.py [-o FILE] [HEADER...]

Default: reduce.cuh, fixed.cuh, block.cuh, hot_slots.cuh and half.cuh with all that they include, to standard output.
"""

import argparse
import os
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include" / "distwar"
INCLUDE_LINE = re.compile(r'^#include "([^"]+)"\n', re.M)


def expand(name, done):
    if name in done:
        return ""
    done.add(name)
    text = (INCLUDE / name).read_text()
    text = text.replace("// SPDX-License-Identifier: MIT\n", "").replace("/* SPDX-License-Identifier: MIT */\n", "")
    folder = pathlib.PurePath(name).parent
    return INCLUDE_LINE.sub(lambda found: expand(os.path.normpath(folder / found.group(1)), done), text)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", help="the file to write")
    arguments.add_argument("headers", nargs="*", default=["reduce.cuh", "fixed.cuh", "block.cuh", "hot_slots.cuh", "half.cuh"])
    options = arguments.parse_args()
    done = set()
    text = "// SPDX-License-Identifier: MIT\n// distwar in one header, made by scripts/single_header.py.\n"
    text += "".join(expand(name, done) for name in options.headers)
    if options.output:
        pathlib.Path(options.output).write_text(text)
    else:
        sys.stdout.write(text)


main()
