# SPDX-License-Identifier: GPL-2.0-only
"""The accept-queue gate on real listeners: what it protects, what it must not touch, and what it must see through."""

import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from rig import SERVICE_V4, SERVICE_V6, wait_for

PORT = 8080
TO = f"{SERVICE_V4}:{PORT}"
GATE = {"low": "50%", "high": "90%", "target": "20ms", "max_wait": "250ms"}
BY_PERCENT = GATE | {"max_wait": "60s"}  # only the marks in percent act
REFUSED_BY_GATE = ("accept_pressure", "queue_wait")


def config(queue=None, listen=(f"*:{PORT}",), **keys):
    """One service, `app`, with the gate."""
    return {"services": [{"name": "app", "listen": list(listen), "accept_queue": queue or GATE} | keys]}


def by_gate(sluice):
    refused = sluice.service("app")["refused"]
    return sum(refused.get(reason, 0) for reason in REFUSED_BY_GATE)


def queue_of(sluice):
    queue = sluice.service("app")["accept_queue"]
    return {key: queue[key] for key in ("length", "limit", "listeners")}


def mark(limit, percent=90):
    """Highest occupancy that the gate lets come about; a backlog of 0 still takes one."""
    return max(1, limit * percent // 100)


def overshoot(limit):
    """H is the P90 of handshakes: those that take longer are not predicted, and on a busy machine they are some."""
    return max(5, limit // 20)


def ends(group):
    """Attempts that were not served, by how they ended."""
    return {key: group[key] for key in ("late", "refused", "reset", "failed", "local_error") if group[key]} | {
        key: group[key] for key in ("timed_out_connecting", "timed_out_waiting") if group[key]
    }


def flood(lab, seconds=2, rate=500, **options):
    """Clients with a complete handshake, none of which would go away by itself."""
    options = {"sources": 200, "handshake": True, "patience_ms": 1000} | options
    return lab.storm(options.pop("to", TO), seconds=seconds, rate=rate, **options)


# --- the queue is not overrun ------------------------------------------------------------------------------------------


def test_c56_limit_is_read_from_the_socket_not_from_somaxconn(lab):
    """listen(511) with somaxconn 4096 and an application that accepts nothing: 511 is the limit."""
    lab.service(TO, backlog=511, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows, watch = lab.since(), lab.watch(PORT)
    flood(lab, rate=600, seconds=2).result()
    assert watch.stop()["max"] <= mark(511)
    assert overflows()["ListenOverflows"] == 0
    assert sluice.service("app")["accept_queue"]["limit"] == 511
    assert sluice.service("app")["refused"]["accept_pressure"] > 0


@pytest.mark.parametrize("backlog", [0, 1, 5, 50])
def test_c57_full_is_more_than_the_backlog(lab, backlog):
    """The kernel admits backlog + 1; the gate fills the queue to its mark, one for a backlog of 0, and not further."""
    lab.service(TO, backlog=backlog, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT | {"high": "100%"}))
    overflows, watch = lab.since(), lab.watch(PORT)
    flood(lab, rate=200, seconds=2).result()
    longest = watch.stop()["max"]
    assert overflows()["ListenOverflows"] == 0
    assert max(1, backlog // 2) <= longest <= max(1, backlog)
    queue = sluice.service("app")["accept_queue"]
    assert (queue["length"], queue["limit"]) == (longest, backlog)


@pytest.mark.parametrize("abort_on_overflow", [0, 1])
def test_c59_stalled_accept_loop_is_shed_with_a_reason(lab, abort_on_overflow):
    """With the queue stalled new SYNs get `accept_pressure`, and nobody who got in is thrown out."""
    lab.gateway.sysctl("net.ipv4.tcp_abort_on_overflow", abort_on_overflow)
    lab.service(TO, backlog=8, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows = lab.since()
    clients = lab.clients(TO, "good=198.18.0.1/20@1", seconds=1, patience_ms=1500).result()["good"]
    assert overflows()["ListenOverflows"] == 0
    assert clients["reset"] == 0
    assert 1 <= clients["timed_out_waiting"] <= mark(8)
    assert sluice.service("app")["refused"]["accept_pressure"] >= 20 - mark(8)


def test_c61_handshakes_that_the_kernel_held_back_are_not_lost(lab):
    """The queue overflowed before the gate acted: ACKs and data of clients that believe they are connected pass."""
    service = lab.service(TO, backlog=4, never_accept=True)
    sluice = lab.sluice(config(dry_run=["gate"]))
    overflows = lab.since()
    first = lab.clients(TO, "good=198.18.0.1/3@1", seconds=1, patience_ms=20000)
    wait_for(lambda: queue_of(sluice)["length"] == 3, "three of five places taken")
    # All SYNs are answered before the first ACK comes; two fit the queue, the kernel ignores the ACKs of the others.
    storm = lab.storm(TO, sources=4, rate=4, seconds=1, handshake=True, rtt_ms=950, patience_ms=20000)
    wait_for(lambda: overflows()["ListenOverflows"] >= 2, "two handshakes held back")
    service.signal(signal.SIGUSR1)
    served = storm.result(40)
    assert served["served"] == served["attempts"] == 4, served
    assert served["repeated_syn_acks"] >= 2
    assert first.result()["good"]["served"] == 3
    assert not any(sluice.service("app")["refused"].values())


def test_gate_follows_a_second_listen(lab):
    """listen() again with another backlog changes the limit of the live socket."""
    service = lab.service(TO, backlog=8, relisten=64, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows = lab.since()
    flood(lab, seconds=1, patience_ms=500).result()
    assert queue_of(sluice) == {"length": mark(8), "limit": 8, "listeners": 1}
    service.signal(signal.SIGUSR2)
    wait_for(lambda: sluice.service("app")["accept_queue"]["limit"] == 64, "the new limit")
    flood(lab, seconds=1, patience_ms=500, base="10.1.0.1").result()
    assert 32 <= sluice.service("app")["accept_queue"]["length"] <= mark(64) + overshoot(64)
    assert overflows()["ListenOverflows"] == 0


@pytest.mark.parametrize("rtt_ms", [0, 100])
def test_occupancy_at_a_round_trip(lab, rtt_ms):
    """2000 SYN/s on a backlog of 128. At 0 ms the mark holds; at 100 ms what is under way is predicted: no overflow."""
    lab.service(TO, backlog=128, capacity=200)
    sluice = lab.sluice(config())
    overflows, watch = lab.since(), lab.watch(PORT)
    storm = flood(lab, seconds=4, rate=2000, rtt_ms=rtt_ms, sources=2000, patience_ms=1500).result()
    longest = watch.stop()["max"]
    print(f"RTT {rtt_ms} ms: occupancy {longest} of 128, mark {mark(128)}; served {storm['served']}")
    assert overflows()["ListenOverflows"] == 0
    assert longest <= (mark(128) + overshoot(128) if rtt_ms == 0 else 128)
    assert storm["repeated_syn_acks"] == 0  # no client was left believing that it is connected
    assert by_gate(sluice) > 0


# --- honest clients are not refused for what others do ---------------------------------------------------------------------


@pytest.mark.parametrize("spoofed", [1000, 10000])
def test_spoofed_syns_do_not_shut_the_service(lab, spoofed):
    """Honest load at 90 % of capacity beside spoofed SYNs, which never reach the accept queue."""
    lab.service(TO, backlog=511, capacity=200)
    sluice = lab.sluice(config())
    overflows = lab.since()
    storm = lab.storm(TO, seconds=6, rate=spoofed, sources=0)
    good = lab.clients(TO, "good=198.18.0.1/90@2", seconds=5).result()["good"]
    storm.result()
    assert overflows()["ListenOverflows"] == 0
    assert good["served"] >= 0.97 * good["attempts"], (ends(good), sluice.service("app")["refused"])


def test_c76_only_completed_handshakes_make_a_source_known(lab):
    """A completes all, B none, at equal rates: A becomes known-good and B does not."""
    lab.service(TO, backlog=511, capacity=500)
    sluice = lab.sluice(config() | {"known": {"turns": 3, "over": "1s"}})
    storm = lab.storm(TO, seconds=4, rate=100, sources=1, base="10.0.0.1")
    good = lab.clients(TO, "good=198.18.0.1/1@100", seconds=4).result()["good"]
    storm.result()
    assert good["served"] >= 0.97 * good["attempts"], ends(good)

    def known(address):
        return sluice.ctl("source", "show", address)["services"][0]["known"]

    wait_for(lambda: known("198.18.0.1"), "A known-good", timeout=5)
    assert not known("10.0.0.1")
    assert sluice.service("app")["admitted_by_class"]["known"] > 0


def test_c77_retransmits_are_not_attempts(lab):
    """2000 at once against 100/s. Dropped: each is one attempt however often its SYN comes again."""
    lab.service(TO, backlog=511, capacity=1000)
    sluice = lab.sluice(config(total={"rate": "100/s", "burst": 100}))
    storm = flood(lab, rate=4000, seconds=1, sources=4000, patience_ms=4000).result()
    service = sluice.service("app")
    assert storm["retransmits"] > storm["attempts"]
    assert abs(service["attempts"] - storm["attempts"]) <= 0.01 * storm["attempts"]
    assert storm["connected"] <= 100 * 5.5 + 100


def test_c77_reset_ends_the_retries(lab):
    """The same with `action: reset`: refused clients know it at once and do not come again."""
    lab.service(TO, backlog=511, capacity=1000)
    lab.sluice(config(total={"rate": "100/s", "burst": 100}, shed={"action": "reset", "reset_rate": "10000/s"}))
    storm = flood(lab, rate=2000, seconds=1, sources=2000, patience_ms=1500).result()
    assert storm["retransmits"] == 0
    assert storm["refused"] + storm["served"] == storm["attempts"]
    assert storm["refused"] >= storm["attempts"] - 300


def test_reset_is_connection_refused_within_a_round_trip(lab):
    """A real client sees ECONNREFUSED at once, over IPv4 and IPv6, and not a silence until its patience ends."""
    lab.service(f"[::]:{PORT}", backlog=511, capacity=1000)
    sluice = lab.sluice(config(source={"rate": "1/s", "burst": 1}, shed={"action": "reset"}))
    for to, base in ((TO, "198.18.0.1"), (f"[{SERVICE_V6}]:{PORT}", "2001:db8:c::1")):
        good = lab.clients(to, f"good={base}/1@50", seconds=2).result()["good"]
        assert good["refused"] >= 90 and good["served"] >= 1, ends(good)
        assert good["served"] + good["refused"] == good["attempts"]
        assert good["refused_ms"]["p50"] < 10 and good["refused_ms"]["p99"] < 200
    assert sluice.service("app")["refused"]["rate_limited"] >= 180


# --- the listener that this SYN would reach ----------------------------------------------------------------------------------


def served_all(lab, to, base="198.18.0.1", seconds=1, rate=5):
    good = lab.clients(to, f"good={base}/10@{rate}", seconds=seconds).result()["good"]
    assert good["served"] == good["attempts"], ends(good)


def served_none(lab, to, base="198.18.0.1"):
    good = lab.clients(to, f"good={base}/20@5", seconds=1, patience_ms=500).result()["good"]
    assert good["served"] == 0


def test_c69_ipv4_to_a_dual_stack_listener(lab):
    """[::] without V6ONLY takes IPv4: its queue is the one that counts."""
    lab.service(f"[::]:{PORT}", backlog=8, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows, watch = lab.since(), lab.watch(PORT)
    served_none(lab, TO)
    assert watch.stop()["max"] == mark(8)
    assert overflows()["ListenOverflows"] == 0
    assert by_gate(sluice) > 0


def test_c69_v6only_beside_ipv4(lab):
    """A full IPv6-only listener does not shed IPv4, and the other way round."""
    lab.service(f"[::]:{PORT}", backlog=8, v6only=True, never_accept=True)
    lab.service(f"0.0.0.0:{PORT}", backlog=511)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows = lab.since()
    served_none(lab, f"[{SERVICE_V6}]:{PORT}", base="2001:db8:c::1")
    refused = by_gate(sluice)
    assert refused > 0
    served_all(lab, TO)
    assert by_gate(sluice) == refused
    assert overflows()["ListenOverflows"] == 0


def test_c69_specific_address_before_wildcard(lab):
    """192.0.2.1 is full, the dual-stack wildcard is not: only the specific address is shed."""
    lab.service(TO, backlog=8, never_accept=True, share=True)
    lab.service(f"[::]:{PORT}", backlog=511, share=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows = lab.since()
    served_none(lab, TO)
    refused = by_gate(sluice)
    assert refused > 0
    served_all(lab, f"198.51.100.1:{PORT}")
    served_all(lab, f"[{SERVICE_V6}]:{PORT}", base="2001:db8:c::1")
    assert by_gate(sluice) == refused
    assert overflows()["ListenOverflows"] == 0


def test_c69_ipv4_mapped_bind(lab):
    """A socket bound to ::ffff:192.0.2.1 is found for IPv4 SYNs."""
    lab.service(f"[::ffff:{SERVICE_V4}]:{PORT}", backlog=8, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT))
    overflows = lab.since()
    served_none(lab, TO)
    assert by_gate(sluice) > 0
    assert overflows()["ListenOverflows"] == 0


def test_c64_only_the_full_member_of_a_reuseport_group_is_shed(lab):
    """Four listeners share the port and one stops accepting: its quarter of the traffic is shed, the rest served."""
    service = lab.service(TO, reuseport=4, backlog=16, capacity=800, workers=8, pause_listener=2)
    sluice = lab.sluice(config(BY_PERCENT))
    wait_for(lambda: sluice.service("app")["accept_queue"]["listeners"] == 4, "four listeners")
    overflows, watch = lab.since(), lab.watch(PORT)
    service.signal(signal.SIGUSR1)
    good = lab.clients(TO, "good=198.18.0.1/100@2", seconds=4).result()["good"]
    assert overflows()["ListenOverflows"] == 0
    assert watch.stop()["max"] <= mark(16)
    assert 0.65 <= good["served"] / good["attempts"] <= 0.85, ends(good)
    assert good["timed_out_waiting"] <= mark(16), "others than the paused member's queue waited"


def test_c65_members_that_leave_are_forgotten(lab):
    """Two more reuseport listeners come and go under load: the rest go on serving and nothing of them is left."""
    lab.service(TO, reuseport=4, backlog=64, capacity=800, workers=8)
    sluice = lab.sluice(config())
    load = lab.clients(TO, "good=198.18.0.1/50@2", seconds=4)
    for _ in range(2):
        more = lab.service(TO, reuseport=2, backlog=64, capacity=400, workers=2)
        wait_for(lambda: sluice.service("app")["accept_queue"]["listeners"] == 6, "six listeners")
        more.stop()
        wait_for(lambda: sluice.service("app")["accept_queue"]["listeners"] == 4, "four listeners")
    good = load.result()["good"]
    # Closing a listener drops what waits in its queue; that is the kernel's, and it is little.
    assert good["served"] >= 0.97 * good["attempts"], ends(good)
    assert by_gate(sluice) == 0
    assert sluice.service("app")["accept_queue"]["length"] == 0


def test_c62_listener_in_another_namespace(lab):
    """`netns:` names where the service listens; its somaxconn is its own, and so is its queue."""
    pod = lab.namespace_behind("pod", "g2", "192.0.2")
    lab.gateway.sysctl("net.ipv4.ip_forward", 1)
    pod.sysctl("net.core.somaxconn", 128)
    to = f"192.0.2.130:{PORT}"
    lab.service(to, namespace=pod, backlog=4096, never_accept=True)
    sluice = lab.sluice(config(BY_PERCENT, listen=[to], netns=pod.name))
    overflows, watch = lab.since(pod), lab.watch(PORT, namespace=pod)
    flood(lab, to=to).result()
    assert watch.stop()["max"] <= mark(128)
    assert overflows()["ListenOverflows"] == 0
    assert sluice.service("app")["accept_queue"]["limit"] == 128
    assert by_gate(sluice) > 0


def test_c70_listener_outlives_its_connections(lab):
    """A hundred connections come and go; the listener stays known until it is closed itself."""
    service = lab.service(TO, backlog=64, capacity=500)
    sluice = lab.sluice(config())
    served_all(lab, TO, rate=10)
    assert sluice.service("app")["accept_queue"]["listeners"] == 1
    assert sluice.service("app")["accept_queue"]["limit"] == 64
    service.stop()
    wait_for(lambda: sluice.service("app")["accept_queue"]["listeners"] == 0, "no listener")


def test_c71_listeners_recreated_in_a_loop(lab):
    """Close and listen on the same port 500 times, each with a connection; the last one is judged by its own state."""
    sluice = lab.sluice(config(BY_PERCENT))
    with lab.gateway.entered():
        for _ in range(500):
            with socket.create_server((SERVICE_V4, PORT), backlog=3, reuse_port=False):
                pass
    lab.service(TO, backlog=7, never_accept=True)
    wait_for(lambda: sluice.service("app")["accept_queue"]["limit"] == 7, "the last listener")
    assert queue_of(sluice) == {"length": 0, "limit": 7, "listeners": 1}
    assert sluice.service("app")["accept_queue"]["head_age_ms"] == 0
    overflows = lab.since()
    served_none(lab, TO)
    assert overflows()["ListenOverflows"] == 0
    assert sluice.service("app")["accept_queue"]["length"] == mark(7)


LISTENER_IN_ANOTHER_CGROUP = """
import os, socket, sys
opener, worker, address, port, count = sys.argv[1:]
def enter(cgroup):
    with open(cgroup + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
enter(opener)
listener = socket.create_server((address, int(port)), backlog=32)
if os.fork() == 0:
    enter(worker)
    for _ in range(int(count)):
        with listener.accept()[0] as client:
            client.recv(4096)
            client.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nok")
    os._exit(0)
os.wait()
"""


@pytest.fixture
def two_cgroups(lab):
    """Two cgroups below the cgroup2 mount, wherever that is."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    unified = next((line.split()[4] for line in mounts if " - cgroup2 " in line), None)
    if not unified or not os.access(unified, os.W_OK):
        pytest.skip("probe: no cgroup2 mount that can be written to")
    cgroups = [Path(unified) / f"{lab.gateway.name}-{role}" for role in ("opener", "worker")]
    for cgroup in cgroups:
        cgroup.mkdir()
    yield cgroups
    for cgroup in cgroups:
        wait_for(lambda: not (cgroup / "cgroup.procs").read_text(), "an empty cgroup")
        cgroup.rmdir()


def test_c68_listener_made_in_another_cgroup(lab, two_cgroups):
    """One cgroup opens the listener, a process of another accepts: callbacks come all the same, at the root."""
    sluice = lab.sluice(config())
    args = [sys.executable, "-c", LISTENER_IN_ANOTHER_CGROUP, *two_cgroups, SERVICE_V4, PORT, 20]
    application = lab.gateway.start(*args)
    try:
        wait_for(lambda: queue_of(sluice)["listeners"] == 1, "the listener")
        good = lab.clients(TO, "good=198.18.0.1/10@2", seconds=1).result()["good"]
        assert good["served"] == good["attempts"] == 20, ends(good)
        assert application.wait(10) == 0
    finally:
        application.kill()
    wait_for(lambda: sluice.service("app")["closed"] == 20, "all closes counted")
    assert sum(sluice.service("app")["established"].values()) == 20
    assert sluice.service("app")["open_connections"] == 0


def connect_from(lab, port, timeout=1.0):
    """One request from a fixed source port; returns the answer's first line."""
    with lab.clients_ns.entered():
        client = socket.socket()
    with client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("198.18.0.9", port))
        client.settimeout(timeout)
        client.connect((SERVICE_V4, PORT))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while part := client.recv(4096):
            answer += part
        return answer.split(b"\r\n")[0]


def test_time_wait_hides_neither_listener_nor_client(lab):
    """A client comes again from the port of a connection in TIME_WAIT: admitted, and judged by the listener's queue."""
    service = lab.service(TO, backlog=8)
    sluice = lab.sluice(config(BY_PERCENT))

    def in_time_wait():
        sockets = lab.gateway.run("ss", "-Htn", "state", "time-wait", f"sport = :{PORT}").stdout
        return re.search(r"198\.18\.0\.9\]?:40000", sockets)

    for _ in range(3):
        assert connect_from(lab, 40000) == b"HTTP/1.0 200 OK"
        wait_for(in_time_wait, "TIME_WAIT at the service")
    service.signal(signal.SIGUSR1)
    flood(lab, seconds=1, patience_ms=500).result()
    refused = by_gate(sluice)
    assert in_time_wait()
    with pytest.raises(TimeoutError):
        connect_from(lab, 40000, timeout=0.4)
    assert by_gate(sluice) == refused + 1


def test_defer_accept(lab):
    """TCP_DEFER_ACCEPT: connections enter the queue with their first data; marks and clients fare as without."""
    lab.service(TO, backlog=128, capacity=200, defer=5)
    sluice = lab.sluice(config())
    served_all(lab, TO)
    overflows, watch = lab.since(), lab.watch(PORT)
    storm = flood(lab, seconds=3, rate=1000, sources=1000, patience_ms=1500).result()
    assert overflows()["ListenOverflows"] == 0
    assert watch.stop()["max"] <= mark(128) + overshoot(128)
    assert storm["served"] >= 0.8 * 200 * 3
    assert by_gate(sluice) > 0


# --- established connections ------------------------------------------------------------------------------------------------------


def test_c37_only_the_attempt_is_charged(lab):
    """Burst 1, one a minute: the handshake's ACK and ten data segments pass; the second connection does not."""
    lab.service(TO, echo=True)
    sluice = lab.sluice(config(source={"rate": "1/m", "burst": 1}))
    first = lab.echoes(TO, streams=1, rate=10, seconds=1).result()
    assert (first["breaks"], first["echoed"]) == (0, 10)
    second = lab.clients(TO, "good=198.18.200.1/1@2", seconds=1, patience_ms=800).result()["good"]
    assert second["timed_out_connecting"] == second["attempts"] == 2
    assert sluice.service("app")["refused"]["rate_limited"] == 2


def test_c38_admission_limits_do_not_touch_data(lab):
    """One established flow at 2000 messages a second under an admission limit of 100/s."""
    lab.service(TO, echo=True)
    sluice = lab.sluice(config(source={"rate": "100/s", "burst": 100}))
    stream = lab.echoes(TO, streams=1, rate=2000, seconds=3).result()
    assert stream["breaks"] == 0
    assert stream["echoed"] == 6000
    assert not any(sluice.service("app")["refused"].values())


def test_established_streams_survive_storms_and_every_refusal(lab):
    """Sequence-checked streams through a greedy, an equal and a spoofed storm, a deny order and a drain: no break."""
    lab.service(TO, echo=True, backlog=128)
    sluice = lab.sluice(config(source={"rate": "20/s", "burst": 40}, total={"rate": "100/s", "burst": 50}))
    resets = lab.since(lab.clients_ns)
    streams = lab.echoes(TO, streams=30, rate=50, seconds=10)
    for options in (
        {"sources": 3, "rate": 3000, "handshake": True, "silent": True, "patience_ms": 200},
        {"sources": 5000, "rate": 5000, "handshake": True, "silent": True, "patience_ms": 200},
        {"sources": 0, "rate": 50000},
    ):
        lab.storm(TO, seconds=1, **options).result()
    sluice.ctl("deny", "198.18.0.0/15", "--for", "60s", "--reason", "test")
    served_none(lab, TO)
    sluice.ctl("drain", "app", "--for", "1s", "--reason", "test", check=False)
    lab.storm(TO, seconds=1, sources=50, rate=100).result()
    assert streams.running(), "the streams ended before all was done to them"
    result = streams.result()
    assert result["breaks"] == 0, result
    assert result["echoed"] == 30 * 50 * 10
    assert resets()["EstabResets"] == 0
    refused = sluice.service("app")["refused"]
    assert all(refused[reason] > 0 for reason in ("rate_limited", "service_rate", "denied", "draining")), refused
