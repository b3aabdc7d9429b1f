# SPDX-License-Identifier: GPL-2.0-only
"""Machines that lack something: what is degraded has a name, and the rest works."""

import copy
import json
import socket
import socketserver
import threading
from pathlib import Path

import pytest

from rig import BUILD, SERVICE_V4, Sluice, command, wait_for

PORT = 8080
TO = f"{SERVICE_V4}:{PORT}"
QUEUE = {"low": "50%", "high": "90%", "target": "20ms", "max_wait": "250ms"}
APP = {"name": "app", "listen": [TO], "source": {"rate": "5/s", "burst": 5}, "accept_queue": QUEUE}

# Each hides a part of the machine from the programs that run behind it, in a mount namespace of their own.
HIDE = {
    "no_btf": "mount -t tmpfs none /sys/kernel/btf",
    "corrupt_btf": 'f=$(mktemp) && head -c 24 /dev/zero >"$f" && mount --bind "$f" /sys/kernel/btf/vmlinux && rm "$f"',
    "no_cgroup2": "grep -q ' - cgroup2 ' /proc/self/mountinfo && "
    "awk '/ - cgroup2 /{print $5}' /proc/self/mountinfo | sort -r | xargs -n 1 umount -l",
}


def hiding(namespace, what):
    """The namespace, with something hidden from what starts in it."""
    without = copy.copy(namespace)
    script = f'{HIDE[what]} && exec "$@"'
    without.inside = lambda *args, **kw: ["unshare", "-m", "sh", "-c", script, "sh", *namespace.inside(*args, **kw)]
    return without


@pytest.fixture
def poor(lab):
    """Starts sluiced where something is hidden: poor("no_btf", config)."""
    running = []

    def start(what, config, interfaces=("g0", "g1")):
        sluice = Sluice(hiding(lab.gateway, what), lab.directory / what, config, interfaces)
        running.append(sluice)
        return sluice.start()

    yield start
    for sluice in running:
        sluice.close()


def limits_hold(lab, sluice):
    """5/s with a burst of 5 for one source that asks for 50/s in two seconds."""
    lab.service(TO, capacity=500, backlog=64)
    good = lab.clients(TO, "greedy=198.18.0.1/1@50", seconds=2).result()["greedy"]
    assert 5 <= good["served"] <= 5 + 5 * 3
    assert sluice.service("app")["refused"]["rate_limited"] > 0


@pytest.mark.parametrize("what", ["no_btf", "corrupt_btf"])
def test_c119_without_kernel_btf_only_the_gate_is_off(lab, poor, what):
    sluice = poor(what, {"services": [APP]})
    status = sluice.status()
    assert "no_btf" in status["modes"]
    assert status["services"][0]["signal"] == "none"
    assert {i["mode"] for i in status["interfaces"]} == {"native"}
    limits_hold(lab, sluice)
    doctor = json.loads(sluice.namespace.run(BUILD / "sluicectl", "--socket", sluice.socket, "doctor", "--json").stdout)
    assert {f["check"]: f["level"] for f in doctor["findings"]}["btf"] == "WARN"


def test_c67_without_cgroup2_only_connections_are_not_counted(lab, poor):
    sluice = poor("no_cgroup2", {"services": [APP]})
    status = sluice.status()
    assert "no_cgroup2" in status["modes"]
    assert status["sockops"]["attached"] is False and "cgroup2" in status["sockops"]["why"]
    limits_hold(lab, sluice)
    doctor = json.loads(sluice.namespace.run(BUILD / "sluicectl", "--socket", sluice.socket, "doctor", "--json").stdout)
    assert {f["check"]: f["level"] for f in doctor["findings"]}["cgroup2"] == "WARN"


# Lives in a cgroup of its own, which a cgroup namespace makes the root of cgroup2 for whatever starts there.
ROOT_OF_ITS_OWN = """set -e
cgroup=$1 program=$2
shift 2
echo $$ > "$cgroup/cgroup.procs"
exec unshare -C -m sh -ec '
awk "/ - cgroup2 /{print \\$5}" /proc/self/mountinfo | sort -r | xargs -n 1 umount -l
mount -t cgroup2 none /mnt
bpftool cgroup attach /mnt ingress id "$0"
exec "$@"
' "$program" "$@"
"""


@pytest.fixture
def jealous(lab):
    """Starts sluiced where program `number` holds the ingress hook of the cgroup2 root and tolerates no other."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
    if not mounts:
        pytest.skip("probe: no cgroup2 mount")
    cgroup = Path(mounts[0][4]) / lab.gateway.name
    cgroup.mkdir()
    running = []

    def start(number, config, interfaces):
        within = copy.copy(lab.gateway)
        within.inside = lambda *args, **kw: [
            "sh", "-c", ROOT_OF_ITS_OWN, "sh", str(cgroup), str(number), *lab.gateway.inside(*args, **kw)
        ]  # fmt: skip
        sluice = Sluice(within, lab.directory / "jealous", config, interfaces)
        running.append(sluice)
        sluice.start()
        sluice.namespace = lab.gateway  # what asks it need not live there
        return sluice

    yield start
    for sluice in running:
        sluice.close()
    wait_for(lambda: not (cgroup / "cgroup.procs").read_text(), "an empty cgroup")
    cgroup.rmdir()


def test_c79_beside_an_exclusive_program_answers_are_not_timed(lab, jealous):
    """Connections are counted, turns are not; status, metrics, log and doctor name the mode and who stands there."""
    other = lab.sluice({"services": [APP]}, interfaces=("g1",))
    program = json.loads(command("bpftool", "-j", "link", "show", "pinned", other.pins / "link_ingress").stdout)["prog_id"]
    sluice = jealous(program, {"services": [APP]}, ("g0",))
    status = sluice.status()
    assert "no_turns" in status["modes"] and "no_sockops" not in status["modes"]
    assert status["sockops"]["attached"] is True
    assert status["turns"]["attached"] is False
    assert f"program id {program}, name 'slc_ingress'" in status["turns"]["why"]
    assert "answers are not timed" in status["turns"]["why"]
    assert "no_turns: attaching ingress" in sluice.log()
    assert 'sluice_mode{mode="no_turns"} 1\n' in sluice.get("/metrics")
    detail = sluice.detail("app")
    assert detail["visibility"] == "none" and detail["turns"]["mode"] == "none"
    text = lab.gateway.run(BUILD / "sluicectl", "--socket", sluice.socket, "status").stdout
    assert "turns       not attached: answers are not timed: attaching ingress" in text
    doctor = json.loads(lab.gateway.run(BUILD / "sluicectl", "--socket", sluice.socket, "doctor", "--json").stdout)
    found = {f["check"]: f for f in doctor["findings"]}
    assert found["no_turns"]["level"] == "WARN" and f"program id {program}" in found["no_turns"]["what"]
    assert "no_turns" not in other.status()["modes"] and other.status()["turns"] == {"attached": True, "why": None}
    limits_hold(lab, sluice)


class Count(socketserver.BaseRequestHandler):
    """Answers with how many bytes came."""

    def handle(self):
        count = 0
        while chunk := self.request.recv(65536):
            count += len(chunk)
        self.request.sendall(str(count).encode())


def test_c115_generic_mode_passes_large_transfers(lab):
    """Frames merged by GRO reach a generic program in pieces or as one: neither may be lost."""
    with lab.gateway.entered():
        server = socketserver.ThreadingTCPServer((SERVICE_V4, PORT), Count)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        interfaces = [{"name": "g0", "mode": "generic"}, {"name": "g1", "mode": "generic"}]
        sluice = lab.sluice({"interfaces": interfaces, "services": [APP]})
        assert {i["mode"] for i in sluice.status()["interfaces"]} == {"generic"}
        assert "generic_xdp" in sluice.status()["modes"]
        with lab.clients_ns.entered():
            client = socket.create_connection((SERVICE_V4, PORT), timeout=10)
        client.sendall(bytes(8 << 20))
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == str(8 << 20).encode()
        client.close()
        assert not set(sluice.service("app")["refused"]) - {"rate_limited"}
    finally:
        server.shutdown()
        server.server_close()


def connect(lab, timeout):
    with lab.clients_ns.entered():
        try:
            socket.create_connection((SERVICE_V4, PORT), timeout, ("198.18.0.5", 0)).close()
            return "connected"
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "silence"


def test_c121_resets_over_veth_need_a_program_on_the_peer(lab):
    """The rig puts one there; without it XDP_TX leads nowhere, and doctor says so beforehand."""
    lab.service(TO, capacity=500, backlog=64)
    config = {"services": [APP | {"shed": {"action": "reset"}}]}
    sluice = lab.sluice(config)
    sluice.ctl("deny", "198.18.0.0/24", "--reason", "test")
    assert connect(lab, 3) == "refused"
    lab.clients_ns.ip("link set dev c0 xdp off")
    assert connect(lab, 1.5) == "silence"
    done = lab.gateway.run(BUILD / "sluicectl", "doctor", "--config", sluice.config_file, "--json", check=False)
    findings = json.loads(done.stdout)["findings"]
    assert [f["level"] for f in findings if f["check"] == "resets" and f["subject"] == "g0"] == ["WARN"]
