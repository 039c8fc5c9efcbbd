"""What nodes of a mesh share of their requests: load at one is load to all, and where one sent a
prompt, the others send it too. The workers have no event streams: nothing but the nodes themselves
can tell."""
import json
import socket
import threading

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase

WORKERS = 4
PROMPT = "The quick brown fox jumps over the lazy dog. " * 60


class Hints(MeshCase):
    def setUp(self):
        super().setUp()
        self.release = threading.Event()
        self.workers = [FakeWorker(self, self.answer) for _ in range(WORKERS)]

    def answer(self, peer, request):
        """Holds what asks for it until released."""
        if "hold" in request.json().get("user", ""):
            self.release.wait(harness.IO_TIMEOUT_S)
        if "refuse" in request.json().get("user", ""):
            peer.json({"error": {"message": "no"}}, 400)
        else:
            peer.json({"id": "x", "choices": [{"text": "fine"}]})

    def tearDown(self):
        self.release.set()
        super().tearDown()

    def nodes_with_workers(self):
        flags = []
        for worker in self.workers:
            flags += ["--worker", worker.url]
        nodes = self.three(*flags)
        for node in nodes:
            harness.wait_until(lambda node=node: self.eligible(node) == WORKERS, "workers are up")
        return nodes

    def status(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/status").json()["workers"]

    def eligible(self, node):
        return sum(worker["eligible"] for worker in self.status(node))

    def ask(self, node, prompt, user=""):
        body = {"model": "m", "prompt": prompt, "user": user}
        answer = harness.request(node.at("serve"), "POST", "/v1/completions", body)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.headers["x-kvasir-worker"]

    def test_load_at_one_node_is_seen_at_the_others(self):
        nodes = self.nodes_with_workers()
        open_requests = [
            threading.Thread(target=self.ask, args=(nodes[0], PROMPT + str(i), "hold"))
            for i in range(6)
        ]
        for thread in open_requests:
            thread.start()
        for node in nodes[1:]:
            harness.wait_until(
                lambda node=node: sum(w["inflight_peers"] for w in self.status(node)) == 6,
                "peers' requests are seen")
            mine = {w["id"]: w["inflight"] for w in self.status(nodes[0])}
            theirs = {w["id"]: w["inflight_peers"] for w in self.status(node)}
            self.assertEqual(theirs, mine)
            harness.wait_until(
                lambda node=node: sum(w["queued_tokens_peers"] for w in self.status(node)) > 600,
                "their prompts are seen")
            self.assertEqual(sum(w["inflight_foreign"] for w in self.status(node)), 0)
        self.assertEqual(sum(w["inflight_peers"] for w in self.status(nodes[0])), 0)
        self.release.set()
        for thread in open_requests:
            thread.join()
        for node in nodes:
            harness.wait_until(
                lambda node=node: sum(w["inflight_peers"] + w["queued_tokens_peers"]
                                      for w in self.status(node)) == 0, "they are over")

    def crowd(self, node, first, count=8):
        """So many long new prompts, whose last bytes come together."""
        address = node.at("serve")
        bodies = [json.dumps({"model": "m", "prompt": f"{first + i} " + PROMPT * 8}).encode()
                  for i in range(count)]
        waiting = []
        for body in bodies:
            connection = socket.create_connection(address, harness.IO_TIMEOUT_S)
            head = ("POST /v1/completions HTTP/1.1\r\nHost: n\r\nConnection: close\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
            connection.sendall(head.encode() + body[:-1])
            waiting.append(connection)
        for connection, body in zip(waiting, bodies):
            connection.sendall(body[-1:])
        for connection in waiting:
            with connection, connection.makefile("rb") as answer:
                self.assertIn(b" 200 ", answer.readline())
                answer.read()

    def test_long_prompts_that_come_in_crowds_let_peers_decide(self):
        nodes = self.nodes_with_workers()
        crowds = 0

        def waited():
            nonlocal crowds
            for node in nodes:
                self.crowd(node, crowds * 100)
                crowds += 1
            return all(self.metric(node, "kvasir_moments_waited_total") for node in nodes)

        harness.wait_until(waited, "some wait at every node")
        for node in nodes:
            harness.wait_until(lambda node=node: self.metric(node, "kvasir_inflight") == 0,
                               "none is left")

    def test_load_of_a_node_that_died_is_gone(self):
        nodes = self.nodes_with_workers()
        thread = threading.Thread(target=self.ask_and_lose, args=(nodes[0],))
        thread.start()
        harness.wait_until(lambda: sum(w["inflight_peers"] for w in self.status(nodes[1])) == 1,
                           "the request is seen")
        nodes[0].kill()
        harness.wait_until(lambda: sum(w["inflight_peers"] for w in self.status(nodes[1])) == 0,
                           "and gone")
        thread.join()

    def ask_and_lose(self, node):
        try:
            self.ask(node, PROMPT, "hold")
        except OSError:
            pass
        except Exception as error:  # the client library has names of its own for it
            if "http.client" not in type(error).__module__:
                raise

    def test_where_one_sent_a_prompt_the_others_send_it_too(self):
        nodes = self.nodes_with_workers()
        told = 0
        for i in range(8):
            prompt = f"Conversation {i}: " + PROMPT
            chosen = self.ask(nodes[i % 3], prompt)
            told += 1
            for other in (nodes[(i + 1) % 3], nodes[(i + 2) % 3]):
                body = {"model": "m", "prompt": prompt}

                def knows(other=other, body=body, chosen=chosen):
                    said = harness.request(other.at("admin"), "POST", "/admin/explain", body).json()
                    return (said["mode"], said["worker"]) == ("affinity", chosen)
                harness.wait_until(knows, "the decision is believed")
                self.assertEqual(self.ask(other, prompt), chosen,
                                 [harness.request(node.at("admin"), "GET", "/admin/decisions").text
                                  for node in nodes])

        def counted(what):
            series = f'kvasir_hints_{what}_total{{what="decisions"}}'
            return sum(self.metric(node, series) for node in nodes)
        # Three requests for each prompt, each told to two peers once, and no echo of any.
        harness.wait_until(lambda: counted("told") >= 3 * told, "all are told")
        harness.wait_until(lambda: counted("heard") >= 2 * told, "they are learned")
        self.assertEqual(counted("told"), 3 * told)

    def explained(self, node, prompt):
        """What each worker is taken to hold of it."""
        body = {"model": "m", "prompt": prompt}
        told = harness.request(node.at("admin"), "POST", "/admin/explain", body).json()
        return {row["worker"]: row["overlap"] for row in told["candidates"]}

    def test_the_same_new_prompt_follows_the_one_that_is_on_its_way(self):
        nodes = self.nodes_with_workers()
        threads, went = [], []
        for i in range(4):
            prompt = f"Burst {i}: " + PROMPT

            def send(node, prompt=prompt):
                went.append((prompt, self.ask(node, prompt, "hold")))

            for n, node in enumerate((nodes[0], nodes[0], nodes[1])):
                threads.append(threading.Thread(target=send, args=(node,)))
                threads[-1].start()
                open_now = 3 * i + n + 1
                for other in nodes:
                    harness.wait_until(lambda other=other, prompt=prompt:
                                       max(self.explained(other, prompt).values()) > 0,
                                       "it is expected")
                harness.wait_until(lambda: sum(w["inflight"] + w["inflight_peers"]
                                               for w in self.status(nodes[1])) == open_now,
                                   "it is open")
        self.release.set()
        for thread in threads:
            thread.join()
        for i in range(4):
            prompt = f"Burst {i}: " + PROMPT
            self.assertEqual(len({worker for sent, worker in went if sent == prompt}), 1, went)
        for node in nodes:
            harness.wait_until(lambda node=node: harness.metric(
                node.at("admin"), 'kvasir_expected_blocks{by="text"}') == 0, "belief has it all")
            self.assertEqual(len([w for w in self.explained(node, prompt).values() if w]), 1)

    def test_what_a_worker_refused_attracts_nobody_afterwards(self):
        nodes = self.nodes_with_workers()
        prompt = "Refused: " + PROMPT

        def send():
            harness.request(nodes[0].at("serve"), "POST", "/v1/completions",
                            {"model": "m", "prompt": prompt, "user": "hold refuse"})

        thread = threading.Thread(target=send)
        thread.start()
        for node in nodes:
            harness.wait_until(lambda node=node: max(self.explained(node, prompt).values()) > 0,
                               "it is expected")
        self.release.set()
        thread.join()
        for node in nodes:
            harness.wait_until(lambda node=node: max(self.explained(node, prompt).values()) == 0,
                               "it is taken back")

    def test_what_a_worker_refused_no_node_believes_it_to_hold(self):
        nodes = self.nodes_with_workers()
        refused = {"model": "m", "prompt": "Refused: " + PROMPT, "user": "refuse"}
        taken = "Taken: " + PROMPT

        def mode(node, body):
            return harness.request(node.at("admin"), "POST", "/admin/explain", body).json()["mode"]
        for _ in range(3):
            answer = harness.request(nodes[0].at("serve"), "POST", "/v1/completions", refused)
            self.assertEqual(answer.status, 400, answer.text)
        self.ask(nodes[0], taken)
        for node in nodes:
            # What came later is known, so the refused ones would be, too.
            harness.wait_until(lambda node=node: mode(node, {"model": "m", "prompt": taken})
                               == "affinity", "the answered prompt is believed")
            self.assertEqual(mode(node, refused), "balance")


if __name__ == "__main__":
    harness.main()
