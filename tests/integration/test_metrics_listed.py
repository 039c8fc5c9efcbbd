"""deploy/metrics.md, held against what a node exports. It is made by
    KVASIR=... python3 tests/integration/test_metrics_listed.py --write
of the heads of /metrics, which come from the tables that export them."""
import json
import pathlib
import re
import sys

import harness
from dns import free_port
from test_proxy import CHAT, chat

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "deploy/metrics.md"
SAMPLE = re.compile(r'(kvasir_\w+|process_\w+)(?:\{(.*)\})? \S+$')
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')

# Families that need not have a series on the node below, and their labels.
MODEL, WORKER = ["model"], ["worker"]
RARE = {
    "kvasir_certificate_expiry_timestamp_seconds": ["certificate"],
    "kvasir_model_tokens_asked_total": MODEL,
    "kvasir_model_tokens_compared_total": ["model", "result"],
    "kvasir_model_tokens_failed_total": MODEL,
    "kvasir_model_tokens_local_total": MODEL,
    "kvasir_model_tokens_seconds_total": MODEL,
    "kvasir_model_tokens_wrong_total": MODEL,
    "kvasir_pool_threshold_tokens": MODEL,
    "kvasir_prefill_seconds": [],
    "kvasir_tokenise_local_seconds": [],
    "kvasir_tokenise_seconds": [],
    "kvasir_worker_belief_blocks": WORKER,
    "kvasir_worker_failures_total": WORKER,
}

HEAD = """# Metrics

What `/metrics` of a node has, by name. This page is made of what a node exports
(`tests/integration/test_metrics_listed.py --write`), and the tests fail where the two
differ.

Counters end in `_total` and begin at 0 with the process; times are seconds, ratios are
0 to 1. A family's reasons are the values of a label, with their meaning in brackets. All
values of reasons are there from the start, so that a first one is a rise; of
`kvasir_requests_total` each reason with the code that it has as a rule. A request counts
when it ends, and questions for `/health` and `/ready` are none. `le` of histograms is not
listed. [What changed](CHANGELOG.md) has the names of earlier versions.

| name | type | labels | what it is |
|---|---|---|---|
"""


def families(page):
    """{name: (type, labels, help)} of a page of metrics."""
    found, labels, kinds = {}, {}, {}
    for line in page.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            found[name] = text
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        else:
            name, inside = SAMPLE.match(line).groups()
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            name = base if kinds.get(base) == "histogram" else name
            seen = labels.setdefault(name, [])
            seen += [label for label in LABEL.findall(inside or "")
                     if label not in seen and label != "le"]
    return {name: (kinds[name], labels.get(name), found[name]) for name in found}


def rows(page):
    for name, (kind, labels, text) in sorted(families(page).items()):
        labels = RARE.get(name, []) if labels is None else labels
        told = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}` | {kind} | {told} | {text.replace('|', chr(92) + '|')} |\n"


class Document(harness.Case):
    def page(self):
        """Of a node that has all that a node can have, after a few requests."""
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0")
        keys, rules, sets, workers = (
            self.folder / name for name in ("keys", "rules", "sets", "workers"))
        key, kept = self.run_once("kvasir", "key").stdout.split()
        keys.write_text(f"tenants:\n  shop:\n    keys:\n      - {kept}\n")
        rules.write_text(json.dumps({"auto": {"model": "kvasir/stand-in", "rules": [
            {"name": "tools", "has": ["tools"], "model": "kvasir/stand-in"},
            {"name": "like", "like": ["What is it?"]}]}}))
        workers.write_text("")
        secret = self.folder / "secret"
        secret.write_text("secret 0123456789abcdef\n")
        sets.write_text(json.dumps({"keys": [{
            "kid": "k", "kty": "RSA", "alg": "RS256", "n": "_" * 341 + "w", "e": "AQAB"}]}))
        nobody = f"http://127.0.0.1:{free_port()}"
        node = self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--mesh", "127.0.0.1:0", "--data", self.folder / "data",
            "--answer_cache.bytes_max", "1MiB", "--answer_cache.semantic_model", "e",
            "--answer_cache.redis", nobody.replace("http", "redis"),
            "--answer_cache.redis_file", secret, "--slo.ttft", "60s", "--slo.itl", "60s",
            "--scale.mode", "act", "--scale.pools", f"p,hook={nobody}",
            "--scale.quorum", "2", "--limits.tenant_requests", "1000/min",
            "--island.name", "eu/a", "--keys.file", keys, "--content.file", rules,
            "--content.embeddings_model", "e",
            "--traces.otlp", nobody, "--jwt.jwks", sets, "--jwt.issuer", "i",
            "--jwt.audience", "a",
            "--worker", f"file:{workers}",
            "--worker",
            f"{engine.url('http')},id=e,island=eu/a,events={engine.ready['events']},"
            f"replay={engine.ready['replay']}")
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible") == 1,
                           "the worker is up")
        for stream in True, False:
            got = harness.request(node.at("serve"), "POST", CHAT,
                                  chat(model="kvasir/stand-in", stream=stream, max_tokens=4),
                                  headers={"authorization": f"Bearer {key}"})
            self.assertEqual(got.status, 200)
        harness.wait_until(lambda: harness.metric(
            node.at("admin"), "kvasir_model_time_to_first_token_seconds_count"), "it is counted")
        harness.wait_until(lambda: harness.metric(
            node.at("admin"), "kvasir_scale_engines_desired") is not None, "its model is known")
        self.read = harness.request(node.at("admin"), "GET", "/metrics").text
        return self.read

    def test_it_is_what_a_node_exports(self):
        page = self.page()
        labels = {name: labels for name, (_, labels, _) in families(page).items()}
        self.assertEqual({name for name, told in labels.items() if told is None} - set(RARE),
                         set(), "families without a series")
        self.assertEqual({name: told for name, told in RARE.items()
                          if labels[name] not in (None, told)}, {}, "they have other labels")
        told = HEAD + "".join(rows(page))
        if WRITE:
            DOCUMENT.write_text(told)
        self.maxDiff = None
        self.assertEqual(DOCUMENT.read_text(), told, f"make it anew: {__file__} --write")

    def test_no_fleet_makes_it_too_large(self):
        """At 256 workers there are less than 5,000 series, if all fail in all ways. Workers
        without events have none of their streams, and only they have some of belief."""
        found = families(self.page()).items()
        of_workers = {name for name, (_, labels, _) in found
                      if "worker" in (RARE.get(name, []) if labels is None else labels)}
        self.assertIn("kvasir_worker_belief_blocks", of_workers)
        self.assertIn("kvasir_worker_failures_total", of_workers)
        others = sum(line[:1] != "#" and "worker=" not in line for line in self.read.splitlines())
        self.assertLess((len(of_workers) - 1) * 256 + others, 5000)

    def test_each_error_of_ours_is_a_reason(self):
        """kvasir_requests_total{reason}: an error that is not listed would be `other`."""
        listed = (ROOT / "node/view/metrics_ends.h").read_text()
        reasons = set(re.findall(r'X\(\w+, "(\w+)"', listed))
        answered = re.compile(r'(?:reply_error|request_refuse|refuse_bad|refuse_attempts|'
                              r'refuse_residency)\(([^;"]*?)"(\w+)"')
        told = {code for path in (ROOT / "node/edge").glob("*.c")
                for _, code in answered.findall(path.read_text())}
        self.assertGreater(len(told), 20)
        probes = {"draining", "not_ready", "catching_up"}  # /ready
        self.assertEqual(told - reasons - probes, set())


WRITE = "--write" in sys.argv
if WRITE:
    sys.argv.remove("--write")

if __name__ == "__main__":
    harness.main()
