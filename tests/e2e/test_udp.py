# SPDX-License-Identifier: GPL-2.0-only
"""UDP services: a datagram pays unless the service answered its 5-tuple within 30 s; the egress program stamps answers."""

import contextlib
import socket
import threading
import time

import pytest

from rig import SERVICE_V4, SERVICE_V6, wait_for

PORT = 5353
BURST = 5


def config(**keys):
    limits = {"rate": "1/h", "burst": BURST}  # nothing refills while a test runs
    service = {"name": "dns", "listen": [f"*:{PORT}"], "protocol": "udp", "source": limits} | keys
    return {"services": [service, {"name": "web", "listen": [f"*:{PORT}"], "source": limits}]}


class Answerer:
    """A UDP server in the gateway's namespace that answers what does not ask for silence."""

    def __init__(self, lab, address):
        with lab.gateway.entered():
            self.socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((address, PORT))
        self.got = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                data, peer = self.socket.recvfrom(2048)
                if data == b"end":
                    return
                self.got += 1
                if data != b"silence":
                    self.socket.sendto(data, peer)


@pytest.fixture(params=[(SERVICE_V4, "198.18.0.1"), (SERVICE_V6, "2001:db8:c::1")], ids=["v4", "v6"])
def ends(request):
    return request.param


def client(lab, source):
    with lab.clients_ns.entered():
        s = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((source, 0))
    s.settimeout(1)
    return s


def ask(s, to, data=b"?"):
    """True if the answer came."""
    s.sendto(data, (to, PORT))
    try:
        return s.recv(2048) == data
    except TimeoutError:
        return False


def test_answered_flow_is_free(lab, ends):
    """One attempt, then as many datagrams as the client likes: 200 with a burst of 5."""
    to, source = ends
    Answerer(lab, to)
    sluice = lab.sluice(config())
    s = client(lab, source)
    assert all(ask(s, to) for _ in range(200))
    dns = sluice.service("dns")
    assert dns["attempts"] == 1 and dns["admitted"] == 1
    assert dns["reasons"]["answered"] == 199
    assert not dns["refused"]


def test_unanswered_datagrams_pay(lab, ends):
    """A flow that nobody answers is an attempt each time: the burst, no more."""
    to, source = ends
    server = Answerer(lab, to)
    sluice = lab.sluice(config())
    s = client(lab, source)
    for _ in range(50):
        s.sendto(b"silence", (to, PORT))
    wait_for(lambda: sluice.service("dns")["attempts"] == 50, "50 attempts")
    assert sluice.service("dns")["refused"] == {"rate_limited": 50 - BURST}
    wait_for(lambda: server.got == BURST, "the burst at the server")


def test_other_flows_of_an_answered_source_pay(lab, ends):
    """The answer stamps one 5-tuple: another port of the same source is another flow."""
    to, source = ends
    Answerer(lab, to)
    sluice = lab.sluice(config())
    answered = sum(ask(client(lab, source), to) for _ in range(BURST + 3))
    assert answered == BURST
    assert sluice.service("dns")["refused"] == {"rate_limited": 3}


def test_tcp_service_of_the_same_port_is_another(lab):
    """Port and protocol together: what UDP spends, TCP does not pay."""
    Answerer(lab, SERVICE_V4)
    sluice = lab.sluice(config())
    s = client(lab, "198.18.0.1")
    for _ in range(20):
        s.sendto(b"silence", (SERVICE_V4, PORT))
    wait_for(lambda: sluice.service("dns")["refused"], "refusals")
    assert sluice.service("web")["attempts"] == 0


def test_datagrams_that_nobody_answers_never_open_the_breaker(lab):
    """Some of what is asked has no answer, and then it is quiet for longer than silence may be: nothing is in flight."""
    Answerer(lab, SERVICE_V4)
    limits = {"rate": "1000/s", "burst": 1000}
    sluice = lab.sluice(config(source=limits, timeout="1s", breaker={"mode": "enforce"}))
    clients = [client(lab, f"198.18.0.{1 + i}") for i in range(10)]
    for _ in range(8):
        for s in clients:
            assert all(ask(s, SERVICE_V4) for _ in range(4))
        for s in clients[:4]:
            s.sendto(b"silence", (SERVICE_V4, PORT))
        time.sleep(0.5)
    assert sluice.detail("dns")["turns"]["in_flight"] > 0
    time.sleep(10)
    dns = sluice.detail("dns")
    assert dns["breaker"]["state"] == "closed" and dns["breaker"]["generation"] == 0
    assert dns["turns"]["in_flight"] == 0
    assert dns["outcomes"]["by_kind"]["unanswered"] > 0
    assert ask(clients[0], SERVICE_V4)
