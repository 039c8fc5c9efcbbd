"""kvasir replay: the same seed prints the same bytes, traces of real services
are read as their owners counted them, and the engine's times are the measured
ones."""
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree

import harness

TRACES = next((p / "data" / "traces" for p in
               (f / "shared" for f in pathlib.Path(__file__).resolve().parents)
               if (p / "data" / "traces").is_dir()), None)
TABLES = pathlib.Path(__file__).resolve().parents[2] / "chaos/replay/tables.py"
POLICIES = "kvasir,random,all_seeing_greedy"


def replay(*args, stdin=b""):
    return subprocess.run([harness.program("kvasir"), "replay", *map(str, args)],
                          input=stdin, capture_output=True, timeout=240)


def unpacked(name):
    """The bytes of a file of the data folder."""
    if TRACES is None:
        raise unittest.SkipTest("there is no ../shared/data beside the project")
    if shutil.which("zstd") is None:
        raise unittest.SkipTest("zstd is not installed")
    return subprocess.run(["zstd", "-dc", TRACES / name], check=True,
                          capture_output=True).stdout


class ReplayCase(unittest.TestCase):
    def play(self, *args, stdin=b""):
        """The result of a replay, which has to go well."""
        told = replay("--json", *args, stdin=stdin)
        self.assertEqual((told.returncode, told.stderr), (0, b""))
        return json.loads(told.stdout)

    def by_policy(self, result):
        return {row["policy"]: row for row in result["rows"]}


def cached_share(requests, engines, blocks, sticky):
    """The cached share of prompt tokens with one request after the other, by
    plain LRU caches: an account of its own. requests: (tokens, ids of 512)."""
    caches = [collections.OrderedDict() for _ in range(engines)]
    computed = [0] * engines
    found = 0
    for number, (tokens, ids) in enumerate(requests):
        ids = ids[:tokens // 512]
        held = []
        for cache in caches:
            depth = next((i for i, key in enumerate(ids) if key not in cache), len(ids))
            held.append(min(depth, (tokens - 1) // 512) * 512)
        engine = number % engines
        if sticky:
            most = max(held)
            best = [e for e in range(engines) if held[e] == most and most > 512]
            engine = min(best or range(engines), key=lambda e: (computed[e], e))
        found += held[engine]
        computed[engine] += tokens - held[engine] + 1
        for key in reversed(ids):  # a prompt's end is evicted before its head
            caches[engine][key] = None
            caches[engine].move_to_end(key)
        while len(caches[engine]) >= blocks:  # one is taken by a block that is not full
            caches[engine].popitem(last=False)
    return found / sum(tokens for tokens, _ in requests)


class Sequential(ReplayCase):
    """Without time, what is cached is a matter of places and LRU alone."""

    def compare(self, trace, engines, blocks):
        lines = [json.loads(line) for line in trace.splitlines()]
        requests = [(r["input_length"], r["hash_ids"]) for r in lines]
        rows = self.by_policy(self.play(
            "--trace", "-", "--sequential", "--engines", engines, "--block-tokens", 512,
            "--kv-tokens", 512 * blocks, "--policy", "sticky,round_robin",
            "--requests", len(requests), stdin=trace))
        for policy, row in rows.items():
            share = row["cached_tokens"] / row["prompt_tokens"]
            wanted = cached_share(requests, engines, blocks, policy == "sticky")
            self.assertAlmostEqual(share, wanted, delta=0.01, msg=policy)
        self.assertGreater(rows["sticky"]["cached_tokens"],
                           rows["round_robin"]["cached_tokens"])

    def test_conversations_as_another_account_has_them(self):
        rng = random.Random(1)
        turns = [list(range(n * 100, n * 100 + 2)) for n in range(40)]
        trace = b""
        for at in range(400):
            ids = turns[rng.randrange(len(turns))]
            ids.append(max(ids) + 1)
            tokens = len(ids) * 512 - rng.randrange(512)
            trace += json.dumps({"timestamp": at, "input_length": tokens,
                                 "output_length": 5, "hash_ids": ids}).encode() + b"\n"
        for blocks in (60, 300):
            self.compare(trace, 4, blocks)

    def test_a_real_service_as_another_account_has_it(self):
        trace = unpacked("mooncake_conversation_h1.jsonl.zst")
        self.compare(b"".join(trace.splitlines(keepends=True)[:1500]), 8, 600)


class CommandLine(ReplayCase):
    def test_one_seed_prints_the_same_bytes(self):
        args = ("--workload", "chat", "--requests", 120, "--load", "1,2")
        first, again = replay(*args), replay(*args)
        self.assertEqual((first.returncode, first.stderr), (0, b""))
        self.assertEqual(first.stdout, again.stdout)
        self.assertNotEqual(first.stdout, replay(*args, "--seed", 2).stdout)

    def test_json_and_plot_tell_of_every_cell(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "plot.svg"
            result = self.play("--workload", "b2b", "--requests", 100, "--load",
                               "1,1.5,2", "--policy", POLICIES, "--svg", plot)
            picture = xml.etree.ElementTree.parse(plot).getroot()
        self.assertEqual([(r["load"], r["policy"]) for r in result["rows"]],
                         [(load, policy) for load in (1, 1.5, 2)
                          for policy in POLICIES.split(",")])
        self.assertTrue(all(r["finished"] == 100 for r in result["rows"]))
        lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual(len(lines), 9)

    def test_its_manual_fits_into_80_columns(self):
        told = replay("--help").stdout.decode()
        self.assertIn("(kvasir,", told, "long defaults have lines of their own")
        self.assertLessEqual(max(map(len, told.splitlines())), 80)

    def test_bad_usage_and_bad_traces_are_one_line(self):
        for args, stdin, said in (
                (("--policy", "best"), b"", "--policy: unknown policy best; see --help"),
                (("--trace", "-"), b"\n{}\n",
                 "-:2: unknown kind of trace; see --help"),
                (("--trace", "/no/such"), b"",
                 "/no/such: No such file or directory")):
            told = replay(*args, stdin=stdin)
            self.assertEqual(told.returncode, 2)
            self.assertEqual(told.stderr.decode(), f"kvasir replay: {said}\n")
            self.assertEqual(told.stdout, b"")

    def test_what_arrives_later_is_left_out(self):
        head = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
        rows = b"".join(b"2023-11-16 18:15:%02d.5,100,10\n" % i
                        for i in range(30))
        result = self.play("--trace", "-", "--until", 9.75, "--policy", "kvasir",
                           stdin=head + rows)
        self.assertEqual(result["requests"], 10)
        self.assertEqual(result["rows"][0]["prompt_tokens"], 1000)


class Traces(ReplayCase):
    def test_mooncake_shares_what_its_hashes_say(self):
        text = unpacked("mooncake_conversation_h1.jsonl.zst")
        seen, full, known = set(), 0, 0
        rows = [json.loads(line) for line in text.splitlines()]
        for row in rows:
            for block in row["hash_ids"][:row["input_length"] // 512]:
                full += 1
                known += block in seen
                seen.add(block)
        result = self.play("--trace", "-", "--block-tokens", 512, "--requests",
                           len(rows), "--policy", "least_load", stdin=text)
        self.assertEqual(result["sharing"], known * 1000 // full / 1000)
        row = result["rows"][0]
        self.assertEqual(row["prompt_tokens"], sum(r["input_length"] for r in rows))
        self.assertEqual(row["output_tokens"], sum(r["output_length"] for r in rows))

    def test_conversations_are_found_again(self):
        text = unpacked("taubench_airline_trials_even.jsonl.zst")
        text = b"\n".join(text.splitlines()[:20])
        rows = self.by_policy(self.play("--trace", "-", "--policy", POLICIES,
                                        stdin=text))
        self.assertGreater(rows["kvasir"]["cached_tokens"],
                           rows["random"]["cached_tokens"])
        self.assertGreaterEqual(rows["all_seeing_greedy"]["cached_tokens"],
                                rows["random"]["cached_tokens"])

    def test_agents_sessions_are_read(self):
        archive = unpacked("lmcache_miniswe_a.tar.zst")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "sessions.tar"
            path.write_bytes(archive)
            with tarfile.open(path) as tar:
                texts = [tar.extractfile(m).read() for m in tar if m.isfile()]
        result = self.play("--trace", "-", "--policy", POLICIES,
                           stdin=b"".join(texts[:4]))
        self.assertEqual(result["requests"],
                         sum(t.count(b"\n") for t in texts[:4]))
        self.assertGreater(result["sharing"], 0.8)

    def test_lengths_are_read(self):
        text = unpacked("azure2023_conv.csv.zst")
        rows = [line.split(b",") for line in text.split()[1:]]
        result = self.play("--trace", "-", "--requests", 300, "--policy",
                           "kvasir", stdin=text)
        self.assertEqual(result["sharing"], 0)
        self.assertEqual(result["requests"], 300)
        self.assertGreater(len(rows), 300)


class Tables(unittest.TestCase):
    def test_a_fleet_is_measured_and_played_at_fractions_of_that(self):
        told = subprocess.run(
            [sys.executable, TABLES, "--replay", harness.program("kvasir-replay"), "--workload",
             "chat", "--requests", "30", "--seeds", "2", "--fractions", "0.5,2", "--policy",
             "kvasir,random"], check=True, stdout=subprocess.PIPE, text=True).stdout
        head, names, rule, *rows = [line for line in told.splitlines() if line]
        self.assertRegex(head, r"seeds 1 to 2; capacity [0-9.]+ requests/s \(x[0-9.]+\);")
        self.assertEqual((names, rule), ("| of capacity | 0.5 | 2 |", "|---|---|---|"))
        self.assertEqual(len(rows), 2)
        for row, name in zip(rows, ("kvasir", "random")):
            of = " of [0-9.]+" if name == "kvasir" else ""
            self.assertRegex(row, rf"^\| {name} (\| [0-9.]+{of} / [0-9.]+ ±[0-9.]+ / [0-9]+ ){{2}}\|$")

    def test_one_node_beside_one_takes_as_long_and_three_take_another_time(self):
        for nodes, alike in ("1", True), ("3", False):
            told = subprocess.run(
                [sys.executable, TABLES, "--replay", harness.program("kvasir-replay"), "--workload",
                 "rag", "--requests", "60", "--seeds", "2", "--fractions", "1", "--beside-one",
                 "--nodes", nodes], check=True, stdout=subprocess.PIPE, text=True).stdout
            head, _, *rows = [line for line in told.splitlines() if line]
            self.assertEqual(head, f"| rag, {nodes} nodes | 1 |")
            names, cells = zip(*(row.strip("| ").split(" | ") for row in rows))
            self.assertEqual(names, tuple(f"{p}, {ms} ms" for ms in (5, 2, 0) for p in ("p50", "p99")))
            self.assertEqual(set(cells) == {"1.00 (1.00 - 1.00)"}, alike)


class Timing(unittest.TestCase):
    """The presets of replay_timing.c, worked out again from the data."""

    PRESETS = {  # model, GPUs, dimensions, Tflop/s
        "h100-70b-tp4": ("h100_meta-llama_Llama-2-70b-hf", "4", 8192, 990),
        "h100-7b": ("h100_meta-llama_Llama-2-7b-hf", "1", 4096, 990),
        "a100-70b-tp4": ("a100_meta-llama_Meta-Llama-3-70B", "4", 8192, 312),
        "a100-8b": ("a100_meta-llama_Meta-Llama-3-8B", "1", 4096, 312),
    }

    def test_one_token_and_one_full_step_take_what_was_measured(self):
        data = json.loads(unpacked("vidur_linear_ms.json.zst"))
        # One request each, far apart: a prompt of one token, then a full step.
        head = b"TIMESTAMP,a,b\n"
        for name, (model, gpus, wide, tflops) in self.PRESETS.items():
            layers = next(n for m, n in data["layers"].items()
                          if model.endswith(m))
            measured = {tokens: ms * layers
                        for tokens, ms in data["data"][model][gpus]}
            pair_ms = 4 * wide * layers / int(gpus) / (0.4 * tflops * 1e9)
            for tokens in 1, 4096:
                measured[tokens] += tokens * (tokens + 1) / 2 * pair_ms
                told = replay("--json", "--timing", name, "--trace", "-",
                              "--policy", "random", stdin=head
                              + b"2024-01-01 00:00:00,%d,1\n" % tokens)
                self.assertEqual(told.returncode, 0, told.stderr)
                row = json.loads(told.stdout)["rows"][0]
                self.assertAlmostEqual(row["ttft_p50_ms"] / measured[tokens], 1,
                                       delta=0.02, msg=f"{name} {tokens}")


if __name__ == "__main__":
    harness.main()
