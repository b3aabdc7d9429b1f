# SPDX-License-Identifier: GPL-2.0-only
"""Rules about files as such."""

import re

from tree import CASE_ROW, cases, cases_named, rule

SPDX = "SPDX-License-Identifier: GPL-2.0-only"


@rule("every source says its licence in its first lines",
      {"user/a.c": "int a;\n"},
      {"user/a.c": f"// {SPDX}\nint a;\n", "scripts/a": f"#!/bin/sh\n# {SPDX}\n", "README.md": "words\n"})
def spdx(tree):
    sources = set(tree.match(r".*\.([ch]|py|sh|lua|mk|awk|[1-8])|Makefile|\.clang-tidy")) | {n for n, _ in tree.scripts()}
    for name in sorted(sources):
        if SPDX not in "\n".join(tree.text(name).splitlines()[:4]):
            yield f"{name}:1: no line '{SPDX}'"


# Written in two halves, so that this file does not find itself.
MARKS = r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b|(?i:not (yet )?imple" + r"mented)|\bxf" + r"ail\b"


@rule("no marks of unfinished work",
      {"user/a.c": "// TO" + "DO: later\n"}, {"user/a.c": "// all done\n"})
def unfinished(tree):
    return tree.grep([n for n in tree.names if n != "LICENSE"], MARKS, "finish it, or take it out", tree.text)


@rule("no paths of one machine in the tree",
      {"scripts/a": "#!/bin/sh\ncat /wo" + "rk/x\n"}, {"scripts/a": "#!/bin/sh\ncat /usr/share/x\n"})
def machine_paths(tree):
    return tree.grep(tree.names, r"(?<![\w.-])/(wo" + r"rk|ho" + r"me/\w+|ro" + r"ot)/", "the tree must not know where it lies",
                     tree.text)


@rule("no binaries, and no file over 256 KiB",
      {"tests/a.bin": b"\x7fELF\0\0"}, {"tests/a.txt": "words\n"})
def binaries(tree):
    for name in tree.names:
        data = tree.bytes(name)
        if b"\0" in data[:65536]:
            yield f"{name}: is binary"
        elif len(data) > 256 * 1024:
            yield f"{name}: {len(data)} bytes"


TOP = {"bpf", "user", "maps", "tests", "scripts", "Makefile", "README.md", "LICENSE"}


@rule("the top level holds what it should, and nothing else",
      {"notes/a.txt": "x\n"}, {"bpf/a.h": "x\n", ".gitignore": "x\n"})
def top_level(tree):
    for top in sorted({n.split("/")[0] for n in tree.names}):
        if top not in TOP and not top.startswith("."):
            yield f"{top}: not one of {' '.join(sorted(TOP))}"


@rule("no blanks at line ends, every text ends with a newline",
      {"user/a.c": "int a; \n"}, {"user/a.c": "int a;\n"})
def whitespace(tree):
    for name in tree.names:
        text = tree.text(name)
        if "\0" in text[:65536] or name == "LICENSE":
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if line.rstrip("\r") != line.rstrip(" \t\r"):
                yield f"{name}:{number}: blank at the end"
        if text and not text.endswith("\n"):
            yield f"{name}: no newline at the end"


TABLE = "C01  P  parse  now  one\nC02  P  parse  now  two\n"


@rule("tests name only cases that tests/cases.txt has",
      {"tests/cases.txt": TABLE, "tests/unit/test_a.c": "static void test_c" + "77_x(void **state)\n"},
      {"tests/cases.txt": TABLE, "tests/unit/test_a.c": "static void test_c" + "01_x(void **state)\n"})
def case_names(tree):
    known = [c.number for c in cases(tree)]
    if not known:
        yield "tests/cases.txt: no table of cases"
    for number in sorted({n for n in known if known.count(n) > 1}):
        yield f"tests/cases.txt: C{number:02} is there twice"
    for number, line in enumerate(tree.text("tests/cases.txt").splitlines(), 1):
        if line.strip() and not line.startswith("#") and not CASE_ROW.fullmatch(line.strip()):
            yield f"tests/cases.txt:{number}: not a row: {line}"
    for number, kinds in sorted(cases_named(tree).items()):
        if number not in known:
            yield f"tests/{'|'.join(sorted(kinds))}: a test is named after case {number}, which tests/cases.txt does not have"


@rule("a skip in a test states its probe",
      {"tests/e2e/test_a.py": 'import pytest\npytest.sk' + 'ip("no luck")\n'},
      {"tests/e2e/test_a.py": 'import pytest\npytest.sk' + 'ip("probe: no VLAN devices here")\n'})
def skips(tree):
    for name in tree.match(r"tests/.*\.py"):
        text = tree.text(name)
        for match in re.finditer(r"pytest\.(?:mark\.)?skip(?:if)?\s*\(", text):
            call = text[match.start():match.start() + 400]
            if "probe:" not in call.split("\n\n")[0]:
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}...: the reason must read 'probe: ...'"
