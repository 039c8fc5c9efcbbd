"""The official OpenAI client for Node, through a node in front of two engines:
openai_client.mjs is what it does."""
import fcntl
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

import harness
from test_clients import MODEL, Clients

# Pinned: what the client's makers release today decides about no test of ours.
OPENAI = "6.10.0"
INSTALL_TIMEOUT_S = 120
CLIENT_TIMEOUT_S = 120
SCRIPT = pathlib.Path(__file__).resolve().parent / "openai_client.mjs"


def modules_of(package, version):
    """The directory that holds a client, installed once into the build;
    raises SkipTest where that cannot be."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"{tool} is not installed")
    folder = harness.BUILD / f"npm-{package.replace('/', '-')}-{version}"
    with open(harness.BUILD / f"{folder.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test may want it, too
        return install(folder, f"{package}@{version}")


def install(folder, package):
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts",
               "--no-package-lock", "--cache", folder / "cache", package]
    try:
        got = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest("the npm registry does not answer in time") from None
    if got.returncode != 0:
        why = (got.stderr.strip() or got.stdout.strip() or f"code {got.returncode}").splitlines()
        raise unittest.SkipTest(f"npm cannot install {package}: {why[0]}")
    shutil.rmtree(folder / "cache", ignore_errors=True)
    (folder / "complete").touch()
    return folder


class OpenAI(Clients):
    engine_flags = ("--speed", "5")

    def setUp(self):
        self.modules = modules_of("openai", OPENAI)
        super().setUp()

    def aborted(self):
        return sum(value for engine in self.engines
                   for key, value in harness.metrics(engine.at("http")).items()
                   if 'finished_reason="abort"' in key)

    def running(self):
        return sum(harness.metric(engine.at("http"), "vllm:num_requests_running")
                   for engine in self.engines)

    def test_the_official_client_for_node_works(self):
        with subprocess.Popen(["node", SCRIPT, self.modules, self.url, MODEL],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, bufsize=1) as client:
            guard = threading.Timer(CLIENT_TIMEOUT_S, client.kill)
            guard.start()
            lines = []
            for line in client.stdout:
                lines.append(line)
                if line == "streaming\n":
                    self.assertEqual((self.running(), self.aborted()), (1, 0))
                    client.stdin.write("go on\n")
            guard.cancel()
        sys.stderr.write("".join(lines))
        self.assertEqual(client.returncode, 0, "".join(lines))
        self.assertEqual(lines[-1], "done 11\n")
        self.assertEqual(harness.metric(self.node.at("admin"), "kvasir_forms_ahead_total"), 2)
        harness.wait_until(lambda: self.aborted() == 1 and self.running() == 0,
                           "the engine saw the cancel")


if __name__ == "__main__":
    harness.main()
