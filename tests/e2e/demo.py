# SPDX-License-Identifier: GPL-2.0-only
"""demo: three storms on two services, each without and with sluice, and a table of what became of the good clients.

Exit 0 only if with sluice the bounded-accept service is kept healthy and without it was visibly worse. Started by
scripts/demo, which builds what this needs.
"""

import argparse
import contextlib
import signal
import sys
import time
from dataclasses import dataclass, field

from rig import Lab

CAPACITY, BACKLOG = 200, 511
PATIENCE_S = 1.5
GOOD = 30  # sources, each GOOD_RATE connections a second: 30 % of the capacity
GOOD_RATE = 2
LOW, HIGH = 5, 10  # marks, percent of the backlog
MARK = BACKLOG * HIGH // 100
MAX_WAIT_MS = 250
UPSTREAM = "192.0.2.130:9000"
WARM_UP_S = 10
KNOWN_OVER_S = 5

TOPOLOGY = f"""\
   good clients                      gateway                          storm
   {GOOD} x 198.18.0.x    c0 ---- g0   XDP: sluice    g1 ---- s0    packet socket:
   {GOOD_RATE} requests/s each,          |                            3, 10 000 or 1 M sources
   patience {PATIENCE_S} s              |
                                 +-- 192.0.2.1:8080  app    accepts what it can serve: {CAPACITY}/s, backlog {BACKLOG}
                                 +-- 192.0.2.1:8081  nginx  accepts at once; its upstream serves {CAPACITY}/s
"""

STORMS = {
    "3 greedy": {"sources": 3, "rate": 6000, "handshake": True},
    "10 000 equal": {"sources": 10000, "rate": 10000 * GOOD_RATE, "handshake": True},
    "1 M spoofed": {"sources": 1 << 20, "rate": 250000},
}

CONFIG = {
    "known": {"turns": 3, "over": f"{KNOWN_OVER_S}s"},
    "services": [
        {
            "name": "app",
            "listen": ["192.0.2.1:8080"],
            "source": {"rate": "20/s", "burst": 40},
            "total": {"rate": "195/s", "burst": 40},
            "accept_queue": {"low": f"{LOW}%", "high": f"{HIGH}%", "target": "20ms", "max_wait": f"{MAX_WAIT_MS}ms"},
        },
        {
            "name": "nginx",
            "listen": ["192.0.2.1:8081"],
            "source": {"rate": "20/s", "burst": 40},
            "accept_queue": {"low": "50%", "high": "90%", "target": "20ms", "max_wait": f"{MAX_WAIT_MS}ms"},
        },
    ],
}

WITH_SLUICE = f"""\
-- sluice on g0 and g1. app: source 20/s burst 40, total 195/s burst 40, accept queue {LOW} to {HIGH} %, max_wait {MAX_WAIT_MS} ms
   nginx: source 20/s burst 40, accept queue 50 to 90 %, max_wait {MAX_WAIT_MS} ms
-- {WARM_UP_S} s of good clients alone: after 3 answered turns over {KNOWN_OVER_S} s they are known-good"""


@dataclass
class Run:
    """What one storm did to one service."""

    service: str
    storm: str
    sluice: bool
    seconds: float
    good: dict = field(default_factory=dict)
    others: dict = field(default_factory=dict)  # the storm's own account
    queue: dict = field(default_factory=dict)
    head_age_ms: float = 0.0
    overflows: int = 0
    sent: int = 0  # segments the gateway sent
    refused: dict = field(default_factory=dict)

    @property
    def good_share(self):
        return self.good["served"] / self.good["attempts"]

    @property
    def served_rate(self):
        """Answers within patience a second while the storm lasts, good clients and storm together."""
        return (self.good["served_in_window"] + self.others["served_in_window"]) / self.seconds


class Backend:
    """The bounded-accept application, or nginx with its upstream."""

    def __init__(self, lab, name):
        self.name = name
        self.port = 8080 if name == "app" else 8081
        capacity = {"capacity": CAPACITY, "backlog": BACKLOG}
        if name == "app":
            self.bounded, self.nginx = lab.service(self.address, **capacity), None
        else:
            self.bounded = lab.service(UPSTREAM, namespace=lab.upstream, **capacity)
            self.nginx = lab.nginx(self.address, upstream=UPSTREAM, backlog=BACKLOG)

    @property
    def address(self):
        return f"192.0.2.1:{self.port}"

    def stop(self):
        """Returns the bounded part's own account."""
        if self.nginx:
            self.nginx.stop()
        return self.bounded.stop()


def refused_by_reason(sluice, name):
    return sluice.service(name)["refused"] if sluice else {}


def run_storm(lab, name, storm, seconds, sluice=None):
    """One storm beside the good clients; the service is started anew, so that no run inherits a queue."""
    run = Run(name, storm, sluice is not None, seconds)
    backend = Backend(lab, name)
    before = refused_by_reason(sluice, name)
    counters = lab.since()
    watch = lab.watch(backend.port)
    attack = lab.storm(backend.address, seconds=seconds, **STORMS[storm])
    good = lab.clients(
        backend.address, f"good=198.18.0.1/{GOOD}@{GOOD_RATE}", seconds=seconds, patience_ms=int(PATIENCE_S * 1000)
    )
    run.good = good.result()["good"]
    run.others = attack.result()
    run.queue = watch.stop()
    after = counters()
    run.overflows, run.sent = after["ListenOverflows"], after["OutSegs"]
    run.refused = {
        reason: count - before.get(reason, 0)
        for reason, count in refused_by_reason(sluice, name).items()
        if count > before.get(reason, 0)
    }
    run.head_age_ms = backend.stop()["queue_wait_ms"]["max"] or 0.0
    return run


def warm_up(lab, seconds):
    """Good clients alone, long enough to become known-good."""
    backends = [Backend(lab, name) for name in ("app", "nginx")]
    running = [
        lab.clients(backend.address, f"good=198.18.0.1/{GOOD}@{GOOD_RATE}", seconds=seconds) for backend in backends
    ]
    results = [tool.result()["good"] for tool in running]
    for backend in backends:
        backend.stop()
    return results


# --- the table ---------------------------------------------------------------------------------------------------------

HEADER = (
    f"{'service':7} {'storm':12} {'sluice':6} {'good served':>12} {'P50 ms':>7} {'P99 ms':>7} {'all/s':>6} "
    f"{'queue max':>9} {'head ms':>8} {'overflows':>9} {'sent':>8}  refused by sluice"
)


def milliseconds(value):
    return "-" if value is None else f"{value:.0f}"


def row(run):
    good = f"{run.good['served']}/{run.good['attempts']} {100 * run.good_share:3.0f}%"
    times = run.good["served_ms"]
    head = milliseconds(run.head_age_ms) + ("*" if run.service == "nginx" else "")
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(run.refused.items())) or "-"
    return (
        f"{run.service:7} {run.storm:12} {'yes' if run.sluice else 'no':6} {good:>12} {milliseconds(times['p50']):>7} "
        f"{milliseconds(times['p99']):>7} {run.served_rate:6.0f} {run.queue['max']:9} {head:>8} "
        f"{run.overflows:9} {run.sent:8}  {reasons}"
    )


LEGEND = f"""\
good served: answered within {PATIENCE_S} s.  all/s: such answers a second while the storm lasts, to its clients too.
queue max: highest occupancy of the accept queue (limit {BACKLOG}).  head: longest wait in it.  overflows: ListenOverflows.
sent: TCP segments the gateway sent, SYN-ACKs to spoofed addresses among them."""

LEGEND_NGINX = """\
*: wait in the upstream's queue; nginx accepts at once, so its own queue fills only when it cannot keep up with
accepting, long after its upstream is lost. What the gate refuses then does not help: the source buckets alone protect
it here, and 10 000 equal sources are more than they can hold back."""


# --- what must hold ----------------------------------------------------------------------------------------------------


def checks(runs):
    """(text, holds) for each promise about the bounded-accept service."""
    app = {(run.storm, run.sluice): run for run in runs if run.service == "app"}
    for storm in STORMS:
        run = app[storm, True]
        yield f"{storm}: no overflow with sluice ({run.overflows})", run.overflows == 0
        yield f"{storm}: occupancy {run.queue['max']} <= mark {MARK}", run.queue["max"] <= MARK
    for storm in ("3 greedy", "1 M spoofed"):
        share = app[storm, True].good_share
        yield f"{storm}: good clients served {100 * share:.1f} % >= 99 %", share >= 0.99
    equal = app["10 000 equal", True]
    yield (
        f"10 000 equal: {equal.served_rate:.0f}/s served within patience >= 90 % of {CAPACITY}/s",
        equal.served_rate >= 0.9 * CAPACITY,
    )
    yield f"10 000 equal: known-good served {100 * equal.good_share:.1f} % >= 95 %", equal.good_share >= 0.95
    for storm in ("3 greedy", "10 000 equal"):
        bare, kept = app[storm, False], app[storm, True]
        yield (
            f"{storm}: without sluice visibly worse ({100 * bare.good_share:.0f} % of good clients, {bare.overflows} overflows)",
            bare.good_share < kept.good_share - 0.2 and bare.overflows > 0,
        )
    # SYN cookies let the kernel serve good clients under spoofed SYNs; what it cannot help is answering each of them.
    bare, kept = app["1 M spoofed", False], app["1 M spoofed", True]
    yield (
        f"1 M spoofed: without sluice the gateway sent {bare.sent} segments to strangers, with it {kept.sent}",
        bare.sent > 10 * kept.sent,
    )


def parse_args():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="half the seconds, the bounded-accept service only")
    parser.add_argument("--without", action="store_true", help="only the half without sluice; checks nothing")
    return parser.parse_args()


def stop_on_signal(number, _frame):
    raise SystemExit(128 + number)


def show(runs, run):
    runs.append(run)
    print(row(run), flush=True)


def main():
    args = parse_args()
    signal.signal(signal.SIGTERM, stop_on_signal)
    seconds = 2 if args.quick else 4
    services = ["app"] if args.quick else ["app", "nginx"]
    runs, began = [], time.monotonic()
    print(TOPOLOGY)
    with Lab() as lab:
        lab.upstream = lab.namespace_behind("upstream", "g2", "192.0.2")
        print(HEADER, flush=True)
        for name in services:
            for storm in STORMS:
                show(runs, run_storm(lab, name, storm, seconds))
        if args.without:
            return 0
        sluice = lab.sluice(CONFIG)
        print(WITH_SLUICE, flush=True)
        warm_up(lab, WARM_UP_S)
        for name in services:
            for storm in STORMS:
                show(runs, run_storm(lab, name, storm, seconds, sluice))
    print(f"\n{LEGEND}")
    print(f"{LEGEND_NGINX}\n" if "nginx" in services else "")
    failed = 0
    for text, holds in checks(runs):
        print(f"{'ok  ' if holds else 'FAIL'} {text}")
        failed += not holds
    print(f"\n{time.monotonic() - began:.0f} s; {'all holds' if not failed else f'{failed} checks failed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
