#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""public_names.py ROOT: the names that the headers declare in namespace distwar, outside of detail, are those of the list in
docs/reference.md, at most 70 of them.
"""
import pathlib
import re
import sys

MOST = 70
NAME = re.compile(
    r"(?:enum class|enum|struct|class) (\w+)"
    r"|using (\w+) ="
    r"|.*?\bconstexpr \w+ (\w+) ="
    r"|[^(=]*?\b(\w+)\("  # functions
)


def name_of(declaration):
    """The name that a declaration declares; None: a specialisation or a deduction guide."""
    declaration = re.sub(r"\b(__device__|__host__|DISTWAR_DEVICE|__global__|inline|static)\b", "", declaration).strip()
    macro = re.match(r"DISTWAR_OPERATOR\((\w+),", declaration)
    if macro:
        return macro[1]
    while declaration.startswith("template"):
        depth, at = 0, declaration.index("<")
        for at in range(at, len(declaration)):
            depth += (declaration[at] == "<") - (declaration[at] == ">" and declaration[at - 1] != "-")
            if depth == 0:
                break
        declaration = declaration[at + 1 :].strip()
    if "->" in declaration.split("{")[0] and "auto" not in declaration:
        return None
    declaration = re.sub(r"\bconstexpr (?=[\w<> ]*\()|\bauto (?=\w+\()", "", declaration)
    found = NAME.match(declaration)
    return next((name for name in found.groups() if name), None) if found else None


def declared(header):
    """Names of the declarations that begin at the outer level of namespace distwar."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"^ *#(?:\\\n|[^\n])*", "", text, flags=re.M)
    names, depth, inside, start = set(), 0, False, 0
    for at, c in enumerate(text):
        if c == "{":
            if depth == 0 and text[:at].rstrip().endswith("namespace distwar"):
                inside, start = True, at + 1
            elif inside and depth == 1:
                names.add(name_of(" ".join(text[start : at + 1].split())))
            depth += 1
        elif c == "}":
            depth -= 1
            inside = inside and depth > 0
            start = at + 1 if depth == 1 else start
        elif inside and depth == 1 and (c == ";" or (c == "\n" and text[start:at].lstrip().startswith("DISTWAR_OPERATOR"))):
            names.add(name_of(" ".join(text[start : at + 1].split())))
            start = at + 1
    return names - {None, "detail", "namespace"}


def main():
    root = pathlib.Path(sys.argv[1])
    found = {}
    for header in sorted((root / "include/distwar").rglob("*.*")):
        for name in declared(header):
            found[name] = header.name
    page = (root / "docs/reference.md").read_text(encoding="utf-8")
    table = page[page.index("<!-- public names -->") : page.index("<!-- end -->")]
    listed = [name for row in re.findall(r"^\| [\w./]+ \| (.*) \|$", table, re.M) for name in row.split(", ")]
    listed = [name for name in listed if not name.startswith("names in")]
    wrong = [f"{found[name]}: {name} is not in docs/reference.md" for name in sorted(set(found) - set(listed))]
    wrong += [f"docs/reference.md: no header declares {name}" for name in sorted(set(listed) - set(found))]
    if len(listed) != len(set(listed)):
        wrong.append("docs/reference.md: a name twice")
    if len(listed) > MOST:
        wrong.append(f"{len(listed)} public names, more than {MOST}")
    print(len(listed), "public names")
    if wrong:
        sys.exit("\n".join(wrong))


main()
