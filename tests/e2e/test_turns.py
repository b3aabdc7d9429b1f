# SPDX-License-Identifier: GPL-2.0-only
"""What sluice says about a service's answers, beside what the service and its clients know themselves."""

import math
import socket
import time

from rig import SERVICE_V4, in_thread, wait_for

PORT = 8080
TO = f"{SERVICE_V4}:{PORT}"


def config(**keys):
    """Metrics only: nothing is refused."""
    app = {"name": "app", "listen": [TO], "slow_after": "200ms", "timeout": "1s"}
    return {"services": [app | keys]}


# --- latency ---------------------------------------------------------------------------------------------------------

TURNS = 10300
HTTP = {
    "kept_alive": ({}, {"keep_alive": True, "connections": 64}),
    "one_shot": ({}, {"rate": 600}),
}
TLS = {
    "tls12_one_shot": ({"tls": 12}, {"tls": 12, "rate": 400}),
    "tls13_one_shot": ({"tls": 13}, {"tls": 13, "rate": 400}),
}
WITHIN = {"p50": (0.50, 0.05), "p95": (0.95, 0.05), "p99": (0.99, 0.10)}


def percentile(ordered, share):
    return ordered[math.ceil(share * len(ordered)) - 1]


def measure_latency(lab, protocols):
    """What sluice shows of each service, its own log in ms, and what the service says at its end."""
    to = {name: f"{SERVICE_V4}:{PORT + i}" for i, name in enumerate(protocols)}
    log = {name: lab.directory / name for name in protocols}
    services = {name: lab.delays(to[name], log[name], **of_service) for name, (of_service, _) in protocols.items()}
    app = config(timeout="5s")["services"][0]
    sluice = lab.sluice({"services": [app | {"name": name, "listen": [to[name]]} for name in protocols]})
    time.sleep(0.3)
    running = [lab.delays_client(to[name], turns=TURNS, **of_client) for name, (_, of_client) in protocols.items()]
    for client in running:
        result = client.result(100)
        assert result["failed"] == 0, result
    for name in protocols:
        wait_for(lambda: sluice.detail(name)["latency_5m_ms"]["samples"] >= 0.99 * TURNS, f"{name}: last answers")
        shown = sluice.ctl("service", "show", name)
        ended = services[name].stop()
        yield name, shown, sorted(int(line) / 1000 for line in log[name].read_text().split()), ended


def agrees(name, shown, own, ended):
    latency = shown["latency_5m_ms"]
    print(name, latency, {figure: percentile(own, share) for figure, (share, _) in WITHIN.items()})
    assert len(own) >= 10000 and ended["lost"] == 0, ended
    assert latency["samples"] <= 1.001 * len(own), "turns counted twice"
    for figure, (share, within) in WITHIN.items():
        expected = percentile(own, share)
        assert abs(latency[figure] - expected) <= within * expected, (name, figure, expected, latency)
    assert shown["visibility"] == "bytes"
    assert shown["outcomes"]["failure"] == 0, shown["outcomes"]


def test_latency_of_http_is_what_the_service_logged(lab):
    """Log-normal 10 to 500 ms, kept alive and one-shot: P50 and P95 within 5 %, P99 within 10 % of the service's log."""
    for name, shown, own, ended in measure_latency(lab, HTTP):
        agrees(name, shown, own, ended)
        assert shown["tls_handshake_ms"]["samples"] == 0


def test_latency_of_tls_is_what_the_service_logged(lab):
    """TLS 1.2 and 1.3 with session tickets, one request a connection; handshakes have a distribution of their own."""
    for name, shown, own, ended in measure_latency(lab, TLS):
        agrees(name, shown, own, ended)
        handshakes = shown["tls_handshake_ms"]
        assert handshakes["samples"] >= 0.99 * TURNS and handshakes["p50"] < 50, handshakes


# --- outcomes --------------------------------------------------------------------------------------------------------

CLIENTS = 20


def by_kind(sluice):
    return sluice.detail()["outcomes"]["by_kind"]


def clients(lab, patience_ms=1500):
    lab.clients(TO, f"good=198.18.0.1/{CLIENTS}@1", seconds=1, patience_ms=patience_ms).result()


def rude(lab, manner, hold_ms=20):
    """Each one once."""
    lab.rude(TO, manner, clients=CLIENTS, seconds=4, hold_ms=hold_ms, once=True).result()


# What the service does, what its clients do, and how all of it must be filed.
ROWS = [
    ("ok", clients, {}, "answered"),
    ("slow 400", clients, {}, "slow"),
    ("reset", clients, {}, "reset"),
    ("close", clients, {}, "closed_unanswered"),
    ("leave", clients, {}, "gave_up"),
    ("status 504", clients, {}, "http_5xx"),
    ("status 500", clients, {}, "answered"),
    ("stall", clients, {"patience_ms": 2500}, "unanswered"),
    ("slow 3000", clients, {"patience_ms": 500}, "abandoned"),
    ("slow 3000", rude, {"manner": "early", "hold_ms": 50}, "gave_up"),
    ("slow 3000", rude, {"manner": "abort", "hold_ms": 50}, "gave_up"),
    ("slow 3000", rude, {"manner": "abort", "hold_ms": 400}, "abandoned"),
    ("ok", rude, {"manner": "silent"}, "idle"),
    ("refuse", clients, {"patience_ms": 300}, "no_listener"),
]


def is_filed(kind, got):
    """All as `kind` and nothing else. Whoever leaves after the timeout has been counted already, and is `late` too."""
    others = set(got) - {kind, "late"}
    if kind == "no_listener":  # once a second and cell of sources: two may share one; and no handshake came of it
        return others <= {"handshake_lost"} and 0.7 * CLIENTS <= got.get(kind, 0) <= CLIENTS
    return not others and got.get(kind) == CLIENTS


def test_each_outcome_is_filed_as_its_kind(lab):
    """Twenty connections for each row of the table, and all of them are that kind."""
    service = lab.faulty(TO)
    sluice = lab.sluice(config(http={"status": [502, 503, 504]}))
    time.sleep(0.3)  # the first tick takes its bases
    wrong = []
    for mode, act, options, kind in ROWS:
        service.order(mode)
        before = by_kind(sluice)
        act(lab, **options)

        def filed():
            return {k: n - before.get(k, 0) for k, n in by_kind(sluice).items() if n != before.get(k, 0)}

        end = time.monotonic() + 3
        while filed().get(kind, 0) < CLIENTS and time.monotonic() < end:
            time.sleep(0.05)
        got = filed()
        print(f"{mode:12} {options} -> {got}")
        if not is_filed(kind, got):
            wrong.append((mode, options, kind, got))
    assert not wrong, "\n".join(map(str, wrong))
    assert sluice.detail()["visibility"] == "http"
    assert not any(sluice.detail()["refused"].values())


def test_full_queue_is_an_overflow(lab):
    """What the kernel drops for a full accept queue, where no gate keeps it from that, is neutral, and counted."""
    service = lab.faulty(TO, backlog=4)
    sluice = lab.sluice(config(accept_queue="none"))
    overflows = lab.since()
    service.order("fill")
    clients(lab)
    wait_for(lambda: by_kind(sluice)["overflow"] > 0, "overflows")
    dropped = overflows()["ListenDrops"]
    assert dropped > 0
    assert by_kind(sluice)["overflow"] <= dropped
    assert sluice.detail()["outcomes"]["neutral"] >= by_kind(sluice)["overflow"]


def test_own_refusals_are_no_outcomes(lab):
    """Fifty refused attempts of one source leave no trace among the outcomes."""
    lab.faulty(TO)
    sluice = lab.sluice(config(source={"rate": "1/m", "burst": 1}))
    lab.clients(TO, "good=198.18.0.1/1@50", seconds=1, patience_ms=300).result()
    detail = sluice.detail()
    assert detail["refused"]["rate_limited"] >= 45
    assert sum(detail["outcomes"]["by_kind"].values()) <= 2, detail["outcomes"]


# --- where a turn begins and where it ends --------------------------------------------------------------------------


def listen(lab, defer=0):
    with lab.gateway.entered():
        listener = socket.create_server((SERVICE_V4, PORT), backlog=64)
    if defer:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, defer)
    listener.settimeout(20)
    return listener


def serve(listener, count, handle):
    """Accepts `count` connections and gives each to a thread; join() waits for all of them."""

    def accept():
        for each in [in_thread(handle, listener.accept()[0]) for _ in range(count)]:
            each()

    return in_thread(accept)


def talk(lab, count, speak):
    """`count` clients of their own addresses, all at once."""

    def one(number):
        with lab.clients_ns.entered():
            client = socket.socket()
        with client:
            client.settimeout(10)
            client.bind((f"198.18.0.{number + 1}", 0))
            client.connect((SERVICE_V4, PORT))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            speak(client)

    for each in [in_thread(one, number) for number in range(count)]:
        each()


def answer_times(sluice, samples):
    wait_for(lambda: sluice.detail()["latency_5m_ms"]["samples"] >= samples, f"{samples} answers", 3)
    return sluice.detail()["latency_5m_ms"]


def near(shown, samples, ms):
    """All of the samples at one figure; threads of Python are some ms late."""
    assert shown["samples"] == samples, shown
    assert 0.95 * ms <= shown["p50"] <= 1.05 * ms + 10, shown


REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_slow_upload_is_not_a_slow_service(lab):
    """A request that takes 0.8 s to arrive and is answered 100 ms after its last byte: 100 ms."""

    def handle(conn):
        with conn:
            got = b""
            while len(got) < 9:
                got += conn.recv(100)
            time.sleep(0.1)
            conn.sendall(ANSWER)

    def speak(client):
        for _ in range(9):
            client.sendall(b"x")
            time.sleep(0.1)
        client.recv(100)

    listener = listen(lab)
    sluice = lab.sluice(config())
    done = serve(listener, 20, handle)
    talk(lab, 20, speak)
    done()
    near(answer_times(sluice, 20), 20, 100)
    assert sluice.detail()["outcomes"]["by_kind"]["answered"] == 20


def test_continue_is_no_answer(lab):
    """100 Continue at once, the body, and the answer 150 ms after it: one turn of 150 ms."""

    def handle(conn):
        with conn:
            conn.recv(1000)
            conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            conn.recv(1000)
            time.sleep(0.15)
            conn.sendall(ANSWER)

    def speak(client):
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        client.recv(100)
        time.sleep(0.05)
        client.sendall(b"body")
        client.recv(100)

    listener = listen(lab)
    sluice = lab.sluice(config(http={"status": [503]}))
    done = serve(listener, 20, handle)
    talk(lab, 20, speak)
    done()
    near(answer_times(sluice, 20), 20, 150)


def test_every_turn_of_a_kept_connection_counts(lab):
    """Five turns of 60 ms on each of ten connections, and a client that thinks between them."""

    def handle(conn):
        with conn:
            while conn.recv(1000):
                time.sleep(0.06)
                conn.sendall(ANSWER)

    def speak(client):
        for _ in range(5):
            client.sendall(REQUEST)
            client.recv(100)
            time.sleep(0.1)

    listener = listen(lab)
    sluice = lab.sluice(config())
    done = serve(listener, 10, handle)
    talk(lab, 10, speak)
    done()
    near(answer_times(sluice, 50), 50, 60)
    turns = sluice.detail()["turns"]
    assert (turns["begun"], turns["ended"], turns["in_flight"]) == (50, 50, 0)


def test_server_first(lab):
    """The service speaks first (SMTP): its greeting 80 ms after the handshake and its answers of 80 ms are turns."""

    def handle(conn):
        with conn:
            time.sleep(0.08)
            conn.sendall(b"220 ready\r\n")
            while conn.recv(100):
                time.sleep(0.08)
                conn.sendall(b"250 ok\r\n")

    def speak(client):
        client.recv(100)
        for _ in range(2):
            client.sendall(b"NOOP\r\n")
            client.recv(100)

    listener = listen(lab)
    sluice = lab.sluice(config(turns="server-first"))
    done = serve(listener, 10, handle)
    talk(lab, 10, speak)
    done()
    near(answer_times(sluice, 30), 30, 80)
    assert sluice.detail()["outcomes"]["failure"] == 0


def test_opaque_has_no_turns(lab):
    """turns: opaque: connections are counted, nothing is timed, and a close without an answer blames nobody."""

    def handle(conn):
        with conn:
            conn.recv(100)

    def speak(client):
        client.sendall(b"x")
        client.recv(100)

    listener = listen(lab)
    sluice = lab.sluice(config(turns="opaque"))
    done = serve(listener, 10, handle)
    talk(lab, 10, speak)
    done()
    wait_for(lambda: sluice.detail()["closed"] == 10, "ten closes")
    detail = sluice.detail()
    assert (detail["turns"]["begun"], detail["latency_5m_ms"]["samples"], detail["outcomes"]["failure"]) == (0, 0, 0)
    assert detail["visibility"] == "none"


def test_waiting_in_the_accept_queue_is_part_of_the_answer_time(lab):
    """Not accepted for 300 ms, then answered at once; TCP_DEFER_ACCEPT, whose request comes with the handshake, too."""

    def handle(conn):
        with conn:
            conn.recv(1000)
            conn.sendall(ANSWER)

    def speak(client):
        client.sendall(REQUEST)
        client.recv(100)

    for round_, defer in enumerate((0, 5), start=1):
        listener = listen(lab, defer)
        sluice = lab.sluice(config())
        clients_done = in_thread(talk, lab, 10, speak)
        time.sleep(0.3)
        done = serve(listener, 10, handle)
        clients_done()
        done()
        listener.close()
        shown = answer_times(sluice, 10)
        assert shown["samples"] == 10 and 250 <= shown["p50"] <= 400, (round_, shown)
        assert sluice.detail()["outcomes"]["by_kind"]["slow"] == 10
        sluice.close()


def test_udp_answers_are_timed(lab):
    """A UDP service that answers after 120 ms, and one in four not at all."""
    with lab.gateway.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((SERVICE_V4, PORT))
    server.settimeout(5)

    def answer_later(peer):
        time.sleep(0.12)
        server.sendto(b"a", peer)

    def answers():
        later = []
        for number in range(40):
            peer = server.recvfrom(100)[1]
            if number % 4:
                later.append(in_thread(answer_later, peer))
        for each in later:
            each()

    sluice = lab.sluice(config(protocol="udp"))
    done = in_thread(answers)
    sockets = []
    for number in range(40):
        with lab.clients_ns.entered():
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.bind((f"198.18.0.{number + 1}", 0))
        client.sendto(b"q", (SERVICE_V4, PORT))
        sockets.append(client)
        time.sleep(0.005)
    done()
    near(answer_times(sluice, 30), 30, 120)
    for client in sockets:
        client.close()
    server.close()
