"""Commands of deploy/features.md as they stand there: what it says is what happens."""
import os
import pathlib
import shlex
import signal
import subprocess

import harness

PAGE = pathlib.Path(__file__).resolve().parents[2] / "deploy/features.md"


def begin(case, first, serve, changes):
    """Starts the block whose first line begins so, with these changes: its processes, and their
    log. Where it sleeps, the node at that port is waited for."""
    page = PAGE.read_text()
    block = page[page.index("    " + first):].split("\n\n")[0]
    for old, new in (*changes, ("\\\n", " "),
                     ("kvasir-load", f"kvasir-load --url http://127.0.0.1:{serve}")):
        case.assertIn(old, block)
        block = block.replace(old, new)
    paths = [str(pathlib.Path(harness.program(name)).parent) for name in ("kvasir", "kvasir-load")]
    env = {**harness.DEFAULTS, **os.environ, "PATH": ":".join([*paths, os.environ["PATH"]])}
    log, started = case.folder / "log", []
    case.addCleanup(lambda: [p.kill() for p in started])

    def ready():
        try:
            return harness.request(("127.0.0.1", serve), "GET", "/ready").status == 200
        except OSError:
            return False

    for line in block.strip().splitlines():
        if line.strip() == "sleep 5":
            harness.wait_until(ready, "the node is up", 60)
            continue
        with log.open("ab") as out:
            started.append(subprocess.Popen(shlex.split(line.removesuffix("&")), env=env,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out))
    return started, log


def end(case, started, log):
    for process in reversed(started):
        process.terminate()
        case.assertIn(process.wait(), (0, -signal.SIGTERM), log.read_text())
