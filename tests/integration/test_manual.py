"""Manual pages and completions, as they are made for installation."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

BUILD = harness.BUILD
MADE = BUILD / "deploy"
COMMANDS = "serve status top explain check doctor snapshot render route-test tokenize key engine replay plan".split()


def complete(*words, file=MADE / "kvasir.bash"):
    """What bash offers after these words, of which the last one is begun."""
    line = " ".join(f"'{word}'" for word in words)
    told = subprocess.run(
        ["bash", "-c", f'. "$1"; COMP_WORDS=(kvasir {line}); COMP_CWORD={len(words)}; '
                       '_kvasir; printf "%s\\n" "${COMPREPLY[@]}"', "bash", file],
        capture_output=True, text=True, timeout=30, check=True)
    return told.stdout.split()


class Manual(unittest.TestCase):
    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(set(COMMANDS) | {"--help", "--version"}, set(complete("")))
        self.assertEqual(complete("sta"), ["status"])
        self.assertEqual(complete("serve", "--limits.body_b"), ["--limits.body_bytes_max"])
        self.assertEqual(complete("check", "--sch"), ["--schema"])
        self.assertEqual(complete("serve", "--sch"), [])
        self.assertEqual(complete("status", "--adm"), ["--admin"])
        self.assertEqual(complete("serve", "--log.level", "w"), ["warning"])
        self.assertIn("round_robin", complete("serve", "--policy", ""))
        self.assertIn("/etc/hosts", complete("check", "-c", "/etc/host"))
        self.assertIn("--blocks", complete("engine", "--blo"))

    def test_other_shells_read_theirs(self):
        shells = [("zsh", "_kvasir"), ("fish", "kvasir.fish")]
        there = [(shell, file) for shell, file in shells if shutil.which(shell)]
        for shell, file in there:
            subprocess.run([shell, "-n", MADE / file], check=True, timeout=30)
        for command in COMMANDS:
            self.assertIn(f"{command})", (MADE / "_kvasir").read_text())
            self.assertIn(f"from {command}' -l help", (MADE / "kvasir.fish").read_text())

    def test_pages_have_every_command_and_every_key(self):
        commands = (MADE / "kvasir.1").read_text()
        keys = (MADE / "kvasir.yaml.5").read_text().replace("\\-", "-")
        for command in COMMANDS:
            self.assertRegex(commands, rf"(?m)^\.SH {command.upper()}$")
        reference = subprocess.run([BUILD / "node" / "kvasir", "check", "--reference"],
                                   capture_output=True, text=True, timeout=60, check=True).stdout
        names = [line for line in reference.splitlines() if line and line[0] not in " #"]
        self.assertGreater(len(names), 80)
        for name in names:
            self.assertIn(f"\n.B {name}\n", keys)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_pages_are_good_roff(self):
        for page in "kvasir.1", "kvasir.yaml.5":
            told = subprocess.run(["groff", "-man", "-ww", "-z", MADE / page],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((told.returncode, told.stderr), (0, ""), page)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_pages_are_good_for_mandoc(self):
        for page in "kvasir.1", "kvasir.yaml.5":
            told = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", MADE / page],
                                  capture_output=True, text=True, timeout=60, check=False)
            # Pages have no date, so that two builds are alike.
            said = [line for line in told.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(said, [], page)


@unittest.skipUnless(shutil.which("meson"), "meson is not installed")
class Installed(unittest.TestCase):
    """`meson install` into a folder, which is then moved: every prefix is like another."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-test-")
        cls.addClassCleanup(folder.cleanup)
        staged = pathlib.Path(folder.name) / "staged"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                        staged], check=True, timeout=300, stdout=subprocess.DEVNULL)
        prefix, = (path.parent.parent for path in staged.rglob("bin/kvasir"))
        cls.prefix = pathlib.Path(folder.name) / "any prefix"
        prefix.rename(cls.prefix)
        left = [path for path in staged.rglob("*") if not path.is_dir()]
        assert left == [], f"installed outside of the prefix: {left}"

    def run_it(self, *words):
        clean = {"PATH": "/usr/bin:/bin", **{key: value for key, value in os.environ.items()
                                             if key.endswith("SAN_OPTIONS")}}
        return subprocess.run([self.prefix / "bin" / "kvasir", *words], capture_output=True,
                              text=True, timeout=60, check=True, env=clean, cwd="/").stdout

    def find(self, name):
        found, = self.prefix.rglob(name)
        return found

    def test_every_command_runs_from_there(self):
        for command in COMMANDS:
            self.assertRegex(self.run_it(command, "--help"), rf"kvasir[ -]{command}\b")

    def test_nothing_else_is_installed(self):
        programs = {path.name for path in self.prefix.rglob("*")
                    if path.is_file() and os.access(path, os.X_OK)}
        self.assertEqual(programs, {"kvasir", *(f"kvasir-{name}" for name in
                                                ("engine", "load", "plan", "replay", "wide"))})
        others = {path.name for path in self.prefix.rglob("*") if path.is_file()} - programs
        self.assertEqual(others,
                         {"kvasir.1", "kvasir.yaml.5", "kvasir.bash", "_kvasir", "kvasir.fish"})

    def test_completions_are_where_shells_look(self):
        share = self.prefix / "share"
        self.assertEqual(complete("sta", file=share / "bash-completion/completions/kvasir.bash"),
                         ["status"])
        for path in "zsh/site-functions/_kvasir", "fish/vendor_completions.d/kvasir.fish":
            self.assertTrue((share / path).is_file(), path)

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_shows_the_pages(self):
        for page, words in (("kvasir.1", ["SYNOPSIS", "kvasir doctor", "DOCTOR"]),
                            ("kvasir.yaml.5", ["limits.body_bytes_max", "Default: "])):
            told = subprocess.run(["man", "--warnings", "-l", self.find(page)], timeout=60,
                                  capture_output=True, text=True, check=False,
                                  env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
                                       "MANWIDTH": "80"})
            if told.returncode != 0 and "minimized" in told.stdout + told.stderr:
                self.skipTest("this machine's man shows no pages")
            self.assertEqual((told.returncode, told.stderr), (0, ""), page)
            for word in words:
                self.assertIn(word, told.stdout)


if __name__ == "__main__":
    harness.main()
