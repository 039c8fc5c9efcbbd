#!/usr/bin/env python3
"""Kvasir, or a plain model of what it does, against a real vLLM on the CPU.

    tests/engines/rules.py                  the wire and the events alone
    tests/engines/rules.py --build BUILD    with kvasir in front
    tests/engines/rules.py --shapes         other options of the engine

Needs an installed vLLM: the command of that name, or $KVASIR_VLLM. Its model
has random weights and is made here; nothing is downloaded. Ends with 0 when
every fact held, 1 when one did not, 77 when there is no vLLM.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent


def options():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="Needs vLLM: the command `vllm`, or $KVASIR_VLLM. Without it: exit code 77.")
    parser.add_argument("--build", metavar="DIR", help="kvasir of this build stands in front")
    parser.add_argument("--shapes", action="store_true",
                        help="instead: the events of vLLM under other options (LoRA, hybrid "
                             "models, ranks, raw hashes)")
    parser.add_argument("--engines", type=int, default=1, metavar="N",
                        help="how many vLLMs (1; more need --build)")
    parser.add_argument("--ranks", type=int, default=1, metavar="N",
                        help="data-parallel ranks of each (1; more need --build)")
    parser.add_argument("--quiet", type=int, default=120, metavar="N",
                        help="requests one after the other, per stage (120)")
    parser.add_argument("--load", type=int, default=200, metavar="N",
                        help="requests --at-once at a time, per stage (200)")
    parser.add_argument("--at-once", type=int, default=6, metavar="N")
    parser.add_argument("--blocks", type=int, default=320, metavar="N",
                        help="of an engine's cache (320)")
    parser.add_argument("--block-tokens", type=int, default=32, metavar="N",
                        help="a multiple of 32 on the CPU (32)")
    parser.add_argument("--hybrid", action="store_true",
                        help="a model with sliding windows beside full attention")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--captures", metavar="DIR", help="keep a payload of each shape there")
    parser.add_argument("--vllm", action="append", default=[], metavar="ARG",
                        help="one more argument of `vllm serve`")
    parser.add_argument("--kvasir", action="append", default=[], metavar="ARG",
                        help="one more argument of `kvasir serve`, as --kvasir=--tokens.wait=1s")
    parser.add_argument("--json", metavar="FILE", help="every row goes there")
    args = parser.parse_args()
    if (args.engines > 1 or args.ranks > 1) and not args.build:
        parser.error("--engines and --ranks need --build: somebody must choose between them")
    return args


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def find_vllm():
    named = os.environ.get("KVASIR_VLLM")
    found = shutil.which(named or "vllm")
    if not found:
        skip(f"{named} is no program" if named else
             "no vLLM: neither the command vllm nor $KVASIR_VLLM")
    return found


def use_python_of(executable):
    """Goes on in vLLM's own Python: it has zmq, msgspec and tokenizers."""
    python = pathlib.Path(executable).resolve().parent / "python"
    if not python.exists() or os.environ.get("KVASIR_ENGINES_PYTHON"):
        return
    # Here, not in a child: one process to interrupt.
    os.environ["KVASIR_ENGINES_PYTHON"] = str(python)
    os.execv(str(python), [str(python), "-P", str(HERE / "rules.py"), *sys.argv[1:]])


def main():
    args = options()
    executable = find_vllm()
    use_python_of(executable)
    sys.path += [str(HERE), str(HERE.parent / "integration")]
    try:
        import msgspec  # noqa: F401
        import tokenizers  # noqa: F401
        import zmq  # noqa: F401
    except ImportError as fault:
        skip(f"vLLM's Python lacks {fault.name}")
    version = subprocess.run([executable, "--version"], capture_output=True, text=True,
                             check=False)
    if version.returncode:
        skip(f"{executable} does not run: {version.stderr.strip().splitlines()[-1:]}")
    import stages
    # Told to end, it takes its engines along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    random.seed(args.seed)
    with tempfile.TemporaryDirectory(prefix="kvasir-engines-") as folder:
        sys.exit(stages.run(args, executable, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
