"""The optional test against a real vLLM: that it says so where there is none."""
import os
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "engines" / "rules.py"


def run(*args, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("KVASIR_VLLM", "PATH")}
    return subprocess.run([sys.executable, str(SCRIPT), *args], text=True, capture_output=True,
                          timeout=60, env={**clean, "PATH": "/nowhere", **env}, check=False)


class Engines(unittest.TestCase):
    def test_it_has_a_manual(self):
        told = run("--help")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("KVASIR_VLLM", told.stdout)
        self.assertIn("--build", told.stdout)

    def test_it_skips_where_there_is_no_vllm(self):
        told = run()
        self.assertEqual((told.returncode, told.stderr), (77, ""))
        self.assertTrue(told.stdout.startswith("skipped: no vLLM"), told.stdout)

    def test_it_skips_where_the_vllm_named_is_no_program(self):
        told = run(KVASIR_VLLM="/nowhere/vllm")
        self.assertEqual(told.returncode, 77, told.stderr)
        self.assertIn("/nowhere/vllm is no program", told.stdout)

    def test_it_skips_where_vllm_does_not_run(self):
        told = run(KVASIR_VLLM="/bin/false")
        self.assertEqual(told.returncode, 77, told.stderr)
        self.assertIn("skipped: ", told.stdout)

    def test_bad_usage_is_exit_code_2(self):
        self.assertEqual(run("--engines", "2").returncode, 2)


if __name__ == "__main__":
    unittest.main()
