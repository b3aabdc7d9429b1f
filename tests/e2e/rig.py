# SPDX-License-Identifier: GPL-2.0-only
"""The test bench that all e2e tests and the demo share.

        clients                       gateway                        storm
   198.51.100.2  c0 ---------- g0  198.51.100.1
   198.18.0.0/15 (all local)       192.0.2.1, 2001:db8:a::1 (services, on lo)
   2001:db8:c::/48 (all local)     203.0.113.1  g1 ---------- s0  203.0.113.2
                                   every other source is routed there; storm answers nothing by itself

Good clients are real sockets in `clients`; storms are packet sockets in `storm`. Both interfaces of the gateway are
veths that take native XDP. All names are unique to the process, all waits are for a condition, and Lab.close()
removes everything. Nothing here uses a fixed path outside the checkout and the temporary directory.

    with Lab() as lab:
        service = lab.service("192.0.2.1:8080", capacity=200, backlog=511)
        sluice = lab.sluice({"services": [...]})
        good = lab.clients("192.0.2.1:8080", "good=198.18.0.1/30@2", seconds=5)
        print(good.result()["good"]["served"], sluice.service("app")["refused"])
"""

import contextlib
import ctypes
import functools
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOCKS = Path("/run/sluice")
CLONE_NEWNET = 0x40000000
SERVICE_V4 = "192.0.2.1"
SERVICE_V6 = "2001:db8:a::1"
GENERATOR_CPU, GATEWAY_CPU = 0, 1

_numbers = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)


def command(*args, check=True, **kwargs):
    """Runs a command to its end; its output is in the error when it fails."""
    done = subprocess.run([str(a) for a in args], text=True, capture_output=True, **kwargs)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_for(condition, what, timeout=10.0, every=0.01):
    """Waits until condition() is true and returns its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(every)


def threads_named(prefix):
    """Kernel threads and processes whose name begins so."""
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().startswith(prefix):
                found.add(int(comm.parent.name))
    return found


def on_cpu(cpu, realtime=False):
    """
    Prefix that pins a command where the machine has that CPU. `realtime` is for programs that sleep most of the
    time: a service whose capacity is the measure must not lose it to a build that runs beside the test, and a client
    that stands still for 200 ms is not the network that the test means.
    """
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None and cpu in os.sched_getaffinity(0) else []
    return (["chrt", "-f", "1"] if realtime and _may_be_realtime() else []) + pinned


@functools.cache
def _may_be_realtime():
    return subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, check=False).returncode == 0


class Namespace:
    """A network namespace of our own."""

    def __init__(self, role):
        self.name = f"slc-{os.getpid()}-{next(_numbers)}-{role}"
        try:
            command("ip", "netns", "add", self.name)
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:  # Ctrl-C too
            self.delete()
            raise

    @property
    def path(self):
        return f"/run/netns/{self.name}"

    def inside(self, *args, cpu=None, realtime=False):
        """The command line that runs `args` here; nsenter and not `ip netns exec`, which hides bpffs."""
        return ["nsenter", f"--net={self.path}", *on_cpu(cpu, realtime), *[str(a) for a in args]]

    def run(self, *args, **kwargs):
        return command(*self.inside(*args), **kwargs)

    def start(self, *args, cpu=None, realtime=False, **kwargs):
        return subprocess.Popen(self.inside(*args, cpu=cpu, realtime=realtime), **kwargs)

    def ip(self, line):
        return self.run("ip", *line.split())

    def sysctl(self, key, value):
        self.run("sysctl", "-qw", f"{key}={value}")

    @contextlib.contextmanager
    def entered(self):
        """Sockets that this thread opens inside the `with` belong to the namespace."""
        with open("/proc/thread-self/ns/net", "rb") as before, open(self.path, "rb") as ours:
            self._setns(ours)
            try:
                yield self
            finally:
                self._setns(before)

    @staticmethod
    def _setns(file):
        if _libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    def socket_counters(self):
        """TcpExt and IpExt of /proc/net/netstat, and Tcp of /proc/net/snmp, by name."""
        counters = {}
        for file in ("/proc/net/netstat", "/proc/net/snmp"):
            lines = self.run("cat", file).stdout.splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                prefix = names.split(":")[0]
                if prefix in ("TcpExt", "Tcp"):
                    counters |= dict(zip(names.split()[1:], map(int, values.split()[1:])))
        return counters

    def mac(self, interface):
        return json.loads(self.run("ip", "-j", "link", "show", interface).stdout)[0]["address"]

    def delete(self):
        command("ip", "netns", "del", self.name, check=False)


def remove_lock(pins):
    """What a sluiced that was killed leaves; it is named after its pins (user/datapath/lock.c)."""
    name = str(pins).lstrip("/").replace("-", "--").replace("/", "-")
    (LOCKS / f"{name}.lock").unlink(missing_ok=True)


def remove_orphans():
    """
    Namespaces, pins and locks of test runs that were killed: their names carry the number of a process that is gone.
    """
    for lock in LOCKS.glob("sys-fs-bpf-slc--*--*.lock"):
        number = lock.name.split("--")[1]
        if number.isdigit() and not Path("/proc", number).exists():
            lock.unlink(missing_ok=True)
    for place in (Path("/run/netns"), Path("/sys/fs/bpf")):
        for entry in place.glob("slc-*-*") if place.exists() else ():
            number = entry.name.split("-")[1]
            if not number.isdigit() or Path("/proc", number).exists():
                continue
            if place.name == "netns":
                command("ip", "netns", "del", entry.name, check=False)
            else:
                command(BUILD / "sluicectl", "detach", "--pins", entry, check=False)
                shutil.rmtree(entry, ignore_errors=True)


class Difference:
    """What a namespace's counters did since this was made: overflows = Difference(ns); ...; overflows()["ListenOverflows"]."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.before = namespace.socket_counters()

    def __call__(self):
        after = self.namespace.socket_counters()
        return {name: after[name] - self.before.get(name, 0) for name in after}


class Tool:
    """A running program of build/tools: ready when made; prints one JSON object at its end."""

    stdin = None

    def __init__(self, namespace, name, *args, cpu=None):
        path = BUILD / "tools" / name
        if not path.exists():
            raise FileNotFoundError(f"{path}: run `make tools`")
        self.name = name
        realtime = name != "storm" or "--handshake" in args  # a plain storm may be as fast as its CPU, so it waits
        pipes = {"stdin": self.stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = namespace.start(path, *args, cpu=cpu, realtime=realtime, **pipes)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name} did not start: {self.process.communicate()[1]}")
        self._result = None

    def signal(self, number):
        self.process.send_signal(number)

    def running(self):
        return self.process.poll() is None

    def result(self, timeout=60):
        """Waits for its end."""
        if self._result is None:
            out, err = self.process.communicate(timeout=timeout)
            if not out:
                raise RuntimeError(f"{self.name}: exit {self.process.returncode}, no result: {err}")
            self._result = json.loads(out)
        return self._result

    def stop(self, timeout=20):
        """Ends it now and returns its result."""
        if self.running():
            self.signal(signal.SIGTERM)
        return self.result(timeout)

    def kill(self):
        if self.running():
            self.process.kill()
            self.process.communicate()


class Faulty(Tool):
    """A service whose faults are switched while it runs; see tools/faulty.c."""

    stdin = subprocess.PIPE

    def __init__(self, namespace, *args, cpu=None):
        super().__init__(namespace, "faulty", *args, cpu=cpu)

    def order(self, line):
        """Changes the mode ("reset 70%", "slow 900"), or asks for `counters`. Returns the counters."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def counters(self):
        return self.order("counters")


class Nginx:
    """Real nginx with a generated configuration; proxies to `upstream`, or serves a fixed page without one."""

    CONFIG = """\
daemon off; worker_processes 1; user root; pid {dir}/nginx.pid; error_log {dir}/error.log crit;
events {{ worker_connections 65535; }}
worker_rlimit_nofile 131072;
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{
        listen {listen} backlog={backlog};
        location / {{ {action} }}
    }}
}}
"""

    def __init__(self, namespace, directory, listen, upstream=None, backlog=511, answer_within="60s", cpu=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        action = 'return 200 "ok\\n";'
        if upstream:
            action = f"proxy_pass http://{upstream}; proxy_read_timeout {answer_within};"
        config = self.directory / "nginx.conf"
        config.write_text(self.CONFIG.format(dir=self.directory, listen=listen, backlog=backlog, action=action))
        log = open(self.directory / "stderr", "w", encoding="utf-8")
        self.process = namespace.start("nginx", "-p", self.directory, "-c", config, cpu=cpu, stdout=log, stderr=log)
        log.close()
        port = listen.rsplit(":", 1)[1]
        wait_for(lambda: self._listens(namespace, port), f"nginx on {listen} (log in {self.directory})")

    def _listens(self, namespace, port):
        if self.process.poll() is not None:
            raise RuntimeError(f"nginx ended: {(self.directory / 'stderr').read_text()}")
        return namespace.run("ss", "-Htln", f"sport = :{port}").stdout

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    kill = stop


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path, timeout=20):
        super().__init__("sluiced", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Sluice:
    """A sluiced of our own: its pins, socket and state are in places that nothing else uses."""

    def __init__(self, namespace, directory, config, interfaces, cpu=None):
        self.namespace, self.cpu = namespace, cpu
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.pins = Path(f"/sys/fs/bpf/{namespace.name}-{next(_numbers)}")
        self.socket = self.directory / "sluice.sock"
        self.config_file = self.directory / "sluice.yaml"
        self.log_file = self.directory / "sluiced.log"
        self.interfaces = interfaces
        self.process = None
        self.write_config(config)

    def write_config(self, config):
        """Completes the configuration with what makes it ours. JSON is YAML; a string is written as it is."""
        if not isinstance(config, str):
            ours = {
                "socket": str(self.socket),
                "pins": str(self.pins),
                "state": str(self.directory / "state"),
                "metrics": "none",
            }
            control = ours | config.get("control", {})
            whole = {"interfaces": [{"name": name} for name in self.interfaces]} | config | {"control": control}
            config = json.dumps(whole, indent=1) + "\n"
        self.config_file.write_text(config)

    def start(self, timeout=20):
        with open(self.log_file, "a", encoding="utf-8") as log:
            offset = log.tell()
            self.process = self.namespace.start(
                BUILD / "sluiced", "--config", self.config_file, cpu=self.cpu, stdout=log, stderr=log
            )
        wait_for(lambda: self._ready(offset), f"sluiced: ready ({self.log_file})", timeout)
        return self

    def _ready(self, offset):
        text = self.log()[offset:]
        if self.process.poll() is not None and "sluiced: ready" not in text:
            raise RuntimeError(f"sluiced ended with {self.process.returncode}:\n{text}")
        return "sluiced: ready" in text

    def log(self):
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def ctl(self, *args, check=True):
        """sluicectl with --json: its answer, or with check=False the finished process."""
        done = self.namespace.run(
            BUILD / "sluicectl", "--socket", self.socket, "--json", *args, check=check, timeout=30
        )
        return json.loads(done.stdout or "{}") if check else done

    def status(self):
        return self.ctl("status")

    def service(self, name):
        """One service of status."""
        return next(s for s in self.status()["services"] if s["name"] == name)

    def get(self, path):
        """One answer of the API (text: of the metrics), without the cost of a process: for polling."""
        connection = UnixConnection(self.socket)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: {answer.status} {text}")
        return json.loads(text) if answer.headers["Content-Type"] == "application/json" else text

    def detail(self, name="app"):
        """Everything about one service, as `service show NAME --json` has it."""
        return self.get(f"/v1/services/{name}")

    def breaker(self, name="app"):
        return self.detail(name)["breaker"]

    def transitions(self, name="app"):
        """Events of its breaker, oldest first."""
        return self.get(f"/v1/events?kind=breaker&service={name}&after=0")["events"]

    def stop(self, number=signal.SIGTERM, timeout=10):
        """Ends the daemon; what it put in the kernel stays (control.on_exit: keep)."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout)
        return self.process.returncode if self.process else None

    def close(self):
        """Ends the daemon and removes everything of it from the kernel."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.pins.exists():
            self.namespace.run(BUILD / "sluicectl", "detach", "--pins", self.pins, check=False)
            shutil.rmtree(self.pins, ignore_errors=True)
        remove_lock(self.pins)


class Lab:
    """The three namespaces above, and what runs in them."""

    def __init__(self, cpus=(GENERATOR_CPU, GATEWAY_CPU)):
        remove_orphans()
        self.generator_cpu, self.gateway_cpu = cpus
        self.directory = Path(tempfile.mkdtemp(prefix="sluice-lab-"))
        self._tools = []
        self._close = contextlib.ExitStack()
        self._close.callback(shutil.rmtree, self.directory, ignore_errors=True)
        try:
            self.clients_ns = self._namespace("clients")
            self.gateway = self._namespace("gateway")
            self.storm_ns = self._namespace("storm")
            self._wire()
        except BaseException:
            self._close.close()
            raise

    def _namespace(self, role):
        namespace = Namespace(role)
        self._close.callback(namespace.delete)
        for key, value in {
            "net.ipv4.conf.all.rp_filter": 0,
            "net.ipv4.conf.default.rp_filter": 0,
            "net.ipv6.conf.default.accept_dad": 0,
            "net.ipv6.conf.default.accept_ra": 0,
        }.items():
            namespace.sysctl(key, value)
        return namespace

    def namespace_behind(self, role, interface, v4_prefix):
        """One more namespace, a link away from the gateway: it is PREFIX.130 there, the gateway PREFIX.129."""
        namespace = self._namespace(role)
        peer_v6, gateway_v6 = (f"2001:db8:{next(_numbers):x}::{host}" for host in (2, 1))
        self.veth(namespace, f"{interface}p", f"{v4_prefix}.130", peer_v6, interface, f"{v4_prefix}.129", gateway_v6)
        namespace.ip(f"route add default via {v4_prefix}.129")
        return namespace

    def _wire(self):
        self.clients_ns.sysctl("net.ipv4.ip_local_port_range", "1024 65535")
        self.clients_ns.sysctl("net.ipv6.ip_nonlocal_bind", 1)
        self.veth(self.clients_ns, "c0", "198.51.100.2", "2001:db8:1::2", "g0", "198.51.100.1", "2001:db8:1::1")
        self.veth(self.storm_ns, "s0", "203.0.113.2", "2001:db8:2::2", "g1", "203.0.113.1", "2001:db8:2::1")
        for line in (
            f"addr add {SERVICE_V4}/32 dev lo",
            f"addr add {SERVICE_V6}/128 dev lo",
            "route add 198.18.0.0/15 via 198.51.100.2",
            "route add default via 203.0.113.2",
            "-6 route add 2001:db8:c::/48 via 2001:db8:1::2",
            "-6 route add default via 2001:db8:2::2",
        ):
            self.gateway.ip(line)
        for line in (
            "route add local 198.18.0.0/15 dev lo",
            "-6 route add local 2001:db8:c::/48 dev lo",
            "route add default via 198.51.100.1",
            "-6 route add default via 2001:db8:1::1",
        ):
            self.clients_ns.ip(line)

    def veth(self, peer, peer_if, peer_v4, peer_v6, gateway_if, gateway_v4, gateway_v6):
        """A link between the gateway and `peer`, with permanent neighbours."""
        self.gateway.ip(f"link add {gateway_if} type veth peer name {peer_if} netns {peer.name}")
        ends = ((self.gateway, gateway_if, gateway_v4, gateway_v6), (peer, peer_if, peer_v4, peer_v6))
        for ns, interface, v4, v6 in ends:
            ns.ip(f"addr add {v4}/24 dev {interface}")
            ns.ip(f"addr add {v6}/64 dev {interface} nodad")
            ns.ip(f"link set {interface} up")
            ns.run("ethtool", "-K", interface, "gro", "on")
        # Without an XDP program of its own the peer never receives what the gateway sends by XDP_TX.
        peer.run(BUILD / "tools" / "xdp-pass", "--dev", peer_if)
        self._receive_on_gateway_cpu(gateway_if)
        for (ns, interface, _, _), (other, other_if, v4, v6) in (ends, ends[::-1]):
            for address in (v4, v6):
                ns.ip(f"neigh replace {address} lladdr {other.mac(other_if)} dev {interface} nud permanent")

    def _receive_on_gateway_cpu(self, interface):
        """The gateway pays for what it receives: else a veth's packets are received on the sender's CPU."""
        if self.gateway_cpu not in os.sched_getaffinity(0):
            return
        before = threads_named(f"napi/{interface}-")
        script = f"echo 1 >/sys/class/net/{interface}/threaded"
        command("ip", "netns", "exec", self.gateway.name, "sh", "-c", script)
        for pid in threads_named(f"napi/{interface}-") - before:
            command("taskset", "-p", "-c", self.gateway_cpu, pid, check=False)

    # --- what runs in it ------------------------------------------------------------------------------------------

    def tool(self, namespace, name, *args, cpu=None):
        return self._own(Tool(namespace, name, *args, cpu=cpu))

    def _own(self, tool):
        self._close.callback(tool.kill)
        self._tools.append(tool)
        return tool

    def stood_still_ms(self):
        """
        Ends the services and returns by how much one of them overslept at most: they sleep at real-time priority, so
        the machine itself stood still so long, and figures of capacity and waiting say nothing about sluice.
        """
        results = [tool.stop() for tool in self._tools if tool.name in ("service", "faulty", "delays")]
        return max([result.get("overslept_ms", 0) for result in results], default=0)

    @staticmethod
    def _options(options):
        """capacity=200, echo=True -> --capacity 200 --echo"""
        args = []
        for key, value in options.items():
            if value is True:
                args += [f"--{key.replace('_', '-')}"]
            elif value is not None and value is not False:
                args += [f"--{key.replace('_', '-')}", value]
        return args

    def service(self, listen, namespace=None, **options):
        args = self._options(options)
        return self.tool(namespace or self.gateway, "service", "--listen", listen, *args, cpu=self.gateway_cpu)

    def faulty(self, listen, namespace=None, **options):
        args = self._options(options)
        return self._own(Faulty(namespace or self.gateway, "--listen", listen, *args, cpu=self.gateway_cpu))

    def delays(self, listen, log, **options):
        """The service of tools/delays.c; delays_client() drives it."""
        args = self._options(options)
        return self.tool(self.gateway, "delays", "--listen", listen, "--log", log, *args, cpu=self.gateway_cpu)

    def delays_client(self, to, **options):
        return self.tool(self.clients_ns, "delays", "--to", to, *self._options(options), cpu=self.generator_cpu)

    def rude(self, to, manner, **options):
        options = {"manner": manner} | options
        return self.tool(self.clients_ns, "rude", "--to", to, *self._options(options), cpu=self.generator_cpu)

    def clients(self, to, groups, **options):
        args = self._options(options)
        return self.tool(self.clients_ns, "clients", "--to", to, "--groups", groups, *args, cpu=self.generator_cpu)

    def echoes(self, to, **options):
        options = {"from": "198.18.200.1"} | options
        return self.tool(self.clients_ns, "echoes", "--to", to, *self._options(options), cpu=self.generator_cpu)

    def storm(self, to, **options):
        options = {"dev": "s0", "mac": self.gateway.mac("g1")} | options
        return self.tool(self.storm_ns, "storm", "--to", to, *self._options(options), cpu=self.generator_cpu)

    def watch(self, port, namespace=None, **options):
        args = self._options(options)
        return self.tool(namespace or self.gateway, "queue-watch", "--port", port, *args, cpu=self.generator_cpu)

    def nginx(self, listen, upstream=None, **options):
        directory = self.directory / f"nginx-{next(_numbers)}"
        nginx = Nginx(self.gateway, directory, listen, upstream, cpu=self.gateway_cpu, **options)
        self._close.callback(nginx.kill)
        return nginx

    def sluice(self, config, interfaces=("g0", "g1"), start=True):
        directory = self.directory / f"sluice-{next(_numbers)}"
        sluice = Sluice(self.gateway, directory, config, interfaces, cpu=self.gateway_cpu)
        self._close.callback(sluice.close)
        return sluice.start() if start else sluice

    def since(self, namespace=None):
        return Difference(namespace or self.gateway)

    def close(self):
        self._close.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def in_thread(function, *args):
    """Starts function(*args) beside the test; join() returns its value or raises its error."""
    box = {}

    def run():
        try:
            box["value"] = function(*args)
        except BaseException as error:  # handed to the thread that joins
            box["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join(timeout=60):
        thread.join(timeout)
        if thread.is_alive():
            raise TimeoutError("thread still runs")
        if "error" in box:
            raise box["error"]
        return box["value"]

    return join
