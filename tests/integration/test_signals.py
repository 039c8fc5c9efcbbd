"""What a node does when it is told something by a signal."""
import os
import signal
import socket
import threading

import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, echo, request_bytes


class Signals(Proxy):
    def open_stream(self, **options):
        """A node with a stream that is open until `finish` is set."""
        self.finish, begun = threading.Event(), threading.Event()
        self.addCleanup(self.finish.set)

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: 1\n\n")
            begun.set()
            self.finish.wait(harness.IO_TIMEOUT_S)
            peer.chunk(b"data: [DONE]\n\n")
            peer.end_stream()

        node = self.serve(FakeWorker(self, handler), **options)
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(begun.wait(harness.IO_TIMEOUT_S))
        return node, s

    def closed(self):
        """The port takes no connections."""
        try:
            socket.create_connection(self.address, timeout=1).close()
            return False
        except OSError:
            return True


class Ignored(Signals):
    def test_user_signals_end_nothing(self):
        node = self.serve(FakeWorker(self, echo))
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
            node.signal(number)
        self.assertEqual(self.post(chat()).status, 200)
        self.assertEqual(node.stop(), 0)


class ServiceManager(Signals):
    """What systemd is told by its notify protocol."""

    def manager(self, name):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.bind(name)
        s.settimeout(harness.IO_TIMEOUT_S)
        return s

    def test_it_is_told_of_begin_reload_and_end(self):
        path = f"{self.folder}/notify"
        manager = self.manager(path)
        node = self.serve(FakeWorker(self, echo), env={"NOTIFY_SOCKET": path})
        self.assertEqual(manager.recv(256), b"READY=1")
        node.signal(signal.SIGHUP)
        self.assertRegex(manager.recv(256), rb"^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$")
        self.assertEqual(manager.recv(256), b"READY=1")
        self.assertEqual(node.stop(), 0)
        self.assertEqual(manager.recv(256), b"STOPPING=1")

    def test_a_reload_after_the_end_was_told_takes_nothing_back(self):
        path = f"{self.folder}/notify"
        manager = self.manager(path)
        node = self.serve(FakeWorker(self, echo), options=["--timeouts.lame_duck", "1h"],
                          env={"NOTIFY_SOCKET": path})
        self.assertEqual(manager.recv(256), b"READY=1")
        node.signal(signal.SIGTERM)
        self.assertEqual(manager.recv(256), b"STOPPING=1")
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: "reloaded" in node.log(), "it reloads")
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 0)
        self.assertEqual(manager.recv(256), b"STOPPING=1")  # the drain says it once more
        manager.setblocking(False)
        with self.assertRaises(BlockingIOError):
            manager.recv(256)

    def test_it_gets_signs_of_life_while_the_lanes_live(self):
        name = f"\0kvasir-{os.getpid()}-{id(self)}"
        manager = self.manager(name)
        self.serve(FakeWorker(self, echo), env={
            "NOTIFY_SOCKET": "@" + name[1:], "WATCHDOG_USEC": "200000"})
        self.assertEqual(manager.recv(256), b"READY=1")
        for _ in range(3):
            self.assertEqual(manager.recv(256), b"WATCHDOG=1")

    def test_another_process_s_watchdog_is_not_its_own(self):
        path = f"{self.folder}/notify"
        manager = self.manager(path)
        node = self.serve(FakeWorker(self, echo), env={
            "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        self.assertEqual(manager.recv(256), b"READY=1")
        self.assertEqual(node.stop(), 0)
        self.assertEqual(manager.recv(256), b"STOPPING=1")

    def test_a_manager_that_is_not_there_is_one_line_of_the_log(self):
        node = self.serve(FakeWorker(self, echo), env={"NOTIFY_SOCKET": f"{self.folder}/none"})
        self.assertEqual(self.post(chat()).status, 200)
        self.assertIn("notify_failed", node.log())


class LameDuck(Signals):
    def test_it_serves_on_and_says_that_it_leaves(self):
        node = self.serve(FakeWorker(self, echo), options=["--timeouts.lame_duck", "1h"])
        kept = harness.connect(self.address)
        self.addCleanup(kept.close)
        harness.send(kept, "GET", "/ready")
        self.assertEqual(harness.Answer(kept.getresponse()).status, 200)
        node.signal(signal.SIGTERM)
        harness.wait_until(
            lambda: harness.request(self.address, "GET", "/ready").status == 503, "it says so")
        # Who has a connection is served on it, once more; so is who comes now.
        harness.send(kept, "POST", CHAT, chat())
        answers = [harness.Answer(kept.getresponse()), self.post(chat()),
                   harness.request(self.address, "GET", "/health")]
        for answer in answers:
            self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"))
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 0)

    def test_an_answer_that_begins_then_closes_its_connection(self):
        asked, finish = threading.Event(), threading.Event()
        self.addCleanup(finish.set)

        def handler(peer, request):
            asked.set()
            finish.wait(harness.IO_TIMEOUT_S)
            echo(peer, request)

        node = self.serve(FakeWorker(self, handler), options=["--timeouts.lame_duck", "1h"])
        connection = harness.connect(self.address)
        self.addCleanup(connection.close)
        harness.send(connection, "POST", CHAT, chat())
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        node.signal(signal.SIGTERM)
        harness.wait_until(lambda: "lame_duck" in node.log(), "it leaves")
        harness.wait_until(
            lambda: harness.request(self.address, "GET", "/ready").status == 503, "it says so")
        finish.set()
        answer = harness.Answer(connection.getresponse())
        self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"))

    def test_it_ends_by_itself(self):
        node = self.serve(FakeWorker(self, echo), options=["--timeouts.lame_duck", "100ms"])
        self.assertEqual(node.stop(), 0)
        self.assertIn("lame_duck", node.log())

    def test_who_sits_at_a_terminal_does_not_wait_for_it(self):
        node = self.serve(FakeWorker(self, echo), options=["--timeouts.lame_duck", "1h"])
        node.signal(signal.SIGINT)
        self.assertEqual(node.wait(), 0)

    def test_a_stream_that_was_open_ends_in_its_own_time(self):
        node, s = self.open_stream(options=["--timeouts.lame_duck", "100ms"])
        node.signal(signal.SIGTERM)
        harness.wait_until(self.closed, "the port is closed")
        self.finish.set()
        data = b""
        while (part := s.recv(65536)) != b"":
            data += part
        self.assertTrue(data.endswith(b"0\r\n\r\n"), data)
        self.assertEqual(node.wait(), 0)


class CutOff(Signals):
    def test_what_outlasts_the_drain_is_counted_and_told(self):
        node, s = self.open_stream(options=["--timeouts.drain", "100ms"])
        node.killed = True  # its exit code is not 0
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 1)
        self.assertIn("requests_cut_off count=1", node.log())
        with self.assertRaises(ConnectionResetError):
            while s.recv(65536) != b"":
                pass

    def test_idle_connections_are_nothing_that_is_cut(self):
        node = self.serve(FakeWorker(self, echo), options=["--timeouts.drain", "100ms"])
        self.connect()
        self.assertEqual(node.stop(), 0)


class Late(Signals):
    """Something below the node never lets it close its loop. The node does not wait for
    it, says so, and its exit code is that of what it did before."""
    LINE = "kvasir: closing takes too long, ended\n"
    # A sanitizer wants to come first, and need not.
    ENV = {"LD_PRELOAD": harness.program("hang_shim.so"), "ASAN_OPTIONS": os.environ.get(
        "ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def test_what_hangs_at_the_end_is_not_waited_for(self):
        node = self.serve(FakeWorker(self, echo), env=self.ENV)
        self.assertEqual(self.post(chat()).status, 200)
        self.assertEqual(node.stop(), 0)
        self.assertTrue(node.log().endswith(self.LINE), node.log())

    def test_signals_that_come_so_late_change_nothing(self):
        node = self.serve(FakeWorker(self, echo), env=self.ENV)
        node.signal(signal.SIGTERM)
        harness.wait_until(lambda: "closing its loop" in node.log(), "it is at its end")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            node.signal(number)
        self.assertEqual(node.wait(), 0)
        self.assertTrue(node.log().endswith(self.LINE), node.log())

    def test_what_was_cut_off_before_is_told_all_the_same(self):
        node, _ = self.open_stream(options=["--timeouts.drain", "100ms"], env=self.ENV)
        node.killed = True  # its exit code is not 0
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 1)
        self.assertTrue(node.log().endswith(self.LINE), node.log())


if __name__ == "__main__":
    harness.main()
