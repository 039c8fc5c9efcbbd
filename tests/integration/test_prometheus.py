"""The alert rules and the dashboard, held against what a node exports, and the
real Prometheus where it is installed."""
import json
import pathlib
import re
import shutil
import subprocess
import unittest
import urllib.parse

import harness
from dns import free_port
from test_proxy import CHAT, chat

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/prometheus"
NAME = re.compile(r"\bkvasir_[a-z0-9_]+")
SELECTOR = re.compile(r'(reason|mode|state)!?=~?"([\w|]+)"')
PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")


def expressions():
    """All that is asked of Prometheus, of the rules and of the dashboard."""
    rules = re.sub(r"(?m)^\s*#.*$|^\s*(summary|action):.*$", "",
                   (FOLDER / "alerts.yaml").read_text())
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return [rules] + [target["expr"] for panel in panels for target in panel.get("targets", [])]


class Rules(harness.Case):
    def node(self):
        """One that has all that a node can have, after a stream."""
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0")
        node = self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--mesh", "127.0.0.1:0", "--data", self.folder / "data", "--worker",
            f"{engine.url('http')},id=e,events={engine.ready['events']},"
            f"replay={engine.ready['replay']}")
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible") == 1,
                           "the worker is up")
        self.stream(node)
        steps = harness.wait_until(lambda: harness.metric(
            node.at("admin"), "kvasir_inter_token_latency_seconds_count"), "it is counted")
        self.assertEqual(steps, 1)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_completion_tokens_total"), 4)
        first = [key for key in harness.metrics(node.at("admin"))
                 if key.startswith("kvasir_time_to_first_token_seconds_count")]
        self.assertEqual(first, ['kvasir_time_to_first_token_seconds_count'
                                 '{mode="balance",overlap="none"}'])
        return node

    def stream(self, node):
        got = harness.request(node.at("serve"), "POST", CHAT,
                              chat("hello " * 100, model="kvasir/stand-in", stream=True,
                                   max_tokens=4))
        self.assertEqual(got.status, 200)

    def test_they_ask_for_what_a_node_exports(self):
        node = self.node()
        told = harness.request(node.at("admin"), "GET", "/metrics").text
        exported = {line.split("{")[0].split(" ")[0] for line in told.splitlines()
                    if not line.startswith("#")}
        exported |= {line.split(" ")[2] for line in told.splitlines() if line.startswith("# TYPE")}
        asked = {name for text in expressions() for name in NAME.findall(text)}
        top = FOLDER.parents[1] / "node/cli/top_internal.h"
        asked |= set(re.findall(r'"(kvasir_\w+)"', top.read_text()))  # kvasir top reads them
        self.assertGreater(len(asked), 40)
        self.assertEqual(asked - exported, set())
        wanted = {(label, value) for text in expressions()
                  for label, values in SELECTOR.findall(text) for value in values.split("|")}
        wanted |= set(re.findall(r'"(\w+)",\s+"(\w+)"\)', top.read_text()))
        self.assertGreater(len(wanted), 15)
        self.assertEqual({(label, value) for label, value in wanted
                          if f'{label}="{value}"' not in told}, set())

    def test_it_says_what_was_built(self):
        told = [key for key in harness.metrics(self.node().at("admin"))
                if key.startswith("kvasir_build_info")]
        self.assertEqual(len(told), 1)
        self.assertRegex(told[0], r'version="\d+\.\d+\.\d+",commit="([0-9a-f]{12}(-dirty)?)?"')

    @unittest.skipUnless(PROMTOOL, "no promtool, see Debian's prometheus")
    def test_promtool_finds_the_metrics_sound(self):
        told = harness.request(self.node().at("admin"), "GET", "/metrics").text
        got = subprocess.run([PROMTOOL, "check", "metrics"], input=told, text=True,
                             capture_output=True, timeout=harness.IO_TIMEOUT_S, check=False)
        self.assertEqual((got.returncode, got.stderr), (0, ""))

    @unittest.skipUnless(PROMTOOL, "no promtool, see Debian's prometheus")
    def test_the_rules_fire_when_they_should(self):
        for words in ["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]:
            got = subprocess.run([PROMTOOL, *words[:2], FOLDER / words[2]], text=True,
                                 capture_output=True, timeout=harness.IO_TIMEOUT_S, check=False)
            self.assertEqual(got.returncode, 0, got.stdout + got.stderr)

    @unittest.skipUnless(PROMETHEUS, "no prometheus, see Debian's package")
    def test_a_prometheus_scrapes_a_node_and_answers_the_dashboard(self):
        node = self.node()
        config = self.folder / "prometheus.yaml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(FOLDER / "alerts.yaml")],
            "scrape_configs": [{"job_name": "kvasir",
                                "static_configs": [{"targets": [node.ready["admin"]]}]}]}))
        port = free_port()
        log = open(self.folder / "prometheus.log", "wb")
        self.addCleanup(log.close)
        server = subprocess.Popen(
            [PROMETHEUS, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
             f"--storage.tsdb.path={self.folder}/tsdb"], stdout=log, stderr=log)
        self.addCleanup(server.wait, harness.STOP_TIMEOUT_S)
        self.addCleanup(server.terminate)

        def ask(path):
            try:
                return harness.request(("127.0.0.1", port), "GET", path).json()["data"]
            except (OSError, ValueError):
                return None

        harness.wait_until(lambda: (ask("/api/v1/query?query=kvasir_ready") or {}).get("result"),
                           "it has scraped the node")
        groups = harness.wait_until(lambda: (ask("/api/v1/rules") or {}).get("groups"), "rules")
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 10)
        self.assertEqual({rule["lastError"] for rule in rules if "lastError" in rule}, set())

        def has_numbers(text):
            self.stream(node)  # rates want something that goes on
            query = urllib.parse.quote(text)
            rows = (ask(f"/api/v1/query?query={query}") or {}).get("result", [])
            return any(row["value"][1] != "NaN" for row in rows)

        for text in expressions()[1:]:
            text = text.replace("$job", "kvasir").replace("$__rate_interval", "1m")
            harness.wait_until(lambda text=text: has_numbers(text), f"it has numbers: {text}")


if __name__ == "__main__":
    harness.main()
