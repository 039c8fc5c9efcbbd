"""kvasir plan: what a buyer asks, from a file to a page, and the same bytes
from the same seed."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import harness

TRACES = next((p / "data" / "traces" for p in
               (f / "shared" for f in pathlib.Path(__file__).resolve().parents)
               if (p / "data" / "traces").is_dir()), None)
CDF = b'{"cdf": [[1024, 0.7], [8192, 0.92], [65536, 1.0]]}'
FLAT = ("--engine", "a100-flat", "--requests", 0)


def plan(*args, stdin=b""):
    return subprocess.run([harness.program("kvasir"), "plan", *map(str, args)],
                          input=stdin, capture_output=True, timeout=240)


class Plan(unittest.TestCase):
    def make(self, *args, stdin=b""):
        told = plan("--json", *args, stdin=stdin)
        self.assertEqual((told.returncode, told.stderr), (0, b""))
        return json.loads(told.stdout)

    def test_the_manual_is_one(self):
        told = plan("--help")
        self.assertEqual(told.returncode, 0)
        self.assertTrue(told.stdout.startswith(b"usage: kvasir plan "))
        self.assertLessEqual(max(map(len, told.stdout.splitlines())), 80)

    def test_what_cannot_be_planned_is_said(self):
        for args, stdin, why in [
                ((), b"", b"one of --trace, --cdf, --mix and --paper is needed"),
                (("--cdf", "/nowhere"), b"", b"/nowhere: No such file"),
                (("--cdf", "-"), b"[[1,2]]", b"-: pair 1: wanted are"),
                (("--trace", "-"), b"", b"-: "),
                (("--mix", "-"), CDF, b"-: no mix of a node (/admin/mix)"),
                (("--cdf", "-", "--model", "m"), CDF,
                 b"--model and --tenant choose from a --mix"),
                (("--cdf", "-", "--max-model-len", 9999999), CDF,
                 b"needs more than the")]:
            told = plan(*args, stdin=stdin)
            self.assertEqual((told.returncode, told.stdout), (2, b""), args)
            self.assertIn(why, told.stderr)
            self.assertEqual(told.stderr.count(b"\n"), 1)

    def test_a_cdf_is_sized_by_the_closed_form(self):
        made = self.make("--cdf", "-", *FLAT, stdin=CDF)
        one, two = made["one_fleet"], made["two_pools"]
        self.assertEqual([p["slots"] for p in one["pools"]], [16])
        self.assertEqual([p["slots"] for p in two["pools"]], [128, 16])
        self.assertAlmostEqual(two["pools"][0]["share"], 0.92, places=4)
        rate = one["pools"][0]["closed_per_s"]
        self.assertEqual(one["engines"]["closed"], -(-1000 * 1.08 // rate))
        self.assertEqual(made["requests_per_s"], 1000)

    def test_a_fleet_of_twice_the_rate_has_twice_the_engines(self):
        once, twice = (self.make("--cdf", "-", "--rate", rate, *FLAT, stdin=CDF)
                       ["one_fleet"]["engines"] for rate in (1000, 2000))
        for way in "closed", "corrected":
            self.assertAlmostEqual(twice[way] / once[way], 2, delta=0.05)

    def test_one_seed_prints_the_same_bytes_and_a_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            svg = pathlib.Path(folder) / "plan.svg"
            args = ("--cdf", "-", "--rate", 20, "--engine", "a100-flat",
                    "--requests", 100)
            first = plan(*args, "--svg", svg, stdin=CDF)
            self.assertEqual((first.returncode, first.stderr), (0, b""))
            self.assertEqual(first.stdout, plan(*args, stdin=CDF).stdout)
            self.assertNotEqual(first.stdout,
                                plan(*args, "--seed", 2, stdin=CDF).stdout)
            root = xml.etree.ElementTree.parse(svg).getroot()
            self.assertTrue(root.tag.endswith("svg"))

    def test_what_to_buy_is_said_in_a_line(self):
        args = ("--cdf", "-", "--rate", 20, *FLAT)
        cdf = b"[[256, 0.5], [1024, 1]]"
        made = self.make(*args, stdin=cdf)
        buy = made["buy"]
        self.assertEqual((buy["engines"], buy["by"]),
                         (made[buy["as"]]["engines"]["corrected"], "corrected"))
        self.assertAlmostEqual(buy["usd_a_year"], buy["gpus"] * 2.21 * 8760, delta=1)
        page = plan(*args, stdin=cdf).stdout.decode()
        self.assertRegex(page, rf"\nBuy {buy['engines']} engines? \({buy['gpus']} GPUs?\), \$")
        self.assertLessEqual(len(page.splitlines()), 40)
        late = ("--slo-ttft-ms", 1)
        self.assertIsNone(self.make(*args, *late, stdin=cdf)["buy"])
        self.assertIn("No number of these engines",
                      plan(*args, *late, stdin=cdf).stdout.decode())

    def test_a_plot_without_a_place_is_said(self):
        told = plan("--cdf", "-", *FLAT, "--svg", "/nowhere/plan.svg", stdin=CDF)
        self.assertEqual(told.returncode, 1)
        self.assertEqual(told.stderr,
                         b"kvasir plan: /nowhere/plan.svg: No such file or directory\n")
        self.assertIn(b"engines needed", told.stdout)

    def test_the_paper_is_reproduced(self):
        rows = self.make("--paper", "--requests", 0)["rows"]
        engines = [(r["paper"], r["reconstructed"]) for r in rows
                   if r["table"] == "Table 2" and "saving" not in r["what"]
                   and "$" not in r["what"]]
        self.assertEqual([int(paper) for paper, _ in engines],
                         [ours for _, ours in engines])
        told = plan("--paper", "--requests", 0).stdout.decode()
        self.assertRegex(told, r"(?m)^Table 2 +saving, % +16\.6 +16\.6 +39\.5$")
        self.assertRegex(told, r"(?m)^Table 2 +saving, % +38\.5 +38\.5 +36\.9$")

    def test_a_real_trace(self):
        if TRACES is None:
            self.skipTest("there is no ../shared/data beside the project")
        if shutil.which("zstd") is None:
            self.skipTest("zstd is not installed")
        trace = subprocess.run(["zstd", "-dc", TRACES / "azure2023_conv.csv.zst"],
                               check=True, capture_output=True).stdout
        made = self.make("--trace", "-", "--requests", 0, stdin=trace)
        self.assertEqual(made["max_len"], 16384)
        self.assertAlmostEqual(made["requests_per_s"], 5.53, places=2)
        long_share = made["two_pools"]["pools"][1]["share"]
        self.assertAlmostEqual(long_share, 1 / 19366, places=6)


if __name__ == "__main__":
    harness.main()
