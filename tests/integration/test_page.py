"""The page of the admin port: its files, what it may do, and the events that it
lives on."""
import http.client
import json
import re

import harness
from fake_worker import FakeWorker
from test_admin import OTHER, TOKEN
from test_proxy import Proxy, chat

HTML = re.compile(r'(?:src|href)="(/[^"]*)"')
IMPORT = re.compile(r'from "\./([^"]+)"')
ELSEWHERE = re.compile(r'(?:https?:)?//[a-z0-9]', re.I)


class Events:
    """Server-sent events as they come."""

    def __init__(self, case, address, headers=None):
        self.connection = http.client.HTTPConnection(*address, timeout=harness.IO_TIMEOUT_S)
        case.addCleanup(self.connection.close)
        self.connection.request("GET", "/admin/live", headers=headers or {})
        self.answer = self.connection.getresponse()

    def next(self):
        name = self.answer.readline().decode().removeprefix("event: ").strip()
        data = self.answer.readline().decode().removeprefix("data: ")
        self.answer.readline()
        return name, json.loads(data)


class Page(Proxy):
    def setUp(self):
        super().setUp()
        self.worker = FakeWorker(self, lambda peer, _: peer.answer(200, b"{}"))

    def get(self, path):
        return harness.request(self.admin, "GET", path)

    def begin(self, *options):
        self.node = self.serve(self.worker, options=options)
        self.admin = self.node.at("admin")

    def files(self):
        """All files that the page loads, by path."""
        found, wanted = {}, ["/"]
        while wanted:
            path = wanted.pop()
            if path not in found:
                found[path] = self.get(path)
                self.assertEqual(found[path].status, 200, path)
                wanted += HTML.findall(found[path].text) if path == "/" else []
                wanted += ["/page/" + name for name in IMPORT.findall(found[path].text)]
        return found

    def test_every_file_is_there_and_asks_for_nothing_elsewhere(self):
        self.begin()
        files = self.files()
        kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
                 "svg": "image/svg+xml", "/": "text/html; charset=utf-8"}
        self.assertGreater(len(files), 10)
        for path, got in files.items():
            self.assertEqual(got.headers["content-type"], kinds[path.rpartition(".")[2]], path)
            text = got.text.replace("http://www.w3.org/2000/svg", "")  # a name, not a place
            self.assertIsNone(ELSEWHERE.search(re.sub(r"(?m)^\s*//.*$", "", text)), path)
            policy = got.headers["content-security-policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
        self.assertNotRegex(files["/"].text, r"<script>|\son[a-z]+=|style=")

    def test_what_the_scripts_look_for_is_in_the_page(self):
        self.begin()
        files = self.files()
        ids = set(re.findall(r'id="([^"]+)"', files["/"].text))
        for path, got in files.items():
            for name in re.findall(r'(?:at|getElementById)\("([^"]+)"\)', got.text):
                self.assertIn(name, ids, path)

    def test_the_page_needs_no_token_and_what_it_asks_for_does(self):
        tokens = self.folder / "tokens"
        tokens.write_text(f"anna {TOKEN}\n")
        tokens.chmod(0o600)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--admin.token_file", tokens)
        self.admin = node.at("admin")
        self.assertEqual(self.get("/").status, 200)
        self.assertEqual(self.get("/admin/live").status, 401)
        events = Events(self, self.admin, {"Authorization": f"Bearer {TOKEN}"})
        self.assertEqual(events.answer.status, 200)
        tokens.write_text(f"berta {OTHER}\n")
        lines = sum(1 for _ in zip(range(60), iter(events.answer.readline, b"")))
        self.assertLess(lines, 60, "it ends with its token")

    def test_events_tell_what_happened_before_and_what_happens(self):
        self.begin()
        self.assertEqual(self.post().status, 200)
        # A request is written down after its last byte has left.
        harness.wait_until(lambda: self.get("/admin/decisions").json(), "it is written down")
        events = Events(self, self.admin)
        self.assertEqual(events.answer.getheader("content-type"), "text/event-stream")
        name, history = events.next()
        self.assertEqual(name, "history")
        self.assertEqual(sum(span["requests"] for span in history["spans"]), 1)
        name, status = events.next()
        self.assertEqual((name, status["node"]), ("status", self.status()["node"]))
        self.assertEqual(self.post(chat(model="no-such-model")).status, 404)
        seen = {span["number"]: span for span in history["spans"]}
        while sum(span["refused"] for span in seen.values()) == 0:
            name, told = events.next()
            if name == "history":
                seen.update((span["number"], span) for span in told["spans"])
        self.assertEqual(sum(span["requests"] for span in seen.values()), 2)

    def status(self):
        return self.get("/admin/status").json()

    def test_more_than_may_watch_are_told_so_and_those_who_go_make_room(self):
        self.begin()
        watchers = [Events(self, self.admin) for _ in range(16)]
        self.assertEqual({w.answer.status for w in watchers}, {200})
        refused = self.get("/admin/live")
        self.assertEqual((refused.status, refused.json()["error"]["code"]),
                         (503, "too_many_watchers"))
        watchers.pop().connection.close()
        harness.wait_until(lambda: Events(self, self.admin).answer.status == 200, "there is room")

    def test_a_node_stops_while_somebody_watches(self):
        self.begin()
        events = Events(self, self.admin)
        events.next()
        self.node.stop()


if __name__ == "__main__":
    harness.main()
