"""What workers store for clients (Responses, files, batches): who asks for it by its
id gets to the worker that made it, at any node."""
import itertools
import json

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import Proxy, chat

PATHS = "/v1/files /v1/files/* /v1/batches /v1/batches/*"


class Engine:
    """A worker that keeps what clients store there, and nothing else."""
    numbers = itertools.count(1)

    def __init__(self, case, **more):
        self.kept = {}
        self.worker = FakeWorker(case, self.answer, **more)

    def make(self, kind, **more):
        name = f"{kind}_{next(self.numbers):08x}"
        self.kept[name] = {"object": kind, "id": name, **more}
        return self.kept[name]

    def answer(self, peer, request):
        _, _, kind, *rest = request.target.split("?")[0].split("/")
        if rest:
            return self.tell(peer, request.method, rest[0])
        if request.method == "GET":
            return peer.json({"object": "list", "data": list(self.kept.values())})
        before = {}
        if kind != "files":
            asked = request.json()
            before = asked.get("previous_response_id") or asked.get("input_file_id")
            if before and before not in self.kept:
                return peer.json({"error": {"message": f"{before} not found"}}, 404)
            if asked.get("stream"):
                return self.stream(peer, self.make("resp"))
        if kind == "batches":
            return peer.json(self.make("batch", input_file_id=before,
                                       output_file_id=self.make("file")["id"]))
        return peer.json(self.make({"responses": "resp", "files": "file"}[kind]))

    def stream(self, peer, made):
        """In pieces that break the id."""
        text = json.dumps({"type": "response.created", "response": made})
        at = text.index(made["id"]) + 4
        peer.begin_stream()
        peer.chunk(f"event: response.created\ndata: {text[:at]}".encode())
        peer.chunk(f"{text[at:]}\n\n".encode())
        peer.end_stream()

    def tell(self, peer, method, name):
        if name not in self.kept:
            return peer.json({"error": {"message": f"{name} not found"}}, 404)
        return peer.json(self.kept.pop(name) if method == "DELETE" else self.kept[name])

    def count(self):
        return len(self.worker.requests)


class Stored(Proxy):
    def setUp(self):
        super().setUp()
        self.engines = [Engine(self) for _ in range(3)]
        self.node = self.serve(*(e.worker for e in self.engines), options=["--paths", PATHS])

    def ask(self, method, path, body=None, headers=None):
        return harness.request(self.address, method, path, body, headers)

    def make(self, path, **body):
        got = self.ask("POST", path, {"model": "m", "input": "x", **body})
        self.assertEqual(got.status, 200, got.text)
        return got.json()["id"]

    def home(self, name):
        return next(e for e in self.engines if name in e.kept)

    def counts(self):
        return [e.count() for e in self.engines]

    def learned(self, name):
        """An answer is known once control has heard of it."""
        path = f"/v1/{'responses' if name.startswith('resp') else 'files'}/{name}"
        others = [e for e in self.engines if e is not self.home(name)]

        def alone():
            before = [e.count() for e in others]
            got = self.ask("GET", path)
            self.assertEqual((got.status, got.json().get("id")), (200, name), got.text)
            return [e.count() for e in others] == before
        harness.wait_until(alone, f"it is known where {name} is")

    def test_an_id_goes_to_the_worker_that_made_it(self):
        for path in ("/v1/responses", "/v1/files"):
            for name in [self.make(path) for _ in range(6)]:
                self.learned(name)
                got = self.ask("DELETE", f"{path}/{name}")
                self.assertEqual((got.status, got.json()["id"]), (200, name))

    def test_a_stream_says_what_was_made(self):
        got = self.ask("POST", "/v1/responses", {"model": "m", "input": "x", "stream": True})
        self.assertEqual(got.status, 200)
        name = next(n for e in self.engines for n in e.kept)
        self.learned(name)

    def test_bodies_go_on_with_what_is_stored(self):
        first = self.make("/v1/responses")
        home = self.home(first)
        for _ in range(4):
            second = self.make("/v1/responses", previous_response_id=first)
            self.assertIs(self.home(second), home)
        file = self.make("/v1/files")
        batch = self.make("/v1/batches", input_file_id=file)
        self.assertIs(self.home(batch), self.home(file))
        out = self.home(batch).kept[batch]["output_file_id"]
        self.learned(out)
        self.assertEqual(self.ask("GET", f"/v1/files/{out}/content").json()["id"], out)

    def test_what_nobody_knows_is_asked_of_all(self):
        self.engines[1].kept["resp_old"] = {"id": "resp_old"}
        got = self.ask("GET", "/v1/responses/resp_old")
        self.assertEqual((got.status, got.json()["id"]), (200, "resp_old"))
        self.learned("resp_old")
        before = self.counts()
        got = self.ask("GET", "/v1/responses/resp_none")
        self.assertEqual((got.status, got.json()["error"]["message"]), (404, "resp_none not found"))
        self.assertEqual([now - was for now, was in zip(self.counts(), before)], [1, 1, 1])

    def test_whose_worker_is_gone_is_told_so_and_no_other_is_asked(self):
        name = self.make("/v1/responses")
        self.learned(name)
        home = self.home(name)
        home.worker.close()
        harness.wait_until(lambda: self.eligible(self.node) == 2, "one is gone")
        before = self.counts()
        got = self.ask("GET", f"/v1/responses/{name}")
        self.assertEqual((got.status, got.json()["error"]["code"]), (503, "no_worker"), got.text)
        self.assertEqual(self.counts(), before)

    def test_explain_says_who_has_it(self):
        name = self.make("/v1/responses")
        self.learned(name)
        said = harness.request(self.node.at("admin"), "POST", "/admin/explain",
                               {**chat(), "previous_response_id": name}).json()
        self.assertEqual((said["worker"], said["reason"]),
                         (self.home(name).worker.id, "stored: the worker that has it"))


class Mesh(MeshCase):
    def test_all_nodes_know_and_one_that_was_killed_is_not_missed(self):
        engines = [Engine(self) for _ in range(3)]
        workers = [o for e in engines for o in ("--worker", e.worker.url)]
        nodes = self.three(*workers)
        for node in nodes:
            harness.wait_until(lambda node=node: len([
                w for w in harness.request(node.at("admin"), "GET", "/admin/workers").json()
                if w["eligible"]]) == 3, "all workers are well")
        made = harness.request(nodes[0].at("serve"), "POST", "/v1/responses",
                               {"model": "m", "input": "x"}).json()["id"]
        others = [e for e in engines if made not in e.kept]

        def alone(node):
            before = [e.count() for e in others]
            got = harness.request(node.at("serve"), "GET", f"/v1/responses/{made}")
            self.assertEqual((got.status, got.json()["id"]), (200, made))
            return [e.count() for e in others] == before
        harness.wait_until(lambda: alone(nodes[1]), "the second knows")
        nodes[0].kill()
        nodes[1].kill()
        harness.wait_until(lambda: alone(nodes[2]), "the third knows")


if __name__ == "__main__":
    harness.main()
