# SPDX-License-Identifier: GPL-2.0-only
"""The commands of README.md and maps/README.md, run as they are written.

Every line of a fenced ```sh block is run by a shell, in the order of the file, on a gateway as the README describes
it; the exit status must be 0, or N where the line ends in `# exits N`. Where a ```json or ```text block follows, the
names in it (fields, metrics, maps, and words of lines without a figure) must stand in what the commands really printed:
trimmed output is welcome, invented output is not. maps/README.md must also name every map and every field of maps/abi.h.

The usual paths (/etc/sluice, /run/sluice, /var/lib/sluice, /sys/fs/bpf/sluice) belong to a mount namespace of the
test, so that nothing of the machine's own is touched. To look around on that gateway:

    /usr/bin/python3 tests/e2e/test_docs.py 'bpftool map show'
"""

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rig import BUILD, ROOT, Namespace, wait_for

SERVICE = "203.0.113.10"

# Copies of what the documented paths need, in the mount namespace only.
MOUNTS = """\
set -e
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
mkdir -p /mnt/etc/sluice /mnt/run/sluice /mnt/lib
mount --bind /mnt/etc /etc
mount --bind /mnt/run /run
mount --bind /mnt/lib /var/lib
mount -t bpf bpf /sys/fs/bpf
echo mounted
exec sleep infinity
"""


class Gateway:
    """eth0 with 203.0.113.10 and 2001:db8::10, a service on port 443, sluiced, and some clients."""

    def __init__(self, close):
        self.close = close
        self.gateway, self.clients = self._namespace("gateway"), self._namespace("clients")
        self._wire()
        self.holder = self._mounts()
        self.daemon = None
        for listen in (f"{SERVICE}:443", "[2001:db8::10]:443"):
            self._start(BUILD / "tools" / "service", "--listen", listen, "--capacity", "500", "--workers", "8")

    def _namespace(self, role):
        namespace = Namespace(role)
        self.close.callback(namespace.delete)
        namespace.sysctl("net.ipv6.conf.default.accept_dad", 0)
        return namespace

    def _wire(self):
        self.gateway.ip(f"link add eth0 type veth peer name c0 netns {self.clients.name}")
        for namespace, device, addresses in (
            (self.gateway, "eth0", (f"{SERVICE}/24", "2001:db8::10/64")),
            (self.clients, "c0", ("203.0.113.2/24", "203.0.113.3/24", "203.0.113.4/24", "2001:db8::2/64")),
        ):
            for address in addresses:
                namespace.ip(f"addr add {address} dev {device}" + (" nodad" if ":" in address else ""))
            namespace.ip(f"link set {device} up")
            namespace.run("ethtool", "-K", device, "gro", "on")

    def _start(self, *args):
        process = self.gateway.start(*args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.close.callback(process.wait)
        self.close.callback(process.kill)
        assert process.stdout.readline() == "ready\n"
        return process

    def _mounts(self):
        holder = self.gateway.start(
            "unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNTS, stdout=subprocess.PIPE, text=True
        )
        self.close.callback(holder.wait)
        self.close.callback(holder.kill)
        assert holder.stdout.readline() == "mounted\n"
        return holder

    def shell(self, line, timeout=60):
        """One line as a person at the gateway types it, in the checkout, with the programs in PATH."""
        environment = os.environ | {"PATH": f"{BUILD}:/usr/sbin:/usr/bin:/sbin:/bin", "NO_COLOR": "1"}
        return subprocess.run(
            ["nsenter", f"--net={self.gateway.path}", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--wd={ROOT}",
             "sh", "-c", line],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
            check=False,
        )

    def configure(self):
        """The configuration that the README shows."""
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        text = re.search(r"^```yaml\n(.*?)^```", readme, re.M | re.S)[1]
        self.shell(f"cat >/etc/sluice/sluice.yaml <<'END'\n{text}END")

    def run_daemon(self):
        log = "/run/sluice/sluiced.log"
        self.daemon = subprocess.Popen(
            ["nsenter", f"--net={self.gateway.path}", f"--mount=/proc/{self.holder.pid}/ns/mnt",
             "sh", "-c", f"exec {BUILD}/sluiced --config /etc/sluice/sluice.yaml >{log} 2>&1"],
        )
        self.close.callback(self.daemon.wait)
        self.close.callback(self.daemon.terminate)
        self.close.callback(self.shell, "sluicectl detach")
        wait_for(lambda: "ready" in self.shell(f"cat {log}").stdout, f"sluiced: {self.shell(f'cat {log}').stdout}")

    def visit(self):
        """Three clients, one of them greedy: 100 attempts at a burst of 40."""
        with self.clients.entered():
            for address, attempts in (("203.0.113.2", 5), ("203.0.113.3", 3), ("203.0.113.4", 100)):
                sockets = [self._attempt(address) for _ in range(attempts)]
                time.sleep(0.2)
                for s in sockets:
                    s.close()

    @staticmethod
    def _attempt(address):
        s = socket.socket()
        s.setblocking(False)
        s.bind((address, 0))
        s.connect_ex((SERVICE, 443))
        return s


@contextmanager
def gateway(daemon=True):
    with ExitStack() as close:
        made = Gateway(close)
        if daemon:
            made.configure()
            made.run_daemon()
            made.visit()
        yield made


# --- what the documents say -------------------------------------------------------------------------------------------

DOCUMENTS = ("README.md", "maps/README.md")

# Too long, or not for a machine that runs other tests: each has a test of its own; here only that they exist.
LONG = {
    "scripts/demo": "scripts/demo --help",
    "scripts/test": "test -x scripts/test",
    "scripts/setup": "scripts/setup --list",
    "make": "make -n all",
    "make && make install": "make -n all && make -n install",
    "make bench": "make -n bench",
    "SLUICE_FRAMES=20000000 build/tests-bpf/test_frames_p": "test -e tests/bpf/test_frames_p.c",
}


class Block:
    """Commands of one ```sh block, and the output shown after it."""

    def __init__(self, line, commands):
        self.line, self.commands, self.shown = line, commands, ""

    def names(self):
        """What of the shown output must be in the real one: fields, metrics, maps and links, and lines of words."""
        found = re.findall(r'"(\w+)":', self.shown) + re.findall(r"\b(?:slc|link|sluice)_[a-z0-9_]+", self.shown)
        for line in self.shown.splitlines():
            found += [] if re.search(r"\d", line) else re.findall(r"[a-z_]{3,}", line)
        return sorted(set(found))


def blocks_of(document):
    blocks, kind, lines, start, after_block = [], None, [], 0, False
    for number, line in enumerate((ROOT / document).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if kind is None:
                kind, lines, start = line[3:].strip() or "plain", [], number
                continue
            if kind == "sh":
                commands = [c for c in "\n".join(lines).replace("\\\n", " ").splitlines() if c.strip()]
                blocks.append(Block(start, [c for c in commands if not c.startswith("#")]))
            elif after_block and kind in ("json", "text"):
                blocks[-1].shown = "\n".join(lines)
            after_block, kind = kind == "sh", None
        elif kind is not None:
            lines.append(line)
        elif line.strip():
            after_block = False
    return blocks


def split_status(command):
    """`sluicectl x  # exits 3` -> the command and 3."""
    match = re.match(r"(.*?)\s+# exits (\d+)$", command)
    return (match[1], int(match[2])) if match else (re.sub(r"\s+# .*$", "", command), 0)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_run_as_written(document):
    blocks = blocks_of(document)
    assert blocks, f"{document} shows no command"
    with gateway() as made:
        for block in blocks:
            output = ""
            for command in block.commands:
                line, status = split_status(command)
                done = made.shell(LONG.get(line, line))
                output += done.stdout + done.stderr
                assert done.returncode == status, f"{document}:{block.line}: {command}\n{done.stdout}{done.stderr}"
            missing = [name for name in block.names() if name not in output]
            assert not missing, f"{document}:{block.line}: shows {missing}, which the commands did not print:\n{output}"


def words_of(document):
    return set(re.findall(r"\w+", (ROOT / document).read_text(encoding="utf-8")))


def test_manual_names_every_map():
    maps = re.findall(r"^\} (slc_\w+) __weak SEC", (ROOT / "maps/maps.bpf.h").read_text(encoding="utf-8"), re.M)
    assert len(maps) > 20
    assert not set(maps) - words_of("maps/README.md")


def test_manual_names_every_field():
    fields = set()
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "maps/abi.h").read_text(encoding="utf-8"), flags=re.S)
    for name, body in re.findall(r"^(?:struct|union) (slc_\w+) \{(.*?)^\}", text, re.M | re.S):
        if name == "slc_inner_types":
            continue
        for declaration in re.findall(r"^\s+(?:__\w+|char|union \w+|struct \w+)\s+([^;{}()]+);", body, re.M):
            fields |= {re.match(r"\s*(\w+)", part)[1] for part in declaration.split(",")}
    fields = {f for f in fields if not re.fullmatch(r"pad\d?|spare", f)}
    assert {"lease_until_ns", "tat", "stamp_ns", "netns_cookie", "first"} <= fields
    assert not fields - words_of("maps/README.md")


def test_readme_has_every_reason_with_its_meaning():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = (ROOT / "maps/reasons.h").read_text(encoding="utf-8")
    reasons = re.findall(r'^\s+X\((\w+), (PASS|DROP|REFUSE), (\w+), "(.*?)"\)', text, re.M)
    assert len(reasons) > 30
    missing = [name for name, verdict, stage, _ in reasons if f"| `{name}` | {verdict.lower()} | {stage} |" not in readme]
    assert not missing


def test_readme_has_every_degraded_mode():
    text = (ROOT / "user/control/status.h").read_text(encoding="utf-8")
    modes = re.findall(r'^\s+X\((\w+), "', text[text.index("#define MODES(X)") :], re.M)
    assert len(modes) > 10
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [name for name in modes if f"| `{name}` |" not in readme]


def test_blocks_are_read_as_meant():
    assert split_status("sluicectl drain web  # exits 3") == ("sluicectl drain web", 3)
    assert split_status("sluicectl status  # a look") == ("sluicectl status", 0)
    block = Block(1, [])
    block.shown = '{"open": 1} slc_cold\nservice  queue\nweb 32/511'
    assert block.names() == ["open", "queue", "service", "slc_cold"]


if __name__ == "__main__":
    with gateway() as made_here:
        for line_here in sys.argv[1:]:
            done = made_here.shell(line_here)
            print(f"$ {line_here}\n{done.stdout}{done.stderr}[exit {done.returncode}]")
