# SPDX-License-Identifier: GPL-2.0-only
"""What the rules share: the files of a tree, C without comments and strings, and the table of rules."""

import re
import subprocess
from collections import namedtuple
from pathlib import Path

Rule = namedtuple("Rule", "name text check bad good")
RULES = []


def rule(text, bad, good):
    """Registers check(tree) -> lines "file:line: what"; `bad` and `good` are {path: contents} of its self-test."""

    def register(function):
        RULES.append(Rule(function.__name__.replace("_", "-"), text, function, bad, good))
        return function

    return register


class Tree:
    """The files git tracks under `root` and new ones it does not ignore; every file where root is a self-test's."""

    def __init__(self, root, home):
        self.root = root
        self.home = home  # the checkout: for the configuration of tools
        names = git_files(root) if root == home else None
        if names is None:  # a self-test's tree, or a checkout without git
            names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
            names = [n for n in names if n.split("/")[0] not in ("build", ".git") and "__pycache__" not in n]
        self.names = sorted(n for n in names if (root / n).is_file() and not (root / n).is_symlink())

    def match(self, pattern):
        """Names that match a regular expression as a whole."""
        return [n for n in self.names if re.fullmatch(pattern, n)]

    def bytes(self, name):
        try:
            return (self.root / name).read_bytes()
        except OSError:
            return b""

    def text(self, name):
        return self.bytes(name).decode(errors="replace")

    def code(self, name):
        return strip_c(self.text(name))

    def grep(self, names, pattern, what, text=None):
        """A line for each place where the pattern stands in the C code of `names`."""
        for name in names:
            for number, line in enumerate((text or self.code)(name).splitlines(), 1):
                if match := re.search(pattern, line):
                    yield f"{name}:{number}: {match[0].strip()}: {what}"

    def scripts(self):
        """(name, interpreter) of what starts with #!"""
        for name in self.names:
            if match := re.match(rb"#!\s*(?:/usr/bin/env\s+)?(\S+)", self.bytes(name)[:80]):
                yield name, match[1].decode().rsplit("/", 1)[-1]


def git_files(root):
    try:
        out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                             capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return None
    return [n for n in out.split("\0") if n]


def strip_c(text):
    """C with comments and the insides of literals blanked, #include lines kept, lines kept in number."""

    def blank(match):
        word = match[0]
        if word.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", word)
        return word[0] + " " * (len(word) - 2) + word[-1]

    lines = []
    pattern = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    stripped = pattern.sub(blank, text).split("\n")
    for before, after in zip(text.split("\n"), stripped):
        lines.append(before if re.match(r"\s*#\s*include\b", after) else after)
    return "\n".join(lines)


# --- cases --------------------------------------------------------------------------------------------------------

CASE_ROW = re.compile(r"C(\d+)\s+(\S+)\s+(\S+)\s+(now|later|vm)\s+(\S.*)")
# c37 in a test's name: a word of an identifier, or the start of the text that names a row ("c37 burst of one").
CASE_NAME = re.compile(r"(?<![0-9A-Za-z])c(\d{2,3})(?![0-9A-Za-z])")
NAMES = {
    "c": re.compile(r"\b(?:test|c\d{2,3})_\w+|\"(?:c\d{2,3}\b)[^\"\n]*\""),
    "py": re.compile(r"\bdef test_\w+|[\"'](?:c\d{2,3}\b)[^\"'\n]*[\"']"),
}
COMMENTS = {"c": re.compile(r"/\*.*?\*/|//[^\n]*", re.S), "py": re.compile(r"\"\"\".*?\"\"\"|#[^\n]*", re.S)}

Case = namedtuple("Case", "number level area due text")


def cases(tree):
    for line in tree.text("tests/cases.txt").splitlines():
        if match := CASE_ROW.fullmatch(line.strip()):
            yield Case(int(match[1]), *match.groups()[1:])


def cases_named(tree):
    """{number: kinds of tests that have it in a name}. What a comment says does not count."""
    found = {}
    for name in tree.match(r"tests/.*\.(c|h|py)"):
        kind, ending = name.split("/")[1], "py" if name.endswith(".py") else "c"
        text = COMMENTS[ending].sub(" ", tree.text(name))
        for word in NAMES[ending].findall(text):
            for number in CASE_NAME.findall(word.replace("_", " ")):
                found.setdefault(int(number), set()).add(kind)
    return found


def print_cases(root, labels):
    tree = Tree(root, root)
    table, named = list(cases(tree)), cases_named(tree)

    def numbers(some):
        line, out = "", []
        for word in [f"C{c.number:02}" for c in some] or ["none"]:
            if len(line) + len(word) > 90:
                out, line = out + [line], ""
            line += " " + word
        return "\n      ".join([*out, line])

    covered = [c for c in table if c.number in named]
    print(f"\n  cases: {len(covered)} of {len(table)} have a test that carries their number")
    print("      covered:" + numbers(covered))
    for due, text in (("now", "not covered"), ("later", "not covered, of parts to come"), ("vm", "need a VM")):
        rest = [c for c in table if c.due == due and c.number not in named]
        print(f"      {text} ({len(rest)}):" + numbers(rest))
        if labels:
            for case in rest:
                print(f"        C{case.number:02} {case.level:4} {case.area:8} {case.text}")
