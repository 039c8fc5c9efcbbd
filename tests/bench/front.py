#!/usr/bin/env python3
"""What TLS, keys, limits and a queue cost a request, in kvasir and in nginx.

    front.py --build DIR [--kvasir FILE] [--rounds N] [--seconds S]

The same chats go to the same engines through an nginx and a node that do
nothing else, and through others that do one thing more each, and all of them;
everything on one CPU. Prints requests per second, latency and CPU time of the
proxy per request, and each as a ratio to the plain one of its kind in the same
round. README.md beside this file says how to read it. Exit code 0 unless
something broke.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import proxy
import rig as r

LIMITS = ["--limits.tenant_requests", "1000000000/min",
          "--limits.tenant_tokens", "1000000000/min",
          "--limits.tenant_concurrent", "1000"]
# Never reached, as above; by the key, as a tenant's are.
NGINX_LIMITS_HTTP = """
  limit_req_zone $http_authorization zone=requests:1m rate=1000000r/s;
  limit_conn_zone $http_authorization zone=open:1m;
"""
NGINX_LIMITS = ("limit_req zone=requests burst=100000 nodelay; limit_conn open 1000; "
                "limit_req_status 429; limit_conn_status 429;")
COLUMNS = ("rate", "p50_us", "p99_us", "cpu_us")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"),
                        help="meson's build directory")
    parser.add_argument("--kvasir", help="the executable (found in the build)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="per measurement")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--places", type=int, default=4,
                        help="requests at once in each of the 4 workers, for the "
                        "queue; with fewer in all than connections the rest waits")
    parser.add_argument("--quiet", type=float, default=0.05, help="CPUs that others "
                        "may use before a measurement is repeated")
    parser.add_argument("--patience", type=float, default=20, help="seconds in all "
                        "that may be spent waiting for others to be quiet")
    parser.add_argument("--json", help="write every single measurement there")
    return parser.parse_args()


def make_certificate(rig):
    """Files of a certificate and its key, by nobody."""
    paths = [rig.directory / "front.pem", rig.directory / "front.key"]
    subprocess.run([r.tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=bench", "-out", paths[0], "-keyout", paths[1]],
                   check=True, capture_output=True)
    return paths


def make_key(rig, kvasir):
    """A client's key, and the file by which the node knows it."""
    made = subprocess.run([kvasir, "key"], check=True, capture_output=True, text=True)
    key, line = made.stdout.split()
    path = rig.directory / "keys.yaml"
    path.touch(mode=0o600)
    path.write_text(f'tenants:\n  bench:\n    keys: ["{line}"]\n')
    return key, path


class Front(proxy.Bench):
    """Every subject, each beside the plain one of its kind."""

    def __init__(self, args, rig, cpus):
        super().__init__(args, rig)
        if self.kvasir is None:
            raise r.Missing("kvasir is not built")
        self.cpus = cpus
        self.certificate = make_certificate(rig)
        self.key, self.keys_file = make_key(rig, self.kvasir)
        self.backends = r.start_backend(rig, args.build, proxy.WORKERS, cpus=cpus)

    def nginx(self, name, tls=False, keyed=False, limits=False):
        http, location = "", ""
        if keyed:
            http += (f'map_hash_bucket_size 256; map $http_authorization $known {{ default 0; '
                     f'"Bearer {self.key}" 1; }}')
            location += "if ($known = 0) { return 401; } "
        if limits:
            http += NGINX_LIMITS_HTTP
            location += NGINX_LIMITS
        extra = r.Extra(http, location, self.certificate if tls else None)
        server = r.start_nginx(self.rig, self.backends, 1, self.cpus,
                               name.replace(" ", ""), extra)
        return self.named(server, name, tls, keyed or limits)

    def node(self, name, tls=False, keyed=False, limits=False, queue=False):
        options = []
        if tls:
            options += ["--tls.cert_file", self.certificate[0],
                        "--tls.key_file", self.certificate[1]]
        options += ["--keys.file", self.keys_file] if keyed else []
        options += LIMITS if limits else []
        # Without, places are for all: the limit is learned else.
        options += ["--workers.max_inflight", str(self.args.places)] if queue \
            else ["--timeouts.queue", "0s"]
        server = r.start_kvasir(self.rig, self.kvasir, self.backends, 1, self.cpus,
                                options)
        return self.named(server, name, tls, keyed)

    def named(self, server, name, tls, keyed):
        server.name, server.tls = name, tls
        server.key = self.key if keyed else ""
        return server

    def start(self):
        rows = [(self.nginx, "nginx", {}),
                (self.nginx, "nginx +tls", {"tls": True}),
                (self.nginx, "nginx +key", {"keyed": True}),
                (self.nginx, "nginx +limits", {"limits": True}),
                (self.nginx, "nginx all", {"tls": True, "keyed": True, "limits": True}),
                (self.node, "kvasir", {}),
                (self.node, "kvasir +tls", {"tls": True}),
                (self.node, "kvasir +key", {"keyed": True}),
                (self.node, "kvasir +limits", {"limits": True}),
                (self.node, "kvasir +queue", {"queue": True}),
                (self.node, "kvasir all", {"tls": True, "keyed": True, "limits": True,
                                           "queue": True})]
        servers = [self.backends]
        for start, name, what in rows:
            try:
                servers.append(start(name, **what))
            except r.Missing as why:
                if str(why) not in self.missing:
                    print(f"skipped: {why}", flush=True)
                self.missing.add(str(why))
        return servers

    def measure(self, servers):
        for server in servers:  # connections, caches, branch predictors
            self.check(server, r.wrk(self.rig, server, 8, 1, 1, self.cpus))
        for turn in range(self.args.rounds):
            at = turn * 3 % len(servers)
            for server in servers[at:] + servers[:at]:
                result = self.one_request_load(server, servers, self.args.connections,
                                               turn + 2, self.cpus)
                self.check(server, result)
                self.note("front", subject=server.name, load=self.args.connections,
                          round=turn, **result)

    def check(self, server, result):
        if result["errors"]:
            raise r.Failed(f"{server.name}: {result['errors']} requests failed")

    def waited(self, server):
        """The part of a node's requests that waited for a place."""
        text = r.ask(server.admin, "/metrics")

        def total(name):
            return sum(float(n) for n in
                       re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))
        return total("kvasir_requests_queued_total") / max(total("kvasir_requests_read_total"), 1)

    def ratio(self, name, base, key):
        """The median over rounds of the ratio within a round, and the range of
        the middle half."""
        load = self.args.connections
        pairs = zip(self.rows("front", name, load), self.rows("front", base, load))
        ratios = sorted(a[key] / max(b[key], 1e-9) for a, b in pairs)
        cut = len(ratios) // 4
        return f"{statistics.median(ratios):.2f} [{ratios[cut]:.2f}..{ratios[-1 - cut]:.2f}]"

    def show(self, servers):
        print("| subject | req/s | p50 us | p99 us | CPU us/req | of its plain one: req/s "
              "| p50 | p99 | CPU | CPU of plain nginx | waited |\n"
              "|" + "---|" * 11, flush=True)
        names = [s.name for s in servers]
        for server in servers:
            rows = self.rows("front", server.name, self.args.connections)
            m = {k: statistics.median(x[k] for x in rows) for k in COLUMNS}
            plain = server.name.split()[0]
            cells = [server.name, f"{m['rate']:.0f}", f"{m['p50_us']:.0f}",
                     f"{m['p99_us']:.0f}", f"{m['cpu_us']:.1f}"]
            cells += [self.ratio(server.name, plain, k) if plain != server.name else ""
                      for k in COLUMNS]
            cells += [self.ratio(server.name, "nginx", "cpu_us")
                      if "nginx" in names and plain == "kvasir" else "",
                      f"{self.waited(server):.0%}" if server.admin else ""]
            print("| " + " | ".join(cells) + " |", flush=True)
        others = statistics.median(x["others"] for x in self.log)
        print(f"\nothers used {others:.2f} CPUs of this one, by the median")


def run(args, rig):
    cpus = {max(os.sched_getaffinity(0))}
    front = Front(args, rig, cpus)
    servers = front.start()
    print(f"4 KB chats over {args.connections} connections, everything on one CPU, one "
          f"thread each; {args.rounds} rounds of {args.seconds} s, medians\n")
    front.measure(servers)
    front.show(servers)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(front.log, indent=1))


if __name__ == "__main__":
    sys.exit(r.run_in(run, arguments()))
