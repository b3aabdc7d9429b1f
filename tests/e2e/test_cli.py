# SPDX-License-Identifier: GPL-2.0-only
"""sluicectl against a running sluiced, against a daemon that misbehaves, and without any.

Bad input has one table (BAD_INPUT): each row's message names the key, the value and what is accepted, the status is
not 0, and every map that the user side writes dumps the same before and after.
"""

import http.server
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.parse

import pytest

from rig import BUILD, ROOT, SERVICE_V4, Namespace, command, wait_for

CTL = BUILD / "sluicectl"
TO = f"{SERVICE_V4}:8080"
APP = {
    "name": "app",
    "listen": [TO],
    "source": {"rate": "20/s", "burst": 40},
    "total": {"rate": "500/s", "burst": 100},
    "accept_queue": {"low": "50%", "high": "90%", "target": "20ms", "max_wait": "250ms"},
}
OTHER = {"name": "other", "listen": ["*:9000"], "total": {"rate": "100/s", "burst": 10}}
# Written by the user side. slc_decision changes with every tick by itself; so do the lease and, rarely, the salts.
TICKED = ("lease_until_ns", "salt", "salt_index")
USER_MAPS = ("slc_control", "slc_services", "slc_trust", "slc_ports", "slc_policy", "slc_orders", "slc_override", "slc_known")


def ctl(*args, sluice=None, timeout=30):
    """sluicectl as it is, in the daemon's namespace where there is one."""
    words = sluice.namespace.inside(CTL, "--socket", sluice.socket) if sluice else [CTL]
    words = [os.fsencode(w) for w in words] + [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in args]
    return subprocess.run(
        words, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, encoding="utf-8", errors="replace", check=False
    )


def dump(pins):
    """Every map of the user side as bpftool shows it, inner maps too, without what a tick writes."""
    maps = {}
    for name in USER_MAPS:
        path = pins / name
        assert path.exists(), f"{path} is not pinned"
        maps[name] = json.loads(command("bpftool", "-j", "map", "dump", "pinned", path).stdout)
    for name in ("slc_services", "slc_trust"):
        maps[name] = [inner(entry) for entry in maps[name]]
    for entry in maps["slc_control"]:
        del entry["value"]  # raw bytes, the lease among them; `formatted` has the same by name
        for name in TICKED:
            del entry["formatted"]["value"][name]
    return maps


def inner(entry):
    """An entry of a map of maps names its inner map by id: the inner map's content instead."""
    value = entry.get("value", entry.get("inner_map_id"))
    number = value if isinstance(value, int) else int.from_bytes(bytes(int(b, 16) for b in value), "little")
    done = command("bpftool", "-j", "map", "dump", "id", number, check=False)
    return [entry.get("key"), json.loads(done.stdout) if done.returncode == 0 else None]


@pytest.fixture
def sluice(lab):
    return lab.sluice({"services": [APP, OTHER]})


# --- bad input ---------------------------------------------------------------------------------------------------------

REASON = ("--reason", "test")
LONG = "x" * 10240
# what it is: (arguments, exit status, words that the message has)
BAD_INPUT = {
    "unknown command": (("frobnicate",), 2, ("frobnicate", "--help")),
    "half a command": (("service",), 2, ("service list", "service show")),
    "unknown option": (("status", "--jsno"), 2, ("--jsno", "--json")),
    "unknown service": (("service", "show", "ap"), 1, ("service", "ap", "app, other")),
    "unknown service in limits": (("limits", "set", "web", "total.rate=5/s", *REASON), 1, ("service", "web", "app")),
    "unknown service in drain": (("drain", "web"), 1, ("service", "web", "app")),
    "unknown limit": (("limits", "set", "app", "source.rat=5/s", *REASON), 2, ("source.rat", "source.rate")),
    "limit without value": (("limits", "set", "app", "source.rate", *REASON), 2, ("source.rate", "KEY=VALUE")),
    "limit given empty": (("limits", "set", "app", "source.rate=", *REASON), 2, ("source.rate", "accepted")),
    "rate zero": (("limits", "set", "app", "source.rate=0/s", *REASON), 2, ("source.rate", "0/s", "accepted", "deny")),
    "rate negative": (("limits", "set", "app", "source.rate=-5/s", *REASON), 2, ("source.rate", "-5/s", "accepted")),
    "rate without unit": (("limits", "set", "app", "total.rate=5", *REASON), 2, ("total.rate", '"5"', "unit")),
    "rate too high": (("limits", "set", "app", "total.rate=4294967296/s", *REASON), 2, ("4294967296/s", "100000000/s")),
    "burst zero": (("limits", "set", "app", "total.burst=0", *REASON), 2, ("total.burst", "0", "accepted")),
    "burst with unit": (("limits", "set", "app", "total.burst=5/s", *REASON), 2, ("total.burst", "5/s", "accepted")),
    "burst overflow": (
        ("limits", "set", "app", "total.burst=18446744073709551617", *REASON),
        2,
        ("total.burst", "18446744073709551617", "accepted"),
    ),
    "concurrent zero": (("limits", "set", "app", "source.concurrent=0", *REASON), 2, ("source.concurrent", "0", "accepted", "deny")),
    "no reason": (("deny", "203.0.113.0/24"), 2, ("--reason", "1 to 500 bytes")),
    "reason empty": (("deny", "203.0.113.0/24", "--reason", ""), 2, ("--reason", "1 to 500 bytes", "empty")),
    "reason of 10 kB": (("deny", "203.0.113.0/24", "--reason", LONG), 2, ("--reason", "10240 bytes", "1 to 500 bytes")),
    "reason with a control character": (
        ("deny", "203.0.113.0/24", "--reason", "a\x07b"),
        2,
        ("--reason", "a?b", "control character"),
    ),
    "reason not UTF-8": (("deny", "203.0.113.0/24", "--reason", b"a\xff"), 2, ("--reason", "UTF-8")),
    "for zero": (("deny", "203.0.113.0/24", "--for", "0s", *REASON), 2, ("--for", "0s", "1s to 8760h")),
    "for negative": (("deny", "203.0.113.0/24", "--for", "-10m", *REASON), 2, ("--for", "-10m", "1s to 8760h")),
    "for 100 years": (("deny", "203.0.113.0/24", "--for", "100y", *REASON), 2, ("--for", "100y", "1s to 8760h")),
    "for 876000 hours": (("deny", "203.0.113.0/24", "--for", "876000h", *REASON), 2, ("--for", "876000h", "1s to 8760h")),
    "for without unit": (("deny", "203.0.113.0/24", "--for", "600", *REASON), 2, ("--for", "600", "unit")),
    "deny everybody": (("deny", "0.0.0.0/0", *REASON), 1, ("cidr", "0.0.0.0/0", "--force")),
    "deny everybody of IPv6": (("deny", "::/0", *REASON), 1, ("cidr", "::/0", "--force")),
    "prefix too long": (("deny", "203.0.113.0/33", *REASON), 2, ("CIDR", "203.0.113.0/33", "0 to 32")),
    "allow everybody": (("allow", "0.0.0.0/0", *REASON), 1, ("cidr", "0.0.0.0/0", "--force")),
    "no prefix at all": (("deny", "everybody", *REASON), 2, ("CIDR", "everybody", "accepted")),
    "allow without bound": (("allow", "192.0.2.0/24", "--ceiling", "unlimited", *REASON), 2, ("--ceiling", "unlimited")),
    "ceiling zero": (("allow", "192.0.2.0/24", "--ceiling", "0/s", *REASON), 2, ("--ceiling", "0/s")),
    "limit of rows": (("source", "top", "--limit", "100000"), 2, ("--limit", "100000", "1 to 1000")),
    "no address": (("source", "show", "localhost"), 2, ("ADDRESS", "localhost")),
    "no override": (("overrides", "release", "4711"), 1, ("4711", "overrides list")),
    "breaker without a reason": (("breaker", "open", "app"), 2, ("--reason", "1 to 500 bytes")),
    "breaker closed without a reason": (("breaker", "close", "app", "--for", "10m"), 2, ("--reason", "1 to 500 bytes")),
    "breaker with an empty reason": (("breaker", "open", "app", "--reason", " "), 2, ("--reason", "empty")),
    "breaker for zero": (("breaker", "open", "app", "--for", "0s", *REASON), 2, ("--for", "0s", "1s to 8760h")),
    "breaker for without unit": (("breaker", "close", "app", "--for", "600", *REASON), 2, ("--for", "600", "unit")),
    "breaker auto for a time": (("breaker", "auto", "app", "--for", "1m"), 2, ("--for", "1m", "breaker auto")),
    "breaker order unknown": (("breaker", "opne", "app", *REASON), 2, ("breaker opne", "breaker open", "breaker auto")),
    "unknown service in breaker": (("breaker", "open", "ap", *REASON), 1, ("service", "ap", "app, other", "did you mean")),
    "unknown service in breaker auto": (("breaker", "auto", "web"), 1, ("service", "web", "app")),
    "unknown service in events": (("events", "--service", "web"), 1, ("service", "web", "app")),
    "unknown service in a follow": (("events", "--follow", "--service", "ap"), 1, ("service", "ap", "app")),
    "kind of event": (("events", "--kind", "trip"), 2, ("--kind", "trip", "breaker, refusal")),
    "number of event": (("events", "--after", "new"), 2, ("--after", "new", "seq")),
    "override not a number": (("overrides", "release", "all"), 2, ("ID", "all", "overrides list")),
    "no file": (("config", "load", "/nowhere/sluice.yaml"), 1, ("/nowhere/sluice.yaml", "No such file")),
    "a directory for a file": (("config", "load", "/proc"), 1, ("/proc", "directory")),
    "no file to compare with": (("config", "diff", "/nowhere/sluice.yaml"), 1, ("/nowhere/sluice.yaml", "No such file")),
}

# key or place, value, part of what is accepted; the file is the daemon's with `change` put into service app or the top
BAD_FILES = {
    "low above high": ({"accept_queue": {"low": "95%", "high": "90%"}}, ("low", "95%", "90%")),
    "target above max_wait": ({"accept_queue": {"target": "300ms", "max_wait": "250ms"}}, ("target", "300ms", "250ms")),
    "target equal to max_wait": ({"accept_queue": {"target": "250ms", "max_wait": "250ms"}}, ("target", "250ms")),
    "rate of zero": ({"source": {"rate": "0/s", "burst": 1}}, ("source.rate", "0/s", "accepted")),
    "negative rate": ({"source": {"rate": "-1/s", "burst": 1}}, ("source.rate", "-1/s", "accepted")),
    "rate without unit": ({"source": {"rate": 20, "burst": 1}}, ("source.rate", "20", "unit")),
    "rate without burst": ({"source": {"rate": "20/s"}}, ("source", "burst")),
    "burst overflow": ({"total": {"rate": "1/s", "burst": 4294967296}}, ("total.burst", "4294967296", "accepted")),
    "duration without unit": ({"accept_queue": {"max_wait": 250}}, ("max_wait", "250", "unit")),
    "unknown key": ({"sorce": {"rate": "20/s"}}, ("sorce", "source")),
    "unknown protocol": ({"protocol": "sctp"}, ("protocol", "sctp", "tcp")),
    "two services on one address": ({"listen": ["*:9000"]}, ("9000", "other")),
    "no port": ({"listen": ["192.0.2.1"]}, ("listen", "192.0.2.1", "port")),
}


def names_all(text, words):
    return [word for word in words if word not in text]


def test_bad_input_changes_nothing(sluice):
    """One daemon for all rows: what any of them left behind would show in the next comparison too."""
    before, faults = dump(sluice.pins), []
    for name, (args, status, words) in BAD_INPUT.items():
        done = ctl(*args, sluice=sluice)
        if done.returncode != status:
            faults.append(f"{name}: exit {done.returncode}, not {status}: {done.stderr}")
        if lacking := names_all(done.stderr, words):
            faults.append(f"{name}: {lacking} not in: {done.stderr}")
        if not done.stderr.startswith("sluicectl: ") or done.stdout:
            faults.append(f"{name}: stdout {done.stdout!r}, stderr {done.stderr!r}")
        if dump(sluice.pins) != before:
            faults.append(f"{name}: a map changed")
            before = dump(sluice.pins)
    assert not faults, "\n".join(faults)
    assert ctl("overrides", "list", "--json", sluice=sluice).stdout.split() == ['{', '"overrides":', "[]", "}"]


def test_c130_bad_files_change_nothing(sluice, tmp_path):
    """`config load` and `config check` say the same about a bad file; the one in force stays."""
    good, faults = json.loads(sluice.config_file.read_text()), []
    before = dump(sluice.pins)
    for name, (change, words) in BAD_FILES.items():
        bad = json.loads(json.dumps(good))
        app = bad["services"][0]
        for key, value in change.items():
            if key == "source" or key == "total" or not isinstance(value, dict):
                app[key] = value
            else:
                app[key] = app.get(key, {}) | value
        path = tmp_path / "bad.yaml"
        path.write_text(json.dumps(bad, indent=1))
        for verb in ("load", "check"):
            done = ctl("config", verb, path, sluice=sluice)
            if done.returncode != 1:
                faults.append(f"{name}: {verb}: exit {done.returncode}")
            if lacking := names_all(done.stderr, (str(path), *words)):
                faults.append(f"{name}: {verb}: {lacking} not in: {done.stderr}")
        if dump(sluice.pins) != before:
            faults.append(f"{name}: a map changed")
    raw = {
        "interface twice": good | {"interfaces": [{"name": "g0"}, {"name": "g0"}]},
        "no services": good | {"services": []},
        "not a mapping": "just words\n",
        "empty": "",
        "truncated": sluice.config_file.read_text()[:-40],
        "not UTF-8": b"services: \xff\xfe\n",
        "1 MB and more": "# " + "x" * (1 << 20) + "\n" + json.dumps(good),
    }
    for name, text in raw.items():
        path = tmp_path / "bad.yaml"
        path.write_bytes(text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode())
        done = ctl("config", "load", path, sluice=sluice)
        if done.returncode != 1 or str(path) not in done.stderr:
            faults.append(f"{name}: exit {done.returncode}: {done.stderr}")
        if dump(sluice.pins) != before:
            faults.append(f"{name}: a map changed")
    status = sluice.status()
    assert status["config"]["last_reload_success"] is False
    assert not faults, "\n".join(faults)
    assert ctl("config", "load", sluice=sluice).returncode == 0
    assert sluice.status()["config"]["last_reload_success"] is True
    assert dump(sluice.pins) == before


def post(sluice, path, body, headers=()):
    """A request that sluicectl would not send: (status, answer)."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(sluice.socket))
        head = [f"POST {path} HTTP/1.1", "Host: sluiced", "Connection: close", f"Content-Length: {len(body)}", *headers]
        try:
            s.sendall("\r\n".join([*head, "", ""]).encode() + body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was read
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest.decode(errors="replace")


def test_bad_bodies_change_nothing(sluice):
    """What only a program can send: too large, not UTF-8, not JSON, of other types."""
    deny = {"action": "deny", "cidr": "203.0.113.0/24", "reason": "x"}
    rows = {
        "over 1 MB": ("/v1/orders", json.dumps(deny | {"reason": "x" * (1 << 20)}).encode(), (413,)),
        "not UTF-8": ("/v1/orders", b'{"action":"deny","cidr":"203.0.113.0/24","reason":"\xff"}', (400,)),
        "not JSON": ("/v1/orders", b"deny 203.0.113.0/24", (400,)),
        "an array": ("/v1/orders", b"[1]", (400,)),
        "deep": ("/v1/orders", b"[" * 100000, (400,)),
        "empty": ("/v1/orders", b"", (400,)),
        "NUL in the reason": ("/v1/orders", json.dumps(deny | {"reason": "a\0b"}).encode(), (400,)),
        "reason a number": ("/v1/orders", json.dumps(deny | {"reason": 7}).encode(), (400,)),
        "for a number": ("/v1/orders", json.dumps(deny | {"for": 600}).encode(), (400,)),
        "for 0s": ("/v1/orders", json.dumps(deny | {"for": "0s"}).encode(), (400,)),
        "for 100y": ("/v1/orders", json.dumps(deny | {"for": "100y"}).encode(), (400,)),
        "unknown key": ("/v1/orders", json.dumps(deny | {"forr": "1h"}).encode(), (400,)),
        "unknown action": ("/v1/orders", json.dumps(deny | {"action": "ban"}).encode(), (400,)),
        "everybody": ("/v1/orders", json.dumps(deny | {"cidr": "0.0.0.0/0"}).encode(), (400, 409)),
        "a limit of zero": (
            "/v1/limits",
            json.dumps({"service": "app", "set": {"source.rate": "0/s"}, "reason": "x"}).encode(),
            (400,),
        ),
        "no limits": ("/v1/limits", json.dumps({"service": "app", "set": {}, "reason": "x"}).encode(), (400,)),
        "limits a list": ("/v1/limits", json.dumps({"service": "app", "set": [], "reason": "x"}).encode(), (400,)),
        "no such path": ("/v1/nothing", b"{}", (404,)),
        "another method's path": ("/v1/status", b"{}", (404, 405)),
        "breaker order unknown": ("/v1/services/app/breaker", b'{"order":"half","reason":"x"}', (400,)),
        "breaker order missing": ("/v1/services/app/breaker", b'{"reason":"x"}', (400,)),
        "breaker without reason": ("/v1/services/app/breaker", b'{"order":"open"}', (400,)),
        "breaker reason a number": ("/v1/services/app/breaker", b'{"order":"close","reason":7}', (400,)),
        "breaker for 0s": ("/v1/services/app/breaker", b'{"order":"open","reason":"x","for":"0s"}', (400,)),
        "breaker key unknown": ("/v1/services/app/breaker", b'{"order":"open","reason":"x","fro":"1m"}', (400,)),
        "breaker of nobody": ("/v1/services/nobody/breaker", b'{"order":"open","reason":"x"}', (404,)),
    }
    before, faults = dump(sluice.pins), []
    for name, (path, body, statuses) in rows.items():
        status, answer = post(sluice, path, body)
        if status not in statuses:
            faults.append(f"{name}: HTTP {status}, not {statuses}: {answer[:200]}")
        elif "message" not in (json.loads(answer).get("error") or {}):
            faults.append(f"{name}: no error.message: {answer[:200]}")
        if dump(sluice.pins) != before:
            faults.append(f"{name}: a map changed")
            before = dump(sluice.pins)
    assert not faults, "\n".join(faults)


# --- orders ------------------------------------------------------------------------------------------------------------


def test_c134_c129_limits_hold_and_fall_back(sluice):
    """An override is in force when the command returns, says where it comes from, and leaves nothing behind."""
    before = dump(sluice.pins)
    answer = sluice.ctl("limits", "set", "app", "source.rate=5/s", "total.concurrent=50", "--for", "10m", "--reason", "slow db")
    number = answer["override"]["id"]
    limits = sluice.service("app")["limits"]
    assert (limits["source"]["rate"], limits["total"]["concurrent"]) == ("5/s", 50)
    assert limits["source"]["origin"] == f"override {number}"
    changed = dump(sluice.pins)
    assert changed["slc_override"] != before["slc_override"]
    assert {n: m for n, m in changed.items() if n != "slc_override"} == {
        n: m for n, m in before.items() if n != "slc_override"
    }
    listed = sluice.ctl("overrides", "list")["overrides"]
    assert [(o["id"], o["reason"]) for o in listed] == [(number, "slow db")]
    text = ctl("service", "show", "app", sluice=sluice).stdout
    assert "slow db" in text and "source.rate 5/s" in text and f"override {number}" in text
    sluice.ctl("overrides", "release", number)
    limits = sluice.service("app")["limits"]
    assert (limits["source"]["rate"], limits["total"]["concurrent"], limits["source"]["origin"]) == ("20/s", None, "file")
    assert sluice.ctl("overrides", "list")["overrides"] == []
    done = ctl("overrides", "release", number, sluice=sluice)
    assert done.returncode == 1 and str(number) in done.stderr


def test_an_order_ends_by_itself(sluice):
    sluice.ctl("deny", "203.0.113.0/24", "--for", "1s", "--reason", "x")
    assert [o["cidr"] for o in sluice.ctl("overrides", "list")["overrides"]] == ["203.0.113.0/24"]
    wait_for(lambda: not sluice.ctl("overrides", "list")["overrides"], "the order ends", 5, 0.1)
    assert json.loads(command("bpftool", "-j", "map", "dump", "pinned", sluice.pins / "slc_orders").stdout) == []


def test_deny_acts_and_release_ends_it(lab, sluice):
    lab.service(TO, capacity=200, backlog=64)
    number = sluice.ctl("deny", "198.18.0.0/24", "--reason", "x")["override"]["id"]
    good = lab.clients(TO, "good=198.18.0.1/2@5", seconds=2).result()["good"]
    assert good["served"] == 0
    assert sluice.service("app")["refused"]["denied"] > 0
    sluice.ctl("overrides", "release", number)
    good = lab.clients(TO, "good=198.18.0.1/2@5", seconds=2).result()["good"]
    assert good["served"] > 0


def test_allow_has_a_ceiling(sluice):
    sluice.ctl("allow", "198.18.0.0/24", "--reason", "x")
    order = sluice.ctl("trust", "list")["orders"][0]
    assert (order["cidr"], order["action"], order["ceiling"]) == ("198.18.0.0/24", "allow", "1000/s")


def test_force_denies_everybody(sluice):
    done = ctl("deny", "0.0.0.0/0", "--force", "--for", "1m", *REASON, sluice=sluice)
    assert done.returncode == 0, done.stderr
    assert [o["cidr"] for o in sluice.ctl("overrides", "list")["overrides"]] == ["0.0.0.0/0"]


# --- the breaker's orders ----------------------------------------------------------------------------------------------


def forced(sluice):
    """What the packet path sees of breaker orders: flags, and open or closed, by slot."""
    values = [entry["formatted"]["value"] for entry in dump(sluice.pins)["slc_override"]]
    halves = [value["half"][value["word"] & 1] for value in values]
    return [(half["flags"], half["breaker_open"]) for half in halves if half["flags"]]


def test_c88_forced_states_are_read_back(lab, sluice):
    """Open, closed, auto: reported from the maps, enforced in the packet path, in status, and in an event each."""
    lab.service(TO, capacity=200, backlog=64)
    assert forced(sluice) == []
    answer = sluice.ctl("breaker", "open", "app", "--for", "10m", "--reason", "restore")
    assert answer["breaker"]["state"] == "forced_open" and answer["override"]["reason"] == "restore"
    assert [is_open for _, is_open in forced(sluice)] == [1]
    assert sluice.service("app")["breaker"]["state"] == "forced_open"
    assert lab.clients(TO, "good=198.18.0.1/2@5", seconds=1).result()["good"]["served"] == 0
    assert sluice.service("app")["refused"]["circuit_open"] > 0
    listed = [o for o in sluice.ctl("overrides", "list")["overrides"] if o["kind"] == "breaker"]
    assert [(o["service"], o["reason"]) for o in listed] == [("app", "restore")] and listed[0]["seconds_left"] > 500
    text = ctl("service", "show", "app", sluice=sluice).stdout
    assert text.startswith("app: breaker FORCED OPEN") and "restore" in text and "breaker auto app" in text
    assert "FORCED OPEN" in ctl("service", "list", sluice=sluice).stdout

    done = ctl("breaker", "close", "app", "--reason", "test of it", sluice=sluice)
    assert done.returncode == 0 and "state forced_closed" in done.stdout and "even while it is broken" in done.stderr
    assert len([o for o in sluice.ctl("overrides", "list")["overrides"] if o["kind"] == "breaker"]) == 1, "one a service"
    assert [is_open for _, is_open in forced(sluice)] == [0]
    assert lab.clients(TO, "good=198.18.0.1/2@5", seconds=2).result()["good"]["served"] > 0
    assert "FORCED CLOSED" in ctl("service", "show", "app", sluice=sluice).stdout.splitlines()[0]

    for _ in range(2):  # a second time there is nothing to end, and that is no error
        done = ctl("breaker", "auto", "app", sluice=sluice)
        assert done.returncode == 0 and "read back: state closed" in done.stdout and "no override" in done.stdout
    assert forced(sluice) == []
    assert sluice.service("other")["breaker"]["state"] not in ("forced_open", "forced_closed")
    done = ctl("events", "--kind", "breaker", "--service", "app", "--json", sluice=sluice)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["rule"] for e in events] == ["order_open", "order_closed", "order_over"]
    assert all(e["schema"] == "sluice.breaker.v1" and e["service"] == "app" for e in events)
    assert [e["seq"] for e in events] == sorted({e["seq"] for e in events})
    assert [e["generation"] for e in events] == sorted({e["generation"] for e in events})
    assert events[0]["order"]["reason"] == "restore" and "service" in events[0]["context"]


def test_c88_a_forced_state_outlives_the_daemon_and_ends_in_time(sluice):
    sluice.ctl("breaker", "open", "app", "--for", "3s", "--reason", "x")
    sluice.stop(signal.SIGKILL)
    assert [is_open for _, is_open in forced(sluice)] == [1], "the order is the kernel's"
    sluice.start()
    wait_for(lambda: not sluice.ctl("overrides", "list")["overrides"], "the order ends", 8, 0.1)
    wait_for(lambda: sluice.service("app")["breaker"]["state"] != "forced_open", "and with it the state", 5, 0.1)


def test_an_override_of_the_breaker_can_be_released(sluice):
    number = sluice.ctl("breaker", "open", "app", "--reason", "x")["override"]["id"]
    sluice.ctl("overrides", "release", number)
    wait_for(lambda: sluice.service("app")["breaker"]["state"] != "forced_open", "the state ends", 5, 0.1)


def test_follow_sees_the_breaker(sluice, following):
    """JSON lines as they happen, over a restart of the real daemon too."""
    follow = following(sluice.socket, "--kind", "breaker", "--json", inside=sluice.namespace.inside())
    people = following(sluice.socket, "--service", "app", inside=sluice.namespace.inside())
    other = following(sluice.socket, "--service", "other", inside=sluice.namespace.inside())
    time.sleep(1)
    sluice.ctl("breaker", "open", "app", "--reason", "look")
    first = json.loads(follow.has(1, 3)[0])
    assert (first["service"], first["to"], first["order"]["reason"]) == ("app", "forced_open", "look")
    assert {"schema", "seq", "mono_ns", "wall", "generation", "rule", "from", "enforced", "context"} <= set(first)
    assert "app  breaker closed -> forced_open" in people.has(1, 3)[0] and "look" in people.lines[0]
    sluice.stop()
    wait_for(lambda: follow.errors, "the outage is said", 5)
    sluice.start()
    wait_for(lambda: any("answers again" in e for e in follow.errors), "it is back", 5)
    sluice.ctl("breaker", "auto", "app")
    wait_for(lambda: any(json.loads(line)["rule"] == "order_over" for line in follow.lines), "the end is seen", 5)
    assert follow.end() == 0 and people.end() == 0 and other.end() == 0
    assert other.lines == []


def test_a_trip_is_told_with_its_figures(lab, following):
    """The service resets everything: the rule and its figures in the event, in the first sentence, and a word in lists."""
    faulty = lab.faulty(TO)
    breaker = {"open": {"base": "20s", "cap": "40s", "jitter": "none"}}
    service = {"name": "app", "listen": [TO], "slow_after": "200ms", "timeout": "1s", "breaker": breaker}
    sluice = lab.sluice({"known": {"turns": 3, "over": "1s"}, "services": [service]})
    follow = following(sluice.socket, "--kind", "breaker", inside=sluice.namespace.inside())
    load = lab.clients(TO, "good=198.18.0.1/40@5", seconds=10)
    time.sleep(4)
    text = ctl("service", "show", "app", sluice=sluice).stdout
    assert text.startswith("app: nothing is refused now") and "breaker closed since" in text and "  answered " in text
    assert re.search(r"answer, 60 s +[\d.]+ ms", text), "percentiles"
    faulty.order("reset")
    line = follow.has(1, 8)[0]
    assert re.search(r"breaker closed -> open: (fast|long) rule, \d+ of \d+ .*outcomes.* failed \(\d+ %\) from \d+ of \d+ sources, probes", line)
    text = ctl("service", "show", "app", sluice=sluice).stdout
    figures = re.search(r"(fast|long) rule, \d+ of \d+ [a-z ]+ failed \(\d+ %", line)[0]
    assert text.startswith("app: breaker OPEN since") and figures in text.splitlines()[0], (figures, text)
    assert "opens at 50%" in text.splitlines()[0] and "probes in 1" in text.splitlines()[0]
    assert "RST by the service" in text
    row = ctl("service", "list", sluice=sluice).stdout.splitlines()[1]
    assert " OPEN " in row and re.search(r"\d/[\d.]+ ms", row), row
    load.stop()


def test_an_event_reader_that_never_reads(lab, sluice):
    """Its pipe is full and it stands still; the daemon, its lease and every other reader go on."""
    read_end, write_end = os.pipe()
    words = sluice.namespace.inside(CTL, "--socket", sluice.socket, "events", "--follow", "--json")
    stuck = [subprocess.Popen([str(w) for w in words], stdout=write_end, stderr=subprocess.DEVNULL) for _ in range(3)]
    os.close(write_end)
    try:
        sluice.ctl("deny", "198.18.0.0/15", "--reason", "x")
        lab.clients(TO, "good=198.18.0.1/50@40", seconds=4).result()
        assert sluice.service("app")["refused"]["denied"] > 500
        began = time.monotonic()
        for _ in range(20):
            assert sluice.status()["failsafe"] is False
        assert time.monotonic() - began < 10
        pipe_size = 65536
        listed = ctl("events", "--json", "--kind", "refusal", sluice=sluice)
        assert listed.returncode == 0 and len(listed.stdout) > 0
        assert all(one.poll() is None for one in stuck), "they wait, they do not end"
        assert len(os.read(read_end, 2 * pipe_size)) > pipe_size // 2, "the pipe was full"
        os.close(read_end)
        read_end = -1
        assert [one.wait(15) for one in stuck] == [0, 0, 0]
    finally:
        for one in stuck:
            if one.poll() is None:
                one.kill()
                one.wait()
        if read_end >= 0:
            os.close(read_end)


# --- what README says --------------------------------------------------------------------------------------------------


def readme_tables():
    """First cells of every table row: the names between backticks."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", text, re.M)
    return {name: second for first, second in rows for name in re.findall(r"`(\w+)`", first)}, text


def test_readme_has_every_outcome_with_its_class():
    documented, text = readme_tables()
    outcomes = re.findall(r'X\((\w+), (SUCCESS|FAILURE|NEUTRAL), "(.*?)"\)', (ROOT / "maps/outcomes.h").read_text(encoding="utf-8"))
    assert len(outcomes) > 10
    assert not [row for row in outcomes if f"| `{row[0]}` | {row[1].lower()} | {row[2]} |" not in text]
    rules = re.findall(r'X\((\w+), 1, ".*?"\)', (ROOT / "user/decide/breaker_transitions.h").read_text(encoding="utf-8"))
    assert len(rules) == 6 and not [rule for rule in rules if rule not in documented]


def test_readme_has_every_member_of_an_event(lab, sluice):
    """And of a service what the API promises is there, before anything was seen: null or 0, never -1."""
    sluice.ctl("deny", "198.18.0.0/15", "--reason", "x")
    lab.clients(TO, "good=198.18.0.1/2@5", seconds=1).result()
    sluice.ctl("breaker", "open", "app", "--reason", "x")
    events = [json.loads(line) for line in ctl("events", "--json", sluice=sluice).stdout.splitlines()]
    assert {"sluice.breaker.v1", "sluice.refusal.v1"} == {e["schema"] for e in events}
    documented, _ = readme_tables()
    ports = {"source_port", "destination_port"}  # "ports" in README
    assert not {key for e in events for key in e} - set(documented) - ports
    service = json.loads(ctl("service", "show", "other", "--json", sluice=sluice).stdout)
    assert {"success", "failure", "neutral", "by_kind"} <= set(service["outcomes"])
    assert {"p50", "p95", "p99", "samples"} <= set(service["latency_ms"]) and service["latency_ms"]["p99"] is None
    assert {"state", "rule", "generation", "probes", "mode", "figures"} <= set(service["breaker"])
    assert service["breaker"]["mode"] == "metrics" and service["visibility"] in ("bytes", "none")
    assert "-1" not in json.dumps([service[k] for k in ("outcomes", "latency_ms", "breaker", "health", "turns")])
    text = ctl("service", "show", "other", sluice=sluice).stdout
    assert "breaker closed" in text and "metrics-only" in text and "answer, 60 s" in text


# --- drain -------------------------------------------------------------------------------------------------------------


def open_connection(lab, port=8080):
    with lab.clients_ns.entered():
        return socket.create_connection((SERVICE_V4, port), timeout=5)


def accepted(sluice, count):
    def all_open():
        app = sluice.service("app")
        return app["open_connections"] + app["before_start_connections"] == count

    wait_for(all_open, f"{count} connections are open", 5)


@pytest.fixture
def listener(lab):
    """Accepts and keeps connections until the client closes."""
    with lab.gateway.entered():
        server = socketserver.ThreadingTCPServer((SERVICE_V4, 8080), Keep)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


class Keep(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(100):
            pass


def test_drain_waits_for_the_last_connection(lab, listener, sluice):
    kept = open_connection(lab)
    accepted(sluice, 1)
    done = ctl("drain", "app", "--for", "1s", sluice=sluice)
    assert done.returncode == 3, done.stderr
    assert "app drains: 1 open" in done.stdout
    assert "still has 1 open connection" in done.stderr and "1s" in done.stderr
    assert sluice.service("app")["draining"] is True, "draining stays until undrain"
    assert "DRAINING" in ctl("service", "show", "app", sluice=sluice).stdout

    waiting = subprocess.Popen(
        sluice.namespace.inside(CTL, "--socket", sluice.socket, "drain", "app", "--for", "30s"),
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    assert waiting.poll() is None
    kept.close()
    out, _ = waiting.communicate(timeout=10)
    assert waiting.returncode == 0
    assert "no connection is open" in out

    with pytest.raises(OSError):
        with lab.clients_ns.entered():
            socket.create_connection((SERVICE_V4, 8080), timeout=1.5)
    assert sluice.service("app")["refused"]["draining"] > 0
    assert ctl("undrain", "app", sluice=sluice).returncode == 0
    assert sluice.service("app")["draining"] is False
    open_connection(lab).close()


def test_drain_with_json(lab, listener, sluice):
    end = sluice.ctl("drain", "app", "--for", "5s", "--reason", "x")
    assert end == {"service": "app", "open_connections": 0, "drained": True}
    assert isinstance(end["open_connections"], int)


# --- answers -----------------------------------------------------------------------------------------------------------


def test_json_everywhere(sluice):
    """With --json stdout is one JSON value and nothing else, refusals included."""
    lines = (
        ("status",),
        ("service", "list"),
        ("service", "show", "app"),
        ("source", "top"),
        ("source", "show", "198.51.100.7"),
        ("limits", "set", "app", "total.rate=400/s", *REASON),
        ("deny", "203.0.113.0/24", *REASON),
        ("allow", "192.0.2.7/32", *REASON),
        ("trust", "list"),
        ("overrides", "list"),
        ("overrides", "release", "1"),
        ("drain", "other", "--for", "5s"),
        ("undrain", "other"),
        ("breaker", "open", "other", *REASON),
        ("breaker", "close", "other", "--for", "1m", *REASON),
        ("breaker", "auto", "other"),
        ("config", "check", sluice.config_file),
        ("config", "check", "--effective", sluice.config_file),
        ("config", "load"),
        ("config", "diff"),
        ("doctor",),
        ("version",),
    )
    for line in lines:
        done = ctl(*line, "--json", sluice=sluice)
        assert done.returncode == 0, (line, done.stderr)
        json.loads(done.stdout)
        text = ctl(*line, sluice=sluice) if line[0] not in ("overrides", "deny", "allow", "limits") else done
        assert text.returncode == 0 and text.stdout, line
        assert "\x1b" not in text.stdout, "no colours without a terminal"
    for line, status in (
        (("service", "show", "nobody"), 1),
        (("limits", "set", "app", "source.rate=0", *REASON), 2),
        (("deny", "203.0.113.0/24"), 2),
        (("frob",), 2),
        (("help", "frob"), 2),
        (("status", "--socket", "/nonexistent/socket"), 2),  # --socket is given twice
    ):
        done = ctl(*line, "--json", sluice=sluice)
        assert done.returncode == status and done.stderr, line
        assert json.loads(done.stdout)["error"]["message"], line


def test_status_has_what_the_contract_says(sluice):
    status = sluice.status()
    assert {"version", "interfaces", "failsafe", "services"} <= set(status)
    assert all({"name", "mode", "program_id"} <= set(i) for i in status["interfaces"])
    for service in status["services"]:
        assert {"name", "signal", "attempts", "admitted", "refused", "open_connections", "accept_queue"} <= set(service)
        assert {"length", "limit", "head_age_ms", "listeners"} <= set(service["accept_queue"])


def test_check_and_effective_need_no_daemon(tmp_path):
    path = tmp_path / "sluice.yaml"
    path.write_text("interfaces: [{name: eth0}]\nservices:\n  - {name: web, listen: ['192.0.2.1:443']}\n")
    assert ctl("config", "check", path).returncode == 0
    effective = json.loads(ctl("config", "check", "--effective", path).stdout)
    assert effective
    path.write_text("interfaces: [{name: eth0}]\nservices:\n  - {nmae: web, listen: ['192.0.2.1:443']}\n")
    done = ctl("config", "check", path)
    assert done.returncode == 1
    assert f"{path}:3" in done.stderr and "nmae" in done.stderr and "name" in done.stderr


# --- without a daemon, and with one that misbehaves --------------------------------------------------------------------


def test_nobody_answers(tmp_path):
    done = ctl("--socket", tmp_path / "none.sock", "status")
    assert done.returncode == 4
    assert str(tmp_path / "none.sock") in done.stderr and "No such file" in done.stderr
    done = ctl("--socket", tmp_path / "none.sock", "status", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["value"] == str(tmp_path / "none.sock")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead.sock"))
    dead.close()
    done = ctl("--socket", tmp_path / "dead.sock", "status")
    assert done.returncode == 4 and "refused" in done.stderr


def test_c104_detach_without_a_daemon_is_a_success_twice(tmp_path):
    """Nothing there is no error; a second time neither."""
    for _ in range(2):
        done = ctl("--socket", tmp_path / "none.sock", "detach", "--pins", "/sys/fs/bpf/slc-test-cli-nothing")
        assert done.returncode == 0, done.stderr


def at_cgroups():
    """Ids of the programs that `bpftool cgroup tree` shows; those of other tests among them."""
    tree = json.loads(command("bpftool", "-j", "cgroup", "tree").stdout)
    return {program["id"] for cgroup in tree for program in cgroup["programs"]}


def on_sockets(sluice):
    """Ids of the programs behind its links at the cgroup2 root: sockops and both of turns."""
    pins = [sluice.pins / f"link_{name}" for name in ("sockops", "ingress", "egress")]
    return {json.loads(command("bpftool", "-j", "link", "show", "pinned", pin).stdout)["prog_id"] for pin in pins}


def test_c104_detach_leaves_nothing(sluice):
    assert sluice.pins.exists()
    ours = on_sockets(sluice)
    assert len(ours) == 3 and ours <= at_cgroups()
    done = ctl("detach", sluice=sluice)
    assert done.returncode == 0, done.stderr
    assert not sluice.pins.exists() and not ours & at_cgroups()
    links = json.loads(sluice.namespace.run("ip", "-j", "link").stdout)
    assert not [link["ifname"] for link in links if "xdp" in link]
    wait_for(lambda: sluice.process.poll() is not None, "the daemon ends")
    assert sluice.process.returncode == 0
    assert ctl("status", sluice=sluice).returncode == 4


def test_detach_after_the_daemon_was_killed(sluice):
    sluice.process.kill()
    sluice.process.wait()
    assert sluice.pins.exists(), "enforcement outlives the daemon"
    ours = on_sockets(sluice)
    assert len(ours) == 3 and ours <= at_cgroups()
    done = ctl("detach", "--pins", sluice.pins, sluice=sluice)
    assert done.returncode == 0, done.stderr
    assert not sluice.pins.exists() and not ours & at_cgroups()
    links = json.loads(sluice.namespace.run("ip", "-j", "link").stdout)
    assert not [link["ifname"] for link in links if "xdp" in link]


def test_doctor_without_a_daemon(lab, tmp_path):
    """Finds the listener's backlog and the interface, in the namespace it runs in."""
    lab.service(TO, backlog=5)
    path = tmp_path / "sluice.yaml"
    path.write_text(json.dumps({"interfaces": [{"name": "g0"}, {"name": "gone0"}], "services": [APP]}))
    done = lab.gateway.run(CTL, "doctor", "--config", path, "--json", check=False)
    report = json.loads(done.stdout)
    found = {(f["check"], f["subject"]): f for f in report["findings"]}
    assert found["backlog", f"app {TO}"]["level"] == "WARN" and "5:" in found["backlog", f"app {TO}"]["what"]
    assert found["interface", "g0"]["level"] == "OK"
    assert found["interface", "gone0"]["level"] == "WARN"
    assert {"kernel", "btf", "cgroup2", "bpffs", "bpf_jit", "tcp_syncookies", "tcp_abort_on_overflow"} <= {
        check for check, _ in found
    }
    assert done.returncode == (0 if report["ok"] else 1)
    lab.gateway.sysctl("net.ipv4.tcp_abort_on_overflow", 1)
    text = lab.gateway.run(CTL, "doctor", "--config", path, check=False).stdout
    assert "WARN tcp_abort_on_overflow: 1" in text and "sysctl -w net.ipv4.tcp_abort_on_overflow=0" in text


class Liar(http.server.BaseHTTPRequestHandler):
    """Answers with what the test put into the server."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"


@pytest.fixture
def liar(tmp_path):
    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        answers = [(200, b"{}")]

    server = Server(str(tmp_path / "liar.sock"), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "answer, words",
    [
        ((200, b""), "not JSON"),
        ((200, b"<html>"), "not JSON"),
        ((200, b'{"services":'), "not JSON"),
        ((500, b"{}"), "HTTP status 500"),
        ((400, b'{"error":{"message":"bad \\u001b[2J screen","key":"k","value":"v"}}'), "bad ?[2J screen"),
    ],
)
def test_odd_answers_are_failures(liar, answer, words):
    liar.answers = [answer]
    done = ctl("--socket", liar.server_address, "status")
    assert done.returncode == 1
    assert words in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_doctor_asks_the_daemon(liar):
    """What the policy says, whatever the signal is; and what the daemon advises about a breaker."""
    status = {"interfaces": [], "services": [{"name": "with gate"}, {"name": "gone"}, {"name": "without"}]}
    status |= {"sockops": {"attached": True, "why": None}, "turns": {"attached": False, "why": "program id 7 stands there"}}
    gate = {"name": "with gate", "protocol": "tcp", "signal": "inflight", "listen": ["203.0.113.77:1"]}
    gate |= {"policy": {"action": "reset", "netns": "host", "accept_queue": {"low": "50%"}}}
    gate |= {"breaker": {"advice": "services[with gate].breaker.open.base: 1s is less than 3 x 400ms"}}
    without = {"name": "without", "protocol": "tcp", "signal": "accept", "listen": ["203.0.113.77:2"]}
    without |= {"policy": {"action": "drop", "netns": "host"}, "breaker": {"advice": None}}
    gone = {"error": {"message": "no such service"}}
    liar.answers = [(code, json.dumps(a).encode()) for code, a in ((200, status), (200, gate), (404, gone), (200, without))]
    done = ctl("--socket", liar.server_address, "doctor", "--json")
    found = {(f["check"], f["subject"]): f for f in json.loads(done.stdout)["findings"]}
    assert found["listener", "with gate"]["level"] == "WARN" and found["listener", "without"]["level"] == "OK"
    assert ("listener", "gone") not in found
    assert found["breaker", "with gate"]["what"] == gate["breaker"]["advice"]
    assert found["breaker", "with gate"]["level"] == "WARN" and ("breaker", "without") not in found
    assert found["no_turns", ""]["level"] == "WARN" and found["no_turns", ""]["what"] == "program id 7 stands there"
    assert ("no_sockops", "") not in found


# --- events, and a daemon that can be made to do anything --------------------------------------------------------------


class Fake:
    """Answers /v1/status and /v1/events as the daemon does, from a list that the test appends to."""

    def __init__(self, path, pid):
        self.pid, self.events, self.lost, self.asked, self.open = pid, [], 0, [], True
        self.moved = threading.Condition()
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, answer = fake.answer(urllib.parse.urlsplit(self.path))
                body = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # who asked is gone

            def log_message(self, *_):
                pass

            def address_string(self):
                return "unix"

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.path = path
        self.server = Server(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, url):
        if url.path == "/v1/status":
            return 200, {"pid": self.pid}
        query = dict(urllib.parse.parse_qsl(url.query))
        self.asked.append(query)
        with self.moved:
            def newer():
                return [e for e in self.events if e["seq"] > int(query.get("after", 0))]
            self.moved.wait_for(lambda: newer() or not self.open, int(query.get("wait", 0)) / 1000)
            if not self.open:
                return 503, {"error": {"message": "sluiced ends"}}
            lost, self.lost = self.lost, 0
            return 200, {"events": newer(), "seq": max([e["seq"] for e in self.events], default=0), "lost": lost}

    def happen(self, seq, mono_ns=None, **fields):
        event = {"schema": "sluice.breaker.v1", "seq": seq, "mono_ns": mono_ns or seq, "wall": "2026-01-02T03:04:05.678Z"}
        event |= {"service": "app", "rule": "fast", "from": "closed", "to": "open", "enforced": True} | fields
        with self.moved:
            self.events.append(event)
            self.moved.notify_all()

    def end(self):
        with self.moved:
            self.open = False
            self.moved.notify_all()
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)


class Follow:
    """sluicectl events --follow, and the lines it has printed."""

    def __init__(self, path, *args, inside=()):
        words = [*inside, CTL, "--socket", path, "events", "--follow", *args]
        self.process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.errors = [], []
        for stream, kept in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=self._read, args=(stream, kept), daemon=True).start()

    @staticmethod
    def _read(stream, kept):
        for line in stream:
            kept.append(line.rstrip("\n"))

    def has(self, count, timeout=10):
        wait_for(lambda: len(self.lines) >= count, f"{count} lines, there are {self.lines} {self.errors}", timeout, 0.02)
        return self.lines

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.process.wait(5)


@pytest.fixture
def following():
    """Starts follows; none of them outlives the test."""
    started = []

    def start(*args, **kwargs):
        started.append(Follow(*args, **kwargs))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_events_are_listed(tmp_path):
    fake = Fake(tmp_path / "fake.sock", pid=7)
    assert ctl("--socket", fake.path, "events").stdout == "no events\n"
    assert ctl("--socket", fake.path, "events", "--json").stdout == ""
    for seq in (1, 2, 3):
        fake.happen(seq)
    done = ctl("--socket", fake.path, "events", "--after", "1", "--service", "app", "--kind", "breaker", "--json")
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [2, 3]
    assert fake.asked[-1] == {"after": "1", "service": "app", "kind": "breaker"}
    fake.lost = 5
    done = ctl("--socket", fake.path, "events", "--after", "1")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert "app  breaker closed -> open: fast rule" in done.stdout
    assert "5 events are lost" in done.stderr
    fake.end()


def test_follow_survives_a_restart(tmp_path, following):
    """Each event once, in order, through a daemon that ends, is away, and numbers anew; said on stderr only."""
    path = tmp_path / "fake.sock"
    fake = Fake(path, pid=7)
    for seq in range(1, 6):
        fake.happen(seq)
    follow = following(path, "--json")
    follow.has(5)
    fake.happen(6)
    follow.has(6)
    assert fake.asked[:2] == [{}, {"after": "5", "wait": "10000"}]
    fake.end()
    wait_for(lambda: any("waiting for it" in e for e in follow.errors), "the outage is said", 5)
    fake = Fake(path, pid=8)
    fake.happen(1, mono_ns=6)  # from before, as a daemon that keeps events over a restart has it
    fake.happen(2, mono_ns=7)
    follow.has(7)
    fake.happen(3, mono_ns=8)
    fake.lost = 4
    fake.happen(4, mono_ns=9)
    follow.has(9)
    assert [json.loads(line)["mono_ns"] for line in follow.lines] == list(range(1, 10))
    assert sum("waiting for it" in e for e in follow.errors) == 1
    assert any("answers again; it was restarted" in e for e in follow.errors)
    assert follow.end() == 0
    fake.end()


def test_follow_says_what_is_lost(tmp_path, following):
    fake = Fake(tmp_path / "fake.sock", pid=7)
    fake.happen(1)
    follow = following(fake.path, "--after", "1")
    wait_for(lambda: fake.asked, "it asks")
    fake.lost = 3
    fake.happen(5)
    follow.has(1)
    wait_for(lambda: any("3 events are lost" in e for e in follow.errors), "the loss is said", 5)
    assert follow.end(signal.SIGTERM) == 0
    fake.end()


def test_follow_ends_with_its_reader(tmp_path):
    """A reader that closes its end, with or without a further event: status 0, and no word."""
    for more in (False, True):
        fake = Fake(tmp_path / f"fake-{more}.sock", pid=7)
        fake.happen(1)
        process = subprocess.Popen(
            [CTL, "--socket", fake.path, "events", "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert "breaker closed -> open" in process.stdout.readline()
        process.stdout.close()
        if more:
            fake.happen(2)
        assert process.wait(5) == 0
        assert process.stderr.read() == ""
        fake.end()
    with open("/dev/full", "wb") as full:
        fake = Fake(tmp_path / "full.sock", pid=7)
        fake.happen(1)
        done = subprocess.run(
            [CTL, "--socket", fake.path, "events", "--follow"], stdout=full, stderr=subprocess.PIPE, timeout=10, check=False
        )
        assert done.returncode == 1 and b"No space left" in done.stderr
        fake.end()


def test_follow_of_a_daemon_that_is_not_there(tmp_path):
    done = ctl("--socket", tmp_path / "none.sock", "events", "--follow")
    assert done.returncode == 4 and "No such file" in done.stderr


@pytest.mark.parametrize(
    "order, answer, status",
    [
        ("open", {"breaker": {"state": "forced_open"}, "override": {"id": 3}}, 0),
        ("open", {"breaker": {"state": "closed"}, "override": {"id": 3}}, 1),
        ("open", {"breaker": {"state": "forced_open"}, "override": None}, 1),
        ("open", {}, 1),
        ("close", {"breaker": {"state": "forced_closed"}, "override": {"id": 3}}, 0),
        ("close", {"breaker": {"state": "forced_open"}, "override": {"id": 3}}, 1),
        ("auto", {"breaker": {"state": "half_open"}, "override": None}, 0),
        ("auto", {"breaker": {"state": "forced_open"}, "override": None}, 1),
        ("auto", {"breaker": {"state": "closed"}, "override": {"id": 3}}, 1),
    ],
)
def test_c88_success_is_what_was_read_back(liar, order, answer, status):
    """An answer of HTTP 200 alone is no success."""
    liar.answers = [(200, json.dumps(answer).encode())]
    reason = () if order == "auto" else REASON
    done = ctl("--socket", liar.server_address, "breaker", order, "app", *reason)
    assert done.returncode == status, done.stderr
    assert ("read back: state" in done.stdout) == (status == 0)
    assert ("even while it is broken" in done.stderr) == (order == "close" and status == 0)
    assert status == 0 or "read back were state" in done.stderr


def test_drain_ends_when_the_daemon_does(liar):
    liar.answers = [
        (200, b'{"service":"app","open_connections":3}'),
        (200, b'{"open_connections":3}'),
        (200, b'{"open_connections":2,"before_start_connections":1}'),
        (503, b'{"error":{"message":"sluiced is detached and ends"}}'),
    ]
    done = ctl("--socket", liar.server_address, "drain", "app", "--for", "30s")
    assert done.returncode == 1
    assert "3 open" in done.stdout and "detached" in done.stderr


def test_a_full_disk_is_no_success():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([CTL, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"cannot write" in done.stderr


def test_help_needs_no_daemon():
    for words in (("--help",), ("help",), ("help", "limits"), ("limits", "set", "--help"), ("--version",)):
        done = ctl(*words)
        assert done.returncode == 0 and done.stdout and not done.stderr, words
    assert ctl("help", "nonsense").returncode == 2
