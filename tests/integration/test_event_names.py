"""Names in a worker's `events` and `replay`: judged by workers.deny, and followed.

The node has an /etc/hosts of its own, in a mount namespace: that needs root."""
import os
import select
import socket
import subprocess
import unittest

import harness
from dns import free_port
from fake_worker import FakeWorker

try:
    from fake_publisher import Publisher
except ImportError as missing:
    Publisher, why_not = None, str(missing)

NAMESPACE = ["unshare", "--mount", "--", "/bin/sh", "-c",
             'mount --bind "$0" /etc/hosts && exec "$@"']


def may_mount():
    try:
        return os.geteuid() == 0 and subprocess.run(
            ["unshare", "--mount", "--", "mount", "--bind", "/etc/hosts", "/etc/hosts"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


@unittest.skipUnless(may_mount(), "an /etc/hosts of one's own needs root and mount namespaces")
class EventNames(harness.Case):
    def setUp(self):
        super().setUp()
        if Publisher is None:
            self.skipTest(why_not)
        self.hosts_path = self.folder / "hosts"
        self.hosts("")
        self.worker = FakeWorker(self, lambda peer, request: peer.answer(200, body=b"{}"))

    def hosts(self, *lines):
        with open(self.hosts_path, "w", encoding="ascii") as file:  # the same inode
            file.write("127.0.0.1 localhost\n" + "".join(f"{line}\n" for line in lines))

    def publish(self, host, ports=(0, 0)):
        publisher = Publisher(host=host, ports=ports)
        self.addCleanup(publisher.close)
        return publisher

    def serve(self, ports, *flags, events="engine.test", replay="engine.test"):
        worker = "http://%s:%d" % self.worker.address
        worker += f",id=w,events=tcp://{events}:{ports[0]},replay=tcp://{replay}:{ports[1]}"
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--lanes", "1", "--health.interval", "200ms",
                          "--health.timeout", "100ms", "--events.probe", "200ms",
                          "--events.replay_timeout", "300ms", "--worker", worker, *flags,
                          before=[*NAMESPACE, self.hosts_path])

    def seen(self, node):
        found = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return found[0] if found else {}

    def state(self, node):
        events = self.seen(node).get("events")
        return events[0]["state"] if events else ""

    def blocks(self, node):
        events = self.seen(node).get("events")
        return events[0]["blocks"] if events else 0

    def listener(self, host, port=0):
        there = socket.create_server((host, port))
        self.addCleanup(there.close)
        return there

    def was_connected(self, listener):
        return bool(select.select([listener], [], [], 0)[0])

    def test_a_name_that_leads_to_a_denied_address_is_never_connected(self):
        ports = [free_port("127.0.0.2", "127.0.0.3") for _ in range(2)]
        forbidden = [self.listener("127.0.0.2", port) for port in ports]
        self.hosts("127.0.0.2 engine.test")
        node = self.serve(ports, "--workers.deny", "127.0.0.2/32")
        for key in "events", "replay":
            harness.wait_until(
                lambda key=key: f"events_address_denied worker=w key={key} name=engine.test "
                                "address=127.0.0.2 range=127.0.0.2/32" in node.log(),
                "it is told")
        self.assertEqual(self.seen(node)["events_name"], {"state": "denied", "address": ""})
        self.assertEqual(self.seen(node)["replay_name"], {"state": "denied", "address": ""})
        publisher = self.publish("127.0.0.3", ports)
        publisher.store(range(4))
        self.hosts("127.0.0.3 engine.test")  # it moves to where it may be
        harness.wait_until(lambda: self.blocks(node) == 4, "it is read there")
        self.assertEqual([self.was_connected(there) for there in forbidden], [False, False])

    def test_a_replay_s_name_is_judged_by_itself(self):
        forbidden = self.listener("127.0.0.2")
        publisher = self.publish("127.0.0.1")
        publisher.store(range(4))
        self.hosts("127.0.0.1 engine.test", "127.0.0.2 elsewhere.test")
        node = self.serve((publisher.ports[0], forbidden.getsockname()[1]),
                          "--workers.deny", "127.0.0.2/32", replay="elsewhere.test")
        harness.wait_until(lambda: "key=replay name=elsewhere.test" in node.log(), "it is told")
        harness.wait_until(lambda: self.state(node) == "partial", "it is followed without")
        self.assertFalse(self.was_connected(forbidden))

    def test_an_engine_whose_name_has_another_address_is_found_again(self):
        ports = [free_port("127.0.0.1", "127.0.0.2") for _ in range(2)]
        before = self.publish("127.0.0.1", ports)
        before.store(range(4))
        self.hosts("127.0.0.1 engine.test")
        node = self.serve(ports)
        harness.wait_until(lambda: self.blocks(node) == 4, "it is read")
        before.close()
        after = self.publish("127.0.0.2", ports)
        after.store(range(100, 107))
        self.hosts("127.0.0.2 engine.test")
        harness.wait_until(lambda: self.blocks(node) == 7, "it is read where it went")
        harness.wait_until(lambda: self.state(node) == "live", "it is in step")
        self.assertEqual(self.seen(node)["events_name"]["address"], "127.0.0.2")

    def test_a_name_without_an_address_is_told_and_followed_later(self):
        publisher = self.publish("::1")
        publisher.store(range(4))
        node = self.serve(publisher.ports)
        harness.wait_until(lambda: "events_name_unresolved worker=w key=events" in node.log(),
                           "it is told")
        self.assertEqual(self.seen(node)["events_name"]["state"], "unresolved")
        self.hosts("::1 engine.test")
        harness.wait_until(lambda: self.blocks(node) == 4, "it is read")
        harness.wait_until(lambda: self.state(node) == "live", "it is in step")

    def test_each_address_of_a_name_is_tried(self):
        publisher = self.publish("127.0.0.3")
        publisher.store(range(4))
        self.hosts("127.0.0.2 engine.test", "127.0.0.3 engine.test")
        node = self.serve(publisher.ports)
        harness.wait_until(lambda: self.blocks(node) == 4, "it is read")


if __name__ == "__main__":
    harness.main()
