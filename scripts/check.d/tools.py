# SPDX-License-Identifier: GPL-2.0-only
"""Rules that other programs check: clang-format, clang-tidy, shellcheck, python3."""

import hashlib
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tree import rule

SPDX = "// SPDX-License-Identifier: GPL-2.0-only\n"


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout + done.stderr


def missing(tool):
    if not shutil.which(tool):
        yield f"{tool} is not installed: scripts/setup"


@rule("clang-format: every C file is in the project's style",
      {"user/a.c": "int  main( void ){return 0;}\n"}, {"user/a.c": "int main(void)\n{\n\treturn 0;\n}\n"})
def format(tree):  # noqa: A001 (the name of the rule)
    yield from missing("clang-format")
    names = tree.match(r".*\.[ch]")
    if names:
        status, out = run(["clang-format", f"--style=file:{tree.home}/.clang-format", "--dry-run", "-Werror", *names], tree.root)
        found = sorted({m[1] for m in re.finditer(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", out, re.M)})
        yield from (f"{name}: run clang-format -i on it" for name in found)
        if status and not found:
            yield out.strip()[:300]


def tidy_flags(tree):
    packages = ["libbpf", "libxdp", "libuv", "libmicrohttpd", "yaml-0.1", "jansson", "sqlite3", "libcurl"]
    _, out = run(["pkg-config", "--cflags", *packages], tree.root)
    return ["-std=gnu11", "-D_GNU_SOURCE", "-I.", "-Ibuild", *out.split()]


def tidy_file(tree, name, flags):
    """Status and output; a file that passed with the same bytes, headers and rules is not looked at again."""
    config = tree.home / ".clang-tidy"
    digest = hashlib.sha256(" ".join([name, *flags]).encode() + config.read_bytes())
    _, needs = run(["clang", "-MM", *flags, name], tree.root)
    for need in needs.replace("\\\n", " ").split()[1:]:
        digest.update(need.encode() + (tree.root / need).read_bytes() if (tree.root / need).is_file() else b"")
    passed = tree.home / "build" / "tidy" / digest.hexdigest()
    if passed.exists():
        return 0, ""
    command = ["clang-tidy", "--quiet", f"--config-file={config}", "--warnings-as-errors=*", name, "--", *flags]
    status, out = run(command, tree.root)
    if status == 0 and tree.root == tree.home:
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.touch()
    return status, out


@rule("clang-tidy: the C of user/",
      {"user/a.c": SPDX + "int f(int a);\nint f(int a)\n{\n\tif (a = 1)\n\t\treturn 2;\n\treturn 3;\n}\n"},
      {"user/a.c": SPDX + "int f(int a);\nint f(int a)\n{\n\tif (a == 1)\n\t\treturn 2;\n\treturn 3;\n}\n"})
def tidy(tree):
    yield from missing("clang-tidy")
    if tree.root == tree.home and not (tree.root / "build/sluice.skel.h").exists():
        yield "build/sluice.skel.h is not there: make all first"
        return
    flags = tidy_flags(tree)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outs = list(pool.map(lambda name: tidy_file(tree, name, flags), tree.match(r"user/.*\.c")))
    for status, out in outs:
        found = re.findall(r"^(?:/.*?/)?(\S+:\d+:\d+: (?:error|warning): .*)$", out, re.M)
        yield from dict.fromkeys(line.replace(str(tree.root) + "/", "") for line in found)
        if status and not found:
            yield out.strip()[-300:]


@rule("shellcheck: every shell script",
      {"scripts/a": "#!/bin/bash\n# x\nrm -rf $1/*\n"}, {"scripts/a": '#!/bin/bash\n# x\nls "$1"\n'})
def shell(tree):
    yield from missing("shellcheck")
    names = sorted({n for n, by in tree.scripts() if by in ("sh", "bash", "dash")} | set(tree.match(r".*\.sh")))
    if names:
        _, out = run(["shellcheck", "--format=gcc", "--severity=info", "--external-sources", *names], tree.root)
        yield from out.strip().splitlines()


@rule("python3: every Python file compiles, scripts can be run",
      {"tests/a.py": "def f(:\n"}, {"tests/a.py": "def f():\n    pass\n"})
def python(tree):
    names = sorted({n for n, by in tree.scripts() if by.startswith("python")} | set(tree.match(r".*\.py")))
    for name in names:
        try:
            compile(tree.text(name), name, "exec", dont_inherit=True)
        except SyntaxError as error:
            yield f"{name}:{error.lineno}: {error.msg}"
    for name, _ in tree.scripts():
        if not os.access(tree.root / name, os.X_OK):
            yield f"{name}: starts with #! and cannot be run: chmod +x"
