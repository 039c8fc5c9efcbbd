"""What the kernel lets a node do to its machine: all of its threads and processes, what is
said of it, and how a node is started without."""
import os
import pathlib
import re
import shutil
import signal
import tempfile
import unittest.mock

import harness
from fake_worker import FakeWorker
from test_proxy import echo


def has(node):
    return harness.request(node.at("admin"), "GET", "/admin/status").json()["sandbox"]


def read(path):
    """What a file of a thread says, or nothing where the thread has ended meanwhile."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def status(path):
    """The words of a thread's status."""
    lines = read(pathlib.Path(path, "status")).splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def bounds(pid):
    """(seccomp, no_new_privs) of each thread of the process and of its children."""
    found = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        told = status(task)
        if told:
            found.add((told["Seccomp"], told["NoNewPrivs"]))
        for child in read(task / "children").split():
            found |= bounds(child)
    return found


class Sandbox(harness.Case):
    def serve(self, *flags):
        worker = FakeWorker(self, echo)
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", worker.url, *flags)

    def bounded(self, *flags):
        """A node that has both bounds."""
        node = self.serve(*flags)
        if has(node)["bounds"] != "files and calls":
            self.skipTest("this kernel: " + has(node)["why"])
        return node

    def snapshot(self, node):
        return harness.request(node.at("admin"), "POST", "/admin/snapshot")

    def test_all_of_a_node_is_bounded_and_it_serves(self):
        node = self.bounded("--data", self.folder / "data", "--mesh", "127.0.0.1:0")
        self.assertEqual(self.snapshot(node).status, 200)  # there is a keeper
        self.assertEqual(bounds(node.pid), {("2", "1")})
        self.assertEqual(has(node), {"bounds": "files and calls", "why": ""})
        harness.wait_until(lambda: 'start_sandbox bounds="files and calls" why=""' in node.log(),
                           "it is said")
        told = self.run_once("kvasir", "status", "--admin", "%s:%d" % node.at("admin"))
        self.assertIn("\nsandbox   files and calls\n", told.stdout)
        self.assertEqual(harness.request(node.at("serve"), "POST", "/v1/chat/completions", {
            "model": "m", "messages": [{"role": "user", "content": "hello"}]}).status, 200)
        self.assertEqual(node.stop(), 0)
        again = self.serve("--data", self.folder / "data")
        harness.wait_until(lambda: "start_snapshot state=warm" in again.log(), "it is warm")

    def test_it_writes_in_the_folder_that_it_began_with_alone(self):
        data = self.folder / "data"
        node = self.bounded("--data", data)
        self.assertEqual(self.snapshot(node).status, 200)
        data.rename(self.folder / "before")
        data.mkdir()
        # It sees that the folder is another one, and would take that one's lock.
        harness.wait_until(lambda: "permission denied" in self.snapshot(node).text, "it may not")
        self.assertEqual(list(data.iterdir()), [])
        self.assertIn("snapshot_failed", node.log())
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_snapshot_failing"), 1)

    def test_an_update_of_the_c_library_does_not_end_snapshots(self):
        """A copy of the program, whose loader is replaced as packages do it."""
        program = pathlib.Path(harness.program("kvasir")).read_bytes()
        found = re.search(rb"/lib[0-9a-z]*/ld-linux[^\0]*", program)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))  # a short name
        self.addCleanup(shutil.rmtree, folder)
        loader = folder / "l"
        if found is None or len(str(loader)) > len(found[0]):
            self.skipTest("this program's loader is none of glibc's")
        shutil.copy(found[0].decode(), loader)
        (folder / "node").mkdir()
        copy = folder / "node/kvasir"
        copy.write_bytes(program.replace(found[0], bytes(loader).ljust(len(found[0]), b"\0"), 1))
        copy.chmod(0o755)
        with unittest.mock.patch.object(harness, "BUILD", folder):
            node = self.bounded("--data", self.folder / "data")
        self.assertEqual(self.snapshot(node).status, 200)
        shutil.copy(loader, folder / "new")
        (folder / "new").rename(loader)
        keepers = [child for task in pathlib.Path(f"/proc/{node.pid}/task").iterdir()
                   for child in (task / "children").read_text().split()]
        self.assertEqual(len(keepers), 1)
        os.kill(int(keepers[0]), signal.SIGKILL)
        harness.wait_until(lambda: self.snapshot(node).status == 200, "another keeper")

    def test_it_can_be_turned_off(self):
        node = self.serve("--sandbox", "off", "--data", self.folder / "data")
        self.assertEqual(self.snapshot(node).status, 200)
        self.assertEqual({seccomp for seccomp, _ in bounds(node.pid)},
                         {status("/proc/self")["Seccomp"]})
        self.assertEqual(has(node), {"bounds": "nothing", "why": "sandbox is off"})

    def test_programs_of_the_node_have_no_bounds_so_neither_has_the_node(self):
        flags = ("--scale.mode", "dry_run", "--scale.command", "/bin/true")
        node = self.serve(*flags)
        self.assertEqual(has(node), {"bounds": "nothing", "why":
                                     "programs of scale.command would inherit it"})
        told = self.run_once("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                             "127.0.0.1:0", "--sandbox", "require", *flags)
        self.assertEqual((told.returncode, told.stdout), (1, ""))
        self.assertIn('sandbox_refused bounds=nothing why="programs of scale.command', told.stderr)

    def test_a_reload_brings_no_first_program(self):
        config = self.folder / "kvasir.yaml"
        config.write_text("scale:\n  mode: dry_run\n")
        node = self.bounded("-c", config)
        config.write_text("scale:\n  mode: dry_run\n  command: /bin/true\n")
        told = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(told.status, 400)
        self.assertIn("runs none (sandbox); restart it", told.text)
        config.write_text("scale:\n  mode: dry_run\n  pools: 'a,command=/bin/true'\n")
        told = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertIn("runs none (sandbox); restart it", told.text)
        again = self.serve("-c", config)
        self.assertEqual(has(again)["bounds"], "nothing")
        config.write_text("scale:\n  mode: dry_run\n  command: /bin/true\n")
        self.assertEqual(harness.request(again.at("admin"), "POST", "/admin/reload", {}).status,
                         200)

    def test_required_and_there(self):
        self.bounded()
        self.assertEqual(has(self.serve("--sandbox", "require"))["bounds"], "files and calls")

    def test_the_doctor_says_what_there_is(self):
        node = self.bounded()
        told = self.run_once("kvasir", "doctor", "--worker", FakeWorker(self, echo).url)
        self.assertIn("ok       sandbox  the kernel can bound " + has(node)["bounds"], told.stdout)


if __name__ == "__main__":
    harness.main()
