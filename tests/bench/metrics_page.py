"""How large /metrics is with many workers, and what a page costs the node.

    KVASIR_BUILD=build-rel python3 tests/bench/metrics_page.py [WORKERS [PAGES]]

Each worker (of mesh_workers.py: idle) is followed by its events, reports all that an
engine may, and there is an SLO. Prints the series and bytes of a page, the time of the
best and of the middle page as its client sees it, and the CPU time that the whole node
takes while it is asked, for each page."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness  # noqa: E402

WORKERS = int(sys.argv[1]) if len(sys.argv) > 1 else 256
PAGES = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Metrics(harness.Case):
    def runTest(self):
        idle = subprocess.Popen([sys.executable, HERE / "mesh_workers.py", str(WORKERS)],
                                stdout=subprocess.PIPE, text=True)
        self.addCleanup(idle.stdout.close)
        self.addCleanup(idle.wait)
        self.addCleanup(idle.terminate)
        ready, *workers = idle.stdout.readline().split() or ["mesh_workers.py ended"]
        self.assertEqual(ready, "ready")
        flags = []
        for i, worker in enumerate(workers):
            flags += ["--worker", f"{worker},id=gpu-{i:03}"]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--mesh", "127.0.0.1:0", "--slo.ttft", "1s", *flags)
        admin = node.at("admin")
        harness.wait_until(
            lambda: harness.metric(admin, "kvasir_worker_eligible") == WORKERS
            and harness.metric(admin, "kvasir_events_live") == WORKERS
            and harness.metric(admin, 'kvasir_worker_info{engine="vllm"}') == WORKERS,
            "all workers are up, followed and asked for their metrics")
        page = harness.request(admin, "GET", "/metrics").text
        times, before = [], cpu_s(node.popen.pid)
        for _ in range(PAGES):
            began = time.perf_counter()
            harness.request(admin, "GET", "/metrics")
            times.append((time.perf_counter() - began) * 1000)
        cpu_ms = (cpu_s(node.popen.pid) - before) * 1000 / PAGES
        series = sum(line[:1] not in ("#", "") for line in page.splitlines())
        small = harness.request(admin, "HEAD", "/metrics", headers={
            "accept-encoding": "gzip"}).headers["content-length"]
        print(f"{WORKERS} workers: {series} series, {len(page)} bytes ({small} by gzip); a page takes "
              f"{min(times):.1f} ms at best, {statistics.median(times):.1f} ms in the middle, "
              f"{cpu_ms:.1f} ms of the node's CPU", flush=True)


if __name__ == "__main__":
    sys.argv[1:] = []
    harness.main()
