"""A server of other people: starts, and is ended, with what it said in a file."""
import subprocess

import harness


class Program:
    """command: with all of its options. begin() starts it, also again."""

    def __init__(self, case, name, command):
        self.name, self.command = name, [str(word) for word in command]
        self.log = case.folder / f"{name}.log"
        self.popen = None
        case.addCleanup(self.kill)

    def begin(self, is_up):
        """Returns once is_up() is true."""
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log)
        harness.wait_until(lambda: self.popen.poll() is not None or self.answers(is_up),
                           f"{self.name} is up", timeout_s=300)
        if self.popen.poll() is not None:
            raise RuntimeError(f"{self.name} ended\n{self.log.read_text()[-4000:]}")

    @staticmethod
    def answers(is_up):
        try:
            return is_up()
        except OSError:
            return False

    def end(self):
        self.popen.terminate()
        self.popen.wait(harness.STOP_TIMEOUT_S)

    def kill(self):
        if self.popen is not None and self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(harness.STOP_TIMEOUT_S)
