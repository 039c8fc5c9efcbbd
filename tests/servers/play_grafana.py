"""The dashboard, held against Grafana's own types of one, and of its panels. (Its queries are
asked of a real Prometheus: tests/integration/test_prometheus.py.)"""
import json
import pathlib
import subprocess
import unittest

import builds

DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy/prometheus/dashboard.json"


class Dashboard(unittest.TestCase):
    def said(self, board):
        """'': it is taken."""
        got = subprocess.run([builds.grafana()], input=json.dumps(board), text=True,
                             capture_output=True, check=False, timeout=60)
        self.assertEqual(got.returncode, 1 if got.stdout else 0, got.stderr)
        return got.stdout

    def test_it_is_taken(self):
        board = json.loads(DASHBOARD.read_text())
        self.assertEqual(self.said(board), "")
        kinds = {panel["type"] for panel in board["panels"]}
        self.assertEqual(kinds, {"row", "stat", "timeseries"}, "take.go knows these")

    def test_what_grafana_does_not_know_is_told(self):
        """So that the test above is worth something."""
        for where, wrong in (("title", 5), ("nonsense", 1), ("panels.1.options.textMode", {}),
                             ("panels.1.options.nonsense", 1), ("panels.1.gridPos.w", "wide")):
            board = json.loads(DASHBOARD.read_text())
            *path, last = where.split(".")
            place = board
            for key in path:
                place = place[int(key) if key.isdigit() else key]
            place[last] = wrong
            self.assertNotEqual(self.said(board), "", where)
