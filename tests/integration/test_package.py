"""The Debian package in a system of its own: installed, upgraded, removed, purged; and its
unit under a systemd of its own.

Builds the package and a small Debian (debootstrap), which takes minutes: of the suite
nightly. KVASIR_PACKAGE=FILE takes that package in place of a new one."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import booted
import harness
import test_hardening
import test_service

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILDERS = [] if "KVASIR_PACKAGE" in os.environ else ["dpkg-buildpackage", "dh"]
TOOLS = ["debootstrap", "dpkg-deb", "unshare", "apt-get", *BUILDERS]
MISSING = [name for name in TOOLS if not shutil.which(name)]
LIBEXEC = ["engine", "load", "plan", "replay", "wide"]
SETTINGS = "/etc/kvasir/kvasir.yaml"
LINK = "etc/systemd/system/multi-user.target.wants/kvasir.service"
# A node by the unit's command line, on ports of its own, until it is ready.
SERVE = """
install -d -o kvasir -g kvasir -m 0700 /var/lib/kvasir
{ command -v runuser && command -v kvasir; } >/dev/null || exit 1
runuser -u kvasir -- kvasir serve -c /etc/kvasir/kvasir.yaml --data /var/lib/kvasir \
    --listen 127.0.0.1:0 --admin 127.0.0.1:0 >/tmp/out 2>/tmp/log & p=$!
until grep -q '^ready ' /tmp/out; do
    kill -0 $p 2>/dev/null || { cat /tmp/log; exit 1; }
done
kill -INT $(cat /proc/$p/task/$p/children)
wait $p
"""


def run(*words, timeout=1800, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


def mirror():
    """Where apt has Debian 12 from, or None."""
    told = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
               "Created-By: Packages").stdout
    found = re.search(r"(?m)^(\S+) bookworm main$", told)
    return found[1] if found else None


@unittest.skipUnless(os.geteuid() == 0, "a system of its own needs root")
@unittest.skipIf(MISSING, f"not installed: {' '.join(MISSING)}")
class Package(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        where = mirror()
        if where is None:
            raise unittest.SkipTest("apt has no source of Debian 12")
        made = run("debootstrap", "--variant=minbase", "bookworm", cls.root, where)
        if made.returncode != 0:
            raise unittest.SkipTest("debootstrap failed: " + made.stdout[-300:])
        given = os.environ.get("KVASIR_PACKAGE")
        if given is None:
            built = run(ROOT / "deploy" / "package", cls.folder, timeout=3000)
            assert built.returncode == 0, built.stdout + built.stderr
            given, = cls.folder.glob("kvasir_*.deb")
        shutil.copy(given, cls.root / "srv" / "new.deb")
        cls.make_older()

    @classmethod
    def make_older(cls):
        """The same with a lower version: the one before."""
        tree = cls.folder / "older"
        run("dpkg-deb", "-R", cls.root / "srv" / "new.deb", tree)
        control = tree / "DEBIAN" / "control"
        control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 0.0.1", control.read_text()))
        run("dpkg-deb", "--root-owner-group", "-b", tree, cls.root / "srv" / "old.deb")

    def within(self, *words, **options):
        """Runs it in that system, as root; all that it starts ends with it."""
        inner = 'mount -t proc proc "$0"/proc && exec chroot "$0" "$@"'
        told = run("unshare", "--mount", "--pid", "--fork", "sh", "-c", inner, self.root, *words,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                        "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}, **options)
        self.assertEqual(told.returncode, 0, told.stdout[-3000:] + told.stderr[-3000:])
        return told.stdout.strip()

    def path(self, name):
        return self.root / name.lstrip("/")

    def version(self):
        return self.within("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", "kvasir")

    def test_its_life(self):
        self.within("apt-get", "update", "-qq")
        self.within("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/srv/old.deb")
        self.assertEqual(self.version(), "installed 0.0.1")
        self.is_installed()
        with self.path(SETTINGS).open("a") as settings:
            settings.write("\nlanes: 1\n")

        self.within("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/srv/new.deb")
        self.assertRegex(self.version(), r"^installed 0\.[1-9]\d*\.\d+\+\d{14}\.[0-9a-f]{12}$")
        self.assertIn("\nlanes: 1\n", self.path(SETTINGS).read_text())
        self.assertIn("lanes: 1\n", self.as_user("kvasir", "check", "-c", SETTINGS))
        self.is_installed()

        self.within("apt-get", "remove", "-y", "-qq", "kvasir")
        self.assertFalse(self.path("/usr/bin/kvasir").exists())
        self.assertTrue(self.path(SETTINGS).exists())
        self.assertTrue(self.path("/var/lib/kvasir").exists())

        self.within("apt-get", "purge", "-y", "-qq", "kvasir")
        left = [path for path in self.root.rglob("*kvasir*")
                if path.relative_to(self.root).parts[0] not in ("proc", "tmp")]
        self.assertEqual(left, [])

    def test_systemd_starts_bounds_reloads_watches_and_stops_it(self):
        why_not = booted.why_not()
        if why_not:
            self.skipTest(why_not)
        self.within("apt-get", "update", "-qq")
        self.within("apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd",
                    "/srv/old.deb")
        self.addCleanup(self.within, "apt-get", "purge", "-y", "-qq", "kvasir")
        kernel = re.search(r"the kernel can bound (.+)", self.doctor())[1]
        system = booted.Booted(self.root)
        self.addCleanup(system.end)

        def run(*words):
            told = system.run(*words)
            self.assertEqual(told.returncode, 0, f"{words}\n{told.stdout}{told.stderr}"
                             + system.run("journalctl", "-u", "kvasir", "-o", "cat").stdout)
            return told.stdout.strip()

        def show(name):
            return run("systemctl", "show", "kvasir", "--value", "-p", name)

        def is_active():
            return system.run("systemctl", "is-active", "kvasir").stdout.strip() == "active"

        def replaced(before, what):
            harness.wait_until(lambda: is_active() and show("MainPID") not in ("0", before),
                               what, timeout_s=300)
            return show("MainPID")
        main = replaced("", "it starts with the system, and says that it is ready")
        self.assertEqual(run("stat", "-c", "%U", f"/proc/{main}"), "kvasir")
        self.assertEqual(run("stat", "-c", "%U %a", "/var/lib/kvasir"), "kvasir 700")
        self.assertIn(f"\nsandbox   {kernel}\n", run("kvasir", "status"))
        status = run("cat", f"/proc/{main}/status")
        self.assertRegex(status, r"(?m)^NoNewPrivs:\t1$")
        self.assertRegex(status, r"(?m)^CapBnd:\t0{13}400$")  # CAP_NET_BIND_SERVICE
        run("systemd-analyze", "security", f"--threshold={test_service.EXPOSURE_MAX}",
            "--no-pager", "kvasir.service")

        with self.path(SETTINGS).open("a") as settings:
            settings.write("\npolicy:\n  balance_abs: 65\n")
        run("systemctl", "reload", "kvasir")
        harness.wait_until(lambda: re.search(r"(?m) reloaded .*policy\.balance_abs", run(
            "journalctl", "-u", "kvasir", "-o", "cat")), "it is applied")
        self.assertEqual(show("MainPID"), main)

        run("sh", "-c", f"kill -STOP {main}")  # as a thread that stands still
        main = replaced(main, "the watchdog has it started anew")
        self.assertEqual(show("NRestarts"), "1")
        for times in range(1, 8):  # systemd's own bound is five starts within ten seconds
            run("sh", "-c", f"kill -KILL {main}")
            main = replaced(main, f"who died {times} times is started anew")

        run("dpkg", "-i", "/srv/new.deb")
        main = replaced(main, "an upgrade is a restart")
        self.assertEqual(show("NRestarts"), "0")
        run("systemctl", "stop", "kvasir")
        self.assertEqual(show("Result"), "success")
        run("systemctl", "start", "kvasir")
        run("dpkg", "-r", "kvasir")
        self.assertFalse(is_active())
        self.assertEqual(run("sh", "-c", "cat /proc/[0-9]*/comm | grep -c kvasir || true"), "0")

    def doctor(self):
        """Its words; there is no worker at that address."""
        told = subprocess.run(["chroot", self.root, "kvasir", "doctor", "--worker",
                               "http://127.0.0.1:1"], capture_output=True, text=True,
                              timeout=harness.IO_TIMEOUT_S, check=False)
        return told.stdout

    def as_user(self, *words):
        return self.within("runuser", "-u", "kvasir", "--", *words)

    def is_installed(self):
        self.assertEqual(self.within("stat", "-c", "%U:%G %a", "/etc/kvasir"), "root:kvasir 750")
        self.assertIn("nologin", self.within("getent", "passwd", "kvasir"))
        self.assertTrue(self.path(LINK).is_symlink(), "it starts with the system")
        self.assertIn("usage: kvasir plan", self.as_user("kvasir", "plan", "--help"))
        self.as_user("kvasir", "check", "-c", SETTINGS)
        self.within("sh", "-c", SERVE, timeout=harness.IO_TIMEOUT_S)
        for path in ("/usr/share/bash-completion/completions/kvasir.bash",
                     "/usr/share/zsh/vendor-completions/_kvasir",
                     "/usr/share/fish/vendor_completions.d/kvasir.fish",
                     "/lib/systemd/system/kvasir.service"):
            self.assertTrue(self.path(path).is_file(), path)
        listed = self.within("dpkg", "-L", "kvasir").splitlines()
        self.assertIn("/usr/share/man/man1/kvasir.1.gz", listed)
        self.assertIn("/usr/share/man/man5/kvasir.yaml.5.gz", listed)
        elf = test_hardening.Hardening()
        for name in ["bin/kvasir", *(f"libexec/kvasir/kvasir-{each}" for each in LIBEXEC)]:
            elf.check(self.path(f"/usr/{name}"))


if __name__ == "__main__":
    harness.main()
