"""The archive of deploy/bundle where there is nothing but a C library: as on any other
distribution, below any folder.

Builds it, which takes minutes: of the suite nightly. KVASIR_BUNDLE=FILE takes that archive in
place of a new one."""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_LIBRARY = re.compile(r"(ld-linux|lib(c|m|pthread|resolv|rt|dl)\.so)")
TOOLS = ["ldd", "unshare", "chroot", "meson", "ninja"]
MISSING = [name for name in TOOLS if not shutil.which(name)]


@unittest.skipUnless(os.geteuid() == 0, "a root of its own needs root")
@unittest.skipIf(MISSING, f"not installed: {' '.join(MISSING)}")
class Bundle(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.archive = os.environ.get("KVASIR_BUNDLE")
        if cls.archive is None:
            folder = tempfile.TemporaryDirectory(prefix="kvasir-test-")
            cls.addClassCleanup(folder.cleanup)
            built = subprocess.run([ROOT / "deploy" / "bundle", folder.name], text=True,
                                   capture_output=True, timeout=3000, check=False)
            assert built.returncode == 0, built.stdout + built.stderr
            cls.archive = built.stdout.strip()

    def setUp(self):
        super().setUp()
        self.root = self.folder / "root"
        for name in ("proc", "dev", "tmp", "opt"):
            (self.root / name).mkdir(parents=True)
        with tarfile.open(self.archive) as archive:
            archive.extractall(self.root / "opt")
        self.place, = (self.root / "opt").iterdir()
        self.copy_c_library()

    def copy_c_library(self):
        told = subprocess.run(["ldd", self.place / "bin/kvasir"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        found = {path for path in re.findall(r"(/\S+) \(0x", told)
                 if C_LIBRARY.match(path.rpartition("/")[2])}
        self.assertGreater(len(found), 2, told)
        for path in found:
            there = self.root / path.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there)

    def within(self, *words):
        """That command of the bundle, in the root, which has its own /proc and /dev."""
        program = "/" + str((self.place / "bin/kvasir").relative_to(self.root))
        inner = ('mount -t proc proc "$0"/proc && mount -t tmpfs tmpfs "$0"/dev && for name in '
                 'null urandom; do touch "$0"/dev/$name && mount --bind /dev/$name "$0"/dev/$name; '
                 'done && exec chroot "$0" "$@"')
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inner,
                self.root, program, *words]

    def run_within(self, *words):
        told = subprocess.run(self.within(*words), capture_output=True, text=True,
                              timeout=harness.IO_TIMEOUT_S, env={}, check=False)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return told.stdout

    def serves(self):
        """A node there: its sandbox, its snapshots by a process of its own, its end."""
        node = subprocess.Popen(
            self.within("serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data",
                        f"/tmp/{self.place.name}-data"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={})
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        ready = dict(word.split("=", 1) for word in node.stdout.readline().split()[1:])
        host, _, port = ready["admin"].rpartition(":")
        admin = (host, int(port))
        self.assertEqual(harness.request(admin, "POST", "/admin/snapshot").status, 200)
        self.assertIn("node ", self.run_within("status", "--admin", ready["admin"]))
        return harness.request(admin, "GET", "/admin/status").json()["sandbox"]["bounds"]

    def test_it_runs_on_a_c_library_alone_wherever_it_lies(self):
        self.assertEqual({path.name for path in self.place.iterdir()},
                         {"bin", "lib", "libexec", "share"})
        version = re.search(r"version: '(.+)'", (ROOT / "meson.build").read_text())[1]
        bounds = re.search(r"the kernel can bound (.+)",
                           self.doctor())[1]
        for place in ("opt/any", "tmp/elsewhere"):
            (self.root / place).parent.mkdir(exist_ok=True)
            self.place = self.place.rename(self.root / place)
            self.assertIn(version, self.run_within("--version"))
            for command in ("plan", "replay", "engine"):
                self.assertIn("usage: kvasir", self.run_within(command, "--help"))
            self.assertEqual(self.serves(), bounds)

    def doctor(self):
        """Its words; there is no worker at that address."""
        return subprocess.run(self.within("doctor", "--worker", "http://127.0.0.1:1"), text=True,
                              capture_output=True, timeout=harness.IO_TIMEOUT_S, env={},
                              check=False).stdout

    def test_what_is_passed_on_says_whose_it_is(self):
        told = self.place / "share/doc/kvasir"
        self.assertTrue((told / "LICENSE").is_file())
        libraries = {path.name for path in (self.place / "lib/kvasir").iterdir()}
        self.assertGreater(len(libraries), 10)
        self.assertFalse({name for name in libraries if C_LIBRARY.match(name)})
        if pathlib.Path("/etc/debian_version").exists():
            self.assertGreater(len(list(told.glob("copyright.*"))), 10)


if __name__ == "__main__":
    harness.main()
