"""Pictures of the page of the admin port, to be looked at after each change of it.

    KVASIR_BUILD=build-rel python3 tests/bench/page_shots.py FOLDER [WORKERS ...]

For each count of workers (3, 50, 256) a mesh of three with so many stand-in engines under
load, first well, then in trouble: a node is killed, some engines too, one is drained, one
stands still, a list of workers has a fault. Both in light and in dark, whole, and in
trouble also as wide as a telephone. Wants Debian's chromium-driver.
"""
import base64
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import browser  # noqa: E402
import harness  # noqa: E402
from test_mesh import MeshCase  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
COUNTS = [int(word) for word in sys.argv[2:]] or [3, 50, 256]
WELL_S, TROUBLE_S = 45, 20


class Pictures(MeshCase):
    def shoot(self, node, name, width=1280, chosen=None):
        for dark in False, True:
            page = browser.Browser(self, node.url("admin") + "/", dark=dark, size=(width, 1000))
            page.wait("return document.getElementById('connection').textContent === 'live' && "
                      "document.querySelector('#requests tbody tr')", "the page is live")
            page.find("#explain button").click()
            page.wait("return document.querySelector('#explained table')", "it is explained")
            if chosen:
                page.run("document.querySelector(`[data-worker='${arguments[0]}']`).click()", chosen)
            page.run("document.activeElement.blur(); scrollTo(0, 0)")
            high = page.run("return document.documentElement.scrollHeight")
            page.call("POST", "goog/cdp/execute", {
                "cmd": "Emulation.setDeviceMetricsOverride", "params": {
                    "width": width, "height": high, "deviceScaleFactor": 1, "mobile": False}})
            taken = FOLDER / f"{name}-{'dark' if dark else 'light'}.png"
            taken.write_bytes(base64.b64decode(page.call("GET", "screenshot")))
            print(taken, page.faults() or "", flush=True)
            page.end()

    def pictures(self, count):
        engines = [self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                              "--blocks", "512") for _ in range(count)]
        listed = self.folder / "workers.yaml"
        rows = [f"- url: {e.url('http')}\n  id: gpu-{i:03}\n  events: {e.ready['events']}\n"
                f"  replay: {e.ready['replay']}\n" for i, e in enumerate(engines)]
        listed.write_text("".join(rows))
        nodes = self.three("--worker", f"file:{listed}", "--timeouts.drain", "1h",
                           "--workers.slots", str(max(count, 256)))
        harness.wait_until(lambda: harness.metric(nodes[0].at("admin"), "kvasir_worker_eligible")
                           == count, "all workers take requests")
        for seed, node in enumerate(nodes):  # people of its own: see predictions.py
            load = subprocess.Popen(
                [harness.program("kvasir-load"), "--url", node.url("serve"), "--users",
                 str(4 + count // 4), "--conversations", "100000", "--think-ms", "3000",
                 "--seed", str(seed + 1)],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(load.wait)
            self.addCleanup(load.terminate)
        time.sleep(WELL_S)
        self.shoot(nodes[0], f"{count}-well", chosen="gpu-001")
        nodes[2].kill()
        for engine in engines[2::20]:
            engine.kill()
        engines[1].freeze()
        harness.request(nodes[0].at("admin"), "POST", "/admin/workers/gpu-000/drain")
        listed.write_text("- nonsense: 1\n")
        time.sleep(TROUBLE_S)
        self.shoot(nodes[0], f"{count}-trouble", chosen="gpu-002")
        self.shoot(nodes[0], f"{count}-narrow", width=390)
        engines[1].kill()

    def runTest(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        for count in COUNTS:
            with self.subTest(count=count):
                self.pictures(count)
            self.doCleanups()
            self.setUp()


if __name__ == "__main__":
    sys.argv[1:] = []
    harness.main()
