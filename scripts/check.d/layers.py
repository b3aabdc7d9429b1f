# SPDX-License-Identifier: GPL-2.0-only
"""Who may know what: one function a rule. The reasons are in the words each prints."""

import re

from tree import rule

C = r".*\.[ch]"
SPDX = "// SPDX-License-Identifier: GPL-2.0-only\n"


@rule("packets are dropped only through verdict.h and the entry programs",
      {"bpf/gate.h": SPDX + "static int f(void)\n{\n\treturn XDP_DROP;\n}\n"},
      {"bpf/verdict.h": "return XDP_DROP;\n", "bpf/xdp.bpf.c": "return XDP_TX;\n",
       "bpf/gate.h": "/* never XDP_DROP here */\n"})
def drops(tree):
    """A drop elsewhere would be a packet without its one reason."""
    names = [n for n in tree.match(r"bpf/.*\.[ch]") if n != "bpf/verdict.h" and not n.endswith(".bpf.c")]
    return tree.grep(names, r"\bXDP_(DROP|TX|ABORTED|REDIRECT)\b", "only bpf/verdict.h and *.bpf.c end a packet's way")


@rule("libbpf, libxdp and the bpf() system call only in user/datapath",
      {"user/control/a.c": '#include <bpf/bpf.h>\n'},
      {"user/datapath/a.c": '#include <bpf/bpf.h>\nbpf_map_update_elem(1);\n', "user/control/a.c": '#include "x.h"\n',
       "tests/bpf/a.c": "#include <bpf/libbpf.h>\n"})
def map_calls(tree):
    names = [n for n in tree.match(r"user/" + C) if not n.startswith("user/datapath/")]
    return tree.grep(names, r"#\s*include\s*[<\"](bpf|xdp)/|\.skel\.h|\bbpf_(map|obj|prog|link|object|program|btf)_\w+\s*\(|"
                     r"\b(SYS|__NR)_bpf\b|\bxdp_(program|multiprog)__\w+", "map and program calls belong to user/datapath")


@rule("bpf_ktime_get_ns and bpf_get_prandom_u32 only in *.bpf.c",
      {"bpf/bucket.h": "static int f(void)\n{\n\treturn bpf_ktime_get_ns();\n}\n"},
      {"bpf/xdp.bpf.c": "bpf_ktime_get_ns();\n", "bpf/bucket.h": "/* now from bpf_ktime_get_ns() */\n"})
def clocks(tree):
    """Stages take time and dice as arguments: one clock per decision, and tests can set it."""
    names = [n for n in tree.match(r"(bpf|maps)/" + C) if not n.endswith(".bpf.c")]
    return tree.grep(names, r"\bbpf_(ktime_get\w*|get_prandom_u32|jiffies64)\b", "time and dice are arguments of a stage")


# The part of libc that is arithmetic and memory: no clock, file, socket, thread or system.
LIBC = {"assert.h", "errno.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdbool.h", "stddef.h", "stdint.h",
        "stdlib.h", "string.h", "stdarg.h", "stdalign.h", "linux/types.h"}
IMPURE = r"\b(clock_gettime|gettimeofday|time|random|rand|srand|getrandom|open|fopen|read|write|socket|ioctl|getenv|" \
         r"usleep|nanosleep|printf|fprintf|system)\s*\("


@rule("user/decide is pure: abi.h, libc and its own headers; no clock, dice, file or socket",
      {"user/decide/a.c": '#include <sys/socket.h>\n#include "user/control/config.h"\nint f(void)\n{\n\treturn rand();\n}\n'},
      {"user/decide/a.c": '#include <stdint.h>\n#include "maps/abi.h"\n#include "user/decide/a.h"\n#include "b.h"\n'
                          'int f(uint64_t now_ns)\n{\n\treturn now_ns > 1;\n}\n',
       "user/decide/b.h": "\n"})
def decide(tree):
    own = {n.rsplit("/", 1)[-1] for n in tree.match(r"user/decide/.*\.h")}
    for name in tree.match(r"user/decide/" + C):
        code = tree.code(name)
        for number, line in enumerate(code.splitlines(), 1):
            if match := re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)", line):
                what = match[2]
                fine = what in LIBC if match[1] == "<" else (
                    what in ("maps/abi.h", "maps/reasons.h") or what.startswith("user/decide/") or what in own)
                if not fine:
                    yield f"{name}:{number}: includes {what}: decide/ takes facts as arguments"
    yield from tree.grep(tree.match(r"user/decide/" + C), IMPURE, "decide/ takes facts, time and dice as arguments")


@rule("user/cli talks to the daemon: datapath headers only in detach.c",
      {"user/cli/status.c": '#include "user/datapath/datapath.h"\n'},
      {"user/cli/detach.c": '#include "user/datapath/datapath.h"\n', "user/cli/status.c": '#include "user/cli/http.h"\n'})
def cli(tree):
    names = [n for n in tree.match(r"user/cli/" + C) if n != "user/cli/detach.c"]
    return tree.grep(names, r"#\s*include\s*\"(user/datapath/|user/decide/|.*datapath\.h)[^\"]*",
                     "the command line asks the daemon; only detach works without it")


@rule("no layer includes one above it: decide, datapath, control, cli",
      {"user/datapath/a.c": '#include "user/control/config.h"\n'},
      {"user/control/a.c": '#include "user/datapath/datapath.h"\n', "user/datapath/a.c": '#include "maps/abi.h"\n'})
def upward(tree):
    for layer, above in (("datapath", "control|cli"), ("control", "cli")):
        yield from tree.grep(tree.match(f"user/{layer}/" + C), rf"#\s*include\s*\"(\.\./)*(user/)?({above})/[^\"]*",
                             f"user/{layer} does not know what is built on it")
    yield from tree.grep(tree.match(r"(bpf|maps)/" + C), r"#\s*include\s*\"(\.\./)*user/[^\"]*",
                         "the packet path does not know user space")
