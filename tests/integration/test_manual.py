"""Manual pages and completions, as they are made for installation."""
import shutil
import subprocess
import unittest

import harness

BUILD = harness.BUILD
MADE = BUILD / "deploy"
COMMANDS = "serve status top explain check doctor snapshot render tokenize key engine replay plan".split()


def complete(*words):
    """What bash offers after these words, of which the last one is begun."""
    line = " ".join(f"'{word}'" for word in words)
    told = subprocess.run(
        ["bash", "-c", f'. "$1"; COMP_WORDS=(kvasir {line}); COMP_CWORD={len(words)}; '
                       '_kvasir; printf "%s\\n" "${COMPREPLY[@]}"', "bash", MADE / "kvasir.bash"],
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


if __name__ == "__main__":
    harness.main()
