"""A node takes over another configuration while it runs, as far as it can."""
import signal
import threading

import harness
from fake_worker import FakeWorker
from test_proxy import Proxy, chat, echo, read_answer


class Reload(Proxy):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "kvasir.yaml"
        self.one, self.two = FakeWorker(self, echo), FakeWorker(self, echo)

    def write(self, *workers, **keys):
        """The file: workers by id, and keys as section__key=value."""
        lines = ["listen: 127.0.0.1:0", "admin: 127.0.0.1:0", "lanes: 2"]
        for name, value in keys.items():
            section, _, key = name.partition("__")
            lines.append(f"{section}: {value}" if not key else f"{section}: {{{key}: {value}}}")
        lines.append("workers:" if workers else "workers: []")
        for worker, url in workers:
            lines.append(f"  - {{id: {worker}, url: '{url}'}}")
        self.file.write_text("\n".join(lines) + "\n")

    def run_node(self, count=1):
        node = self.start("kvasir", "serve", "-c", self.file)
        self.address = node.at("serve")
        harness.wait_until(lambda: self.eligible(node) == count, "workers are up")
        return node

    def reload(self, node):
        return harness.request(node.at("admin"), "POST", "/admin/reload", {})

    def workers(self, node):
        found = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return {w["id"]: w["url"] for w in found}

    def test_limits_and_timeouts_are_applied_and_the_rest_is_named(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        self.assertEqual(self.post(chat("x" * 4000)).status, 200)
        self.write(("one", self.one.url), limits__body_bytes_max="2KiB",
                   timeouts__head="200ms", name="other", data__aside_max=7)
        answer = self.reload(node)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json(), {
            "applied": ["limits.body_bytes_max", "timeouts.head"],
            "restart": ["name", "data.aside_max"],
            "model_files": [],
            "workers": {"removed": [], "changed": [], "added": [], "refused": []}})
        harness.wait_until(lambda: self.post(chat("x" * 4000)).status == 413, "lanes know")
        s = self.connect()
        s.sendall(b"POST /v1/chat/comple")
        self.assertEqual(read_answer(s)[0], 408)
        # What needs a restart is still said the next time; what was applied is not.
        self.assertEqual((self.reload(node).json()["applied"],
                          self.reload(node).json()["restart"]), ([], ["name", "data.aside_max"]))

    def test_a_key_that_is_taken_off_a_worker_is_sent_no_more(self):
        def sent():
            self.assertEqual(self.post(chat()).status, 200)
            return self.one.requests[-1].headers.get("authorization")
        self.write(("one", self.one.url + "', api_key: 's3cret"))
        node = self.run_node()
        self.assertEqual(sent(), "Bearer s3cret")
        self.write(("one", self.one.url))
        self.assertEqual(self.reload(node).json()["workers"]["changed"], ["one"])
        harness.wait_until(lambda: self.eligible(node) == 1, "it is back")
        self.assertIsNone(sent())

    def test_retries_and_what_clients_are_told_are_applied(self):
        asked = []

        def sometimes(peer, request):
            asked.append(request)
            peer.json({}, 500 if b"bug" in request.body else 200)

        def asked_for(text):
            asked.clear()
            self.assertEqual(self.post(chat(text)).status, 500)
            return len(asked)

        def told():
            return "x-kvasir-worker" in self.post(chat("good")).headers
        workers = [(name, FakeWorker(self, sometimes).url) for name in ("one", "two", "three")]
        self.write(*workers)
        # The tests' own environment would outrank the file.
        node = self.start("/usr/bin/env", "-u", "KVASIR_PLACEMENT_HEADERS",
                          harness.program("kvasir"), "serve", "-c", self.file)
        self.address = node.at("serve")
        harness.wait_until(lambda: self.eligible(node) == 3, "workers are up")
        self.assertEqual((asked_for("bug"), told()), (2, False))
        self.write(*workers, placement_headers="on", retries__after_send=2,
                   breaker__max_ejection_percent=20)
        self.assertEqual(self.reload(node).json()["applied"],
                         ["placement_headers", "retries.after_send",
                          "breaker.max_ejection_percent"])
        harness.wait_until(lambda: told() and asked_for("bug") == 3, "lanes know")
        self.write(*workers, placement_headers="on", retries__statuses="none")
        self.assertEqual(self.reload(node).json()["applied"],
                         ["retries.statuses", "retries.after_send",
                          "breaker.max_ejection_percent"])
        harness.wait_until(lambda: asked_for("bug") == 1, "lanes know")

    def test_a_deadline_that_runs_is_shortened(self):
        self.write(("one", self.one.url), timeouts__head="1h")
        node = self.run_node()
        s = self.connect()
        s.sendall(b"POST /v1/chat/comple")
        harness.wait_until(
            lambda: harness.metrics(node.at("admin"))["kvasir_connections"] == 1, "it is there")
        self.write(("one", self.one.url), timeouts__head="100ms")
        self.assertEqual(self.reload(node).status, 200)
        self.assertEqual(read_answer(s)[0], 408)

    def test_workers_come_change_and_go_and_no_request_fails(self):
        self.write(("one", self.one.url), ("two", self.two.url))
        node = self.run_node(2)
        three = FakeWorker(self, echo)
        failed, done = [], threading.Event()

        def load():
            while not done.is_set():
                status = self.post(chat("go on")).status
                if status != 200:
                    failed.append(status)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        self.write(("one", self.one.url), ("three", three.url))
        answer = self.reload(node).json()["workers"]
        self.assertEqual(answer, {"removed": ["two"], "changed": [], "added": ["three"],
                                  "refused": []})
        harness.wait_until(lambda: self.eligible(node) == 2, "three is up")
        self.write(("one", self.one.url), ("three", self.two.url))
        self.assertEqual(self.reload(node).json()["workers"]["changed"], ["three"])
        harness.wait_until(lambda: self.workers(node)["three"] == self.two.url, "it moved")
        harness.wait_until(lambda: self.eligible(node) == 2, "it is up there")
        done.set()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])

    def test_workers_exchange_their_places(self):
        self.write(("one", self.one.url), ("two", self.two.url))
        node = self.run_node(2)
        self.write(("one", self.two.url), ("two", self.one.url))
        self.assertEqual(self.reload(node).json()["workers"], {
            "removed": [], "changed": ["one", "two"], "added": [], "refused": []})
        self.assertEqual(self.workers(node), {"one": self.two.url, "two": self.one.url})
        harness.wait_until(lambda: self.eligible(node) == 2, "they are up there")

    def test_a_worker_that_was_refused_is_taken_once_there_is_room(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        harness.request(node.at("admin"), "POST", "/admin/workers",
                        {"id": "other", "url": self.two.url})
        self.write(("one", self.one.url), ("two", self.two.url))
        for _ in range(2):
            self.assertEqual(self.reload(node).json()["workers"]["refused"], ["two"])
        harness.request(node.at("admin"), "DELETE", "/admin/workers/other")
        self.assertEqual(self.reload(node).json()["workers"]["added"], ["two"])
        self.assertEqual(set(self.workers(node)), {"one", "two"})

    def test_a_worker_that_drains_goes_on_draining_when_it_changes(self):
        self.write(("one", self.one.url), ("two", self.two.url))
        node = self.run_node(2)
        harness.request(node.at("admin"), "POST", "/admin/workers/two/drain", {})
        self.write(("one", self.one.url), ("two", FakeWorker(self, echo).url))
        self.assertEqual(self.reload(node).json()["workers"]["changed"], ["two"])
        listed = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual({w["id"] for w in listed if w["state"].startswith("drain")}, {"two"})

    def test_more_workers_change_than_there_are_free_slots(self):
        def write(key):
            self.file.write_text("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlanes: 1\nworkers:\n" +
                                 "".join(f"  - {{id: w{i}, url: 'http://127.0.0.1:9/{i}', "
                                         f"api_key: {key}}}\n" for i in range(200)))
        write("before")
        node = self.start("kvasir", "serve", "-c", self.file)
        write("after")
        answer = self.reload(node).json()["workers"]
        self.assertEqual((len(answer["changed"]), answer["refused"]), (200, []))
        harness.wait_until(lambda: len(self.workers(node)) == 200, "all are there again")

    def test_the_second_node_with_the_same_news_leaves_the_worker_alone(self):
        self.write(("one", self.one.url))
        nodes = []
        for i in range(2):
            join = ["--join", nodes[0].ready["mesh"]] if nodes else []
            nodes.append(self.start("kvasir", "serve", "-c", self.file, "--name", f"n{i}",
                                    "--mesh", "127.0.0.1:0", *join))
        self.write(("one", self.one.url), ("two", self.two.url))
        self.assertEqual(self.reload(nodes[0]).json()["workers"]["added"], ["two"])
        harness.wait_until(lambda: set(self.workers(nodes[1])) == {"one", "two"}, "it is told")
        self.assertEqual(self.reload(nodes[1]).json()["workers"]["added"], ["two"])
        self.assertEqual(nodes[1].log().count("worker_added worker=two"), 1)
        self.write(("one", self.one.url))
        self.assertEqual(self.reload(nodes[1]).json()["workers"]["removed"], ["two"])
        for node in nodes:
            harness.wait_until(lambda n=node: set(self.workers(n)) == {"one"}, "it is gone")

    def test_a_wrong_file_changes_nothing_and_says_what_is_wrong(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        self.write(limits__body_bytes_max="2KiB")
        self.file.write_text(self.file.read_text() + "lanez: 3\n")
        answer = self.reload(node)
        self.assertEqual(answer.status, 400)
        self.assertIn("kvasir.yaml:", answer.json()["error"]["message"])
        self.assertIn("lanez", answer.json()["error"]["message"])
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: node.log().count("reload_refused") == 2, "it says no again")
        self.file.unlink()
        self.assertEqual(self.reload(node).status, 400)
        self.assertEqual(self.post(chat("x" * 4000)).status, 200)
        self.assertEqual(self.workers(node), {"one": self.one.url})

    def test_a_file_that_is_being_written_takes_nothing_away(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        self.file.write_text("")
        answer = self.reload(node)
        self.assertEqual((answer.status, "is empty" in answer.text), (400, True))
        self.assertEqual(self.workers(node), {"one": self.one.url})
        self.file.write_text("# none\n")
        self.assertEqual(self.reload(node).json()["workers"]["removed"], ["one"])

    def test_a_file_that_always_was_empty_is_none_that_is_being_written(self):
        self.file.write_text("")
        node = self.start("kvasir", "serve", "-c", self.file, "--listen", "127.0.0.1:0", "--admin",
                          "127.0.0.1:0", "--worker", f"{self.one.url},id=one")
        self.assertEqual(self.reload(node).status, 200)
        self.assertEqual(self.workers(node), {"one": self.one.url})

    def test_hanging_up_reloads(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        self.write(("one", self.one.url), ("two", self.two.url), log__level="debug")
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.eligible(node) == 2, "the worker is there")
        self.assertIn("reloaded keys=log.level workers=1", node.log())
        self.assertEqual(node.stop(), 0)

    def test_many_in_a_row_under_load(self):
        self.write(("one", self.one.url))
        node = self.run_node()
        for i in range(40):
            self.write(("one", self.one.url), limits__client_connections_max=i % 3 + 100)
            self.assertEqual(self.reload(node).status, 200)
            self.assertEqual(self.post(chat(str(i))).status, 200)

    def test_what_came_through_stdin_cannot_be_read_again(self):
        self.write(("one", self.one.url))
        node = self.start("/bin/sh", "-c", 'exec "$0" serve -c - <"$1"',
                          harness.program("kvasir"), self.file)
        answer = self.reload(node)
        self.assertEqual((answer.status, "stdin" in answer.text), (400, True))
        self.assertEqual(self.workers(node), {"one": self.one.url})

    def test_what_came_through_a_pipe_cannot_be_read_again(self):
        self.write(("one", self.one.url))
        node = self.start("/bin/bash", "-c", 'exec "$0" serve -c <(cat "$1")',
                          harness.program("kvasir"), self.file)
        answer = self.reload(node)
        self.assertEqual((answer.status, "/dev/fd/" in answer.text), (400, True))
        self.assertEqual(self.workers(node), {"one": self.one.url})


if __name__ == "__main__":
    harness.main()
