# SPDX-License-Identifier: GPL-2.0-only
"""Storms on a service of fixed capacity: what the issue says a gateway with sluice shows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import demo
from rig import ROOT, wait_for

CAPACITY, BACKLOG = 200, 511
TO = "192.0.2.1:8080"


def gate_only(**queue):
    """No configured rate: the live accept queue alone decides."""
    queue = {"low": "5%", "high": "10%", "target": "20ms", "max_wait": "250ms"} | queue
    return {"services": [{"name": "app", "listen": [TO], "accept_queue": queue}]}


def overload(lab, seconds, times=10):
    """Clients with a patience of 1.5 s that together want `times` the capacity; no source stands out."""
    rate = CAPACITY * times
    return lab.storm(TO, sources=rate, rate=rate, seconds=seconds, handshake=True, patience_ms=1500).result()


def test_unprotected_service_collapses(lab):
    """The base line: without sluice the queue is full of the requests of clients that have left."""
    service = lab.service(TO, capacity=CAPACITY, backlog=BACKLOG)
    overflows = lab.since()
    storm = overload(lab, 6)
    assert storm["served"] / (6 * CAPACITY) < 0.5
    assert overflows()["ListenOverflows"] > 1000
    assert service.stop()["queue_wait_ms"]["max"] > 1500


def test_ten_times_overload_by_the_gate_alone(lab):
    """Offered 10x, no rate configured: >= 90 % of the capacity goes to clients that still wait for it."""
    service = lab.service(TO, capacity=CAPACITY, backlog=BACKLOG)
    sluice = lab.sluice(gate_only())
    overflows, watch = lab.since(), lab.watch(8080)
    storm = overload(lab, 6)
    assert storm["served_in_window"] >= 0.9 * 6 * CAPACITY, storm
    assert overflows()["ListenOverflows"] == 0
    assert watch.stop()["max"] <= BACKLOG * 10 // 100 + BACKLOG // 20  # handshakes slower than H, the P90
    refused = sluice.service("app")["refused"]
    assert refused.get("accept_pressure", 0) + refused.get("queue_wait", 0) > 10000
    assert service.stop()["queue_wait_ms"]["max"] < 1000


def test_ten_times_overload_with_marks_in_time_only(lab):
    """Marks of 50 and 90 % are 1.3 and 2.3 s of dead requests here: max_wait is what keeps the answers worth having."""
    lab.service(TO, capacity=CAPACITY, backlog=BACKLOG)
    sluice = lab.sluice(gate_only(low="50%", high="90%"))
    overflows, watch = lab.since(), lab.watch(8080)
    storm = overload(lab, 6)
    assert overflows()["ListenOverflows"] == 0
    assert watch.stop()["max"] <= BACKLOG * 90 // 100
    assert sluice.service("app")["refused"]["queue_wait"] > 0
    assert storm["served_in_window"] >= 0.9 * 6 * CAPACITY, storm


def test_nothing_is_refused_below_capacity(lab):
    """90 % of capacity, random arrivals: the gate has no reason to refuse anyone."""
    lab.service(TO, capacity=CAPACITY, backlog=BACKLOG)
    sluice = lab.sluice(gate_only())
    good = lab.clients(TO, "good=198.18.0.1/90@2", seconds=6, poisson=True).result()["good"]
    assert good["served"] >= 0.995 * good["attempts"], good
    assert sum(sluice.service("app")["refused"].values()) <= 0.005 * good["attempts"]


def test_greedy_sources_on_nginx(lab):
    """nginx accepts at once, so its queue says nothing and the gate refuses next to nobody; the source buckets protect it."""
    upstream = lab.namespace_behind("upstream", "g2", "192.0.2")
    lab.service("192.0.2.130:9000", namespace=upstream, capacity=CAPACITY, backlog=BACKLOG)
    lab.nginx("192.0.2.1:8081", upstream="192.0.2.130:9000")
    sluice = lab.sluice(demo.CONFIG)
    storm = lab.storm("192.0.2.1:8081", seconds=4, **demo.STORMS["3 greedy"])
    good = lab.clients("192.0.2.1:8081", "good=198.18.0.1/30@2", seconds=4).result()["good"]
    storm.result()
    refused = sluice.service("nginx")["refused"]
    assert good["served"] >= 0.99 * good["attempts"], good
    assert refused["rate_limited"] > 10000
    assert refused.get("accept_pressure", 0) + refused.get("queue_wait", 0) <= 0.01 * good["attempts"]


# --- the demo itself ---------------------------------------------------------------------------------------------------


def leftovers(pid):
    """Namespaces and pins that the process with this pid made."""
    places = [Path("/run/netns"), Path("/sys/fs/bpf")]
    return [entry for place in places if place.exists() for entry in place.glob(f"slc-{pid}-*")]


def start_demo(*args):
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests/e2e/demo.py"), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_demo_shows_what_it_promises():
    """Greedy, equal and spoofed storms on the bounded-accept service, without and with sluice; see demo.checks()."""
    running = start_demo("--quick")
    out, _ = running.communicate(timeout=120)
    print(out)
    assert running.returncode == 0, out
    assert not leftovers(running.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_interrupted_leaves_nothing(number):
    running = start_demo("--quick", "--without")
    wait_for(lambda: leftovers(running.pid), "the demo's namespaces")
    running.send_signal(number)
    running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert not leftovers(running.pid)
