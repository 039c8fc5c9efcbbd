"""The page of the admin port in a real browser, in front of a mesh of three that
is hurt meanwhile."""
import json

import browser
import harness
from test_admin import TOKEN
from test_mesh import MeshCase
from test_proxy import CHAT, chat

RIGHT, LEFT, END, TAB, ENTER = "\ue014", "\ue012", "\ue010", "\ue004", "\ue007"
MODEL = "kvasir/stand-in"


@browser.needed
class Page(MeshCase):
    def engines(self, count):
        made = [self.start("kvasir-engine", "--port", "0", "--name", f"e{i}", "--events", "0",
                           "--replay", "0") for i in range(count)]
        words = []
        for i, engine in enumerate(made):
            words += ["--worker", f"{engine.url('http')},id=engine-{i},"
                                  f"events={engine.ready['events']},replay={engine.ready['replay']}"]
        return made, words

    def open(self, node, **how):
        page = browser.Browser(self, node.url("admin") + "/", **how)
        page.wait("return document.getElementById('connection').textContent === 'live'",
                  "the page is live")
        return page

    def says(self, page, selector, text):
        page.wait("return document.querySelector(arguments[0])?.textContent.includes(arguments[1])",
                  f"{selector} says {text}", selector, text)

    def ask(self, node, text, status=200):
        got = harness.request(node.at("serve"), "POST", CHAT, chat(text, model=MODEL, max_tokens=4))
        self.assertEqual(got.status, status)

    def promised(self, node, text):
        told = harness.request(node.at("admin"), "POST", "/admin/explain",
                               chat(text, model=MODEL)).json()
        return sum(row.get("tokens", 0) for row in told["candidates"])

    def test_it_tells_of_a_mesh_and_what_happens_to_it(self):
        engines, words = self.engines(2)
        nodes = self.three(*words)
        harness.wait_until(lambda: self.ready(nodes[0], 2), "both take requests")
        text = "the same words, and a good many of them " * 20
        self.ask(nodes[0], text)
        harness.wait_until(lambda: self.promised(nodes[0], text), "the engine's events came")
        for _ in range(2):
            self.ask(nodes[0], text)
        page = self.open(nodes[0])
        self.says(page, "#sentence", "3 nodes, 2 workers, all take requests")
        self.says(page, "#sentence", "of prompt tokens from cache, 100 % of what was possible; "
                                     "predictions exact in all of ")
        self.says(page, "#look", "all is well")
        self.says(page, "#requests", MODEL)
        self.assertEqual(page.run("return document.querySelectorAll('#workers button').length"), 2)
        self.assertEqual(page.run("return document.querySelectorAll('#mesh tbody tr').length"), 3)
        nodes[2].kill()
        self.says(page, "#look", "c is ")
        engines[1].kill()
        self.says(page, "#look", "engine-1 takes no requests")
        self.says(page, "#sentence", "2 of 3 nodes, 2 workers, 1 takes requests")
        self.says(page, "#why", "In 15 minutes: none")
        engines[0].kill()
        self.says(page, "#sentence", "none takes requests")
        self.says(page, "#look", "engine-0 and engine-1 take no requests: unhealthy (connect)")
        self.ask(nodes[0], "nobody is there", 503)
        self.says(page, "#look", "requests of the last minute ended as no_worker")
        self.says(page, "#why", "In 15 minutes: 1 no_worker")
        self.assertEqual(page.faults(), [])

    def ready(self, node, count):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return sum(w["eligible"] for w in workers) == count

    def test_everything_can_be_done_by_keys(self):
        _, words = self.engines(1)
        node = self.start("kvasir", *self.flags("a"), *words)
        harness.wait_until(lambda: self.ready(node, 1), "it takes requests")
        page = self.open(node)
        page.wait("return document.querySelector('#workers button')", "there is a worker")
        page.focus("#workers button")
        page.press(ENTER)
        self.says(page, "#worker h3", "engine-0")
        self.says(page, "#worker", "KV cache in use")
        self.says(page, "#worker thead", "Trust")
        page.focus("#worker p button")
        page.run("window.confirm = () => true")
        page.press(ENTER)
        self.says(page, "#worker", "Let it take requests again")
        self.assertTrue(harness.wait_until(lambda: self.ready(node, 0), "it is drained"))
        page.focus("#worker p button")
        page.press(ENTER)
        harness.wait_until(lambda: self.ready(node, 1), "it is back")
        page.focus("#lines")
        page.press(LEFT, LEFT)
        self.says(page, "#cursor", "0 min 15 s ago")
        page.press(RIGHT)
        self.says(page, "#cursor", "0 min 10 s ago")
        page.press(END)
        page.wait("return document.getElementById('cursor').textContent === ''", "it is now")
        page.focus("#explain button")
        page.press(ENTER)
        self.says(page, "#explained", "engine-0: ")
        self.assertEqual(page.faults(), [])

    def test_a_screen_reader_is_told_all_of_it(self):
        """By the tree that the browser makes for one."""
        _, words = self.engines(1)
        node = self.start("kvasir", *self.flags("a"), *words)
        harness.wait_until(lambda: self.ready(node, 1), "it takes requests")
        page = self.open(node)
        page.wait("return document.querySelector('#workers button')", "there is a worker")
        tree = page.call("POST", "goog/cdp/execute",
                         {"cmd": "Accessibility.getFullAXTree", "params": {}})["nodes"]
        told = [(part["role"]["value"], part.get("name", {}).get("value", ""))
                for part in tree if not part["ignored"]]
        roles = {}
        for role, name in told:
            roles.setdefault(role, []).append(name)
        for role in ("button", "textbox", "checkbox", "combobox", "region", "image", "columnheader"):
            self.assertTrue(roles[role], role)
            self.assertNotIn("", roles[role], f"a {role} without a name")
        self.assertLessEqual({"What needs a look", "The last 15 minutes at this node", "Mesh",
                              "Not as they should end", "Workers", "Last requests",
                              "Where would a request go?"}, set(roles["heading"]))
        self.assertIn("engine-0: takes requests, 0 open, cache 0 %", roles["button"])
        self.assertEqual((len(roles["banner"]), len(roles["main"]), len(roles["status"])), (1, 1, 1))

    def test_requests_are_found_by_what_they_are(self):
        _, words = self.engines(1)
        node = self.start("kvasir", *self.flags("a"), *words)
        harness.wait_until(lambda: self.ready(node, 1), "it takes requests")
        self.ask(node, "one")
        got = harness.request(node.at("serve"), "POST", CHAT, chat(model="<b>no such</b>"))
        self.assertEqual(got.status, 404)
        page = self.open(node)
        self.says(page, "#requests", "<b>no such</b>")
        self.assertIsNone(page.text("#requests b"), "names are text")
        page.find("input[name=trouble]").click()
        page.wait("return document.querySelectorAll('#requests tbody tr').length === 1", "one failed")
        page.find("input[name=worker]").type("engine-0" + ENTER)
        self.says(page, "#requests", "is like that")

    def test_a_list_of_workers_with_a_fault_is_told_of(self):
        engine = self.start("kvasir-engine", "--port", "0")
        listed = self.folder / "workers.yaml"
        listed.write_text(f"- url: {engine.url('http')}\n  id: listed\n")
        node = self.start("kvasir", *self.flags("a"), "--worker", f"file:{listed}")
        harness.wait_until(lambda: self.ready(node, 1), "it takes requests")
        page = self.open(node)
        self.says(page, "#look", "all is well")
        page.wait("return document.querySelector('#workers button')", "there is a worker")
        page.find("#workers button").click()
        self.says(page, "#worker dl", f"file:{listed}")
        listed.write_text("- nonsense: 1\n")
        self.says(page, "#look", "keeps its last list")
        self.says(page, "#sentence", "1 worker, it takes requests")

    def test_it_asks_for_a_token_and_goes_on_with_it(self):
        tokens = self.folder / "tokens"
        tokens.write_text(f"anna {TOKEN}\n")
        tokens.chmod(0o600)
        node = self.start("kvasir", *self.flags("a"), "--admin.token_file", tokens)
        page = browser.Browser(self, node.url("admin") + "/")
        page.wait("return document.getElementById('ask-token').open", "it asks")
        page.find("#token").type("wrong-but-as-long-as-one" + ENTER)
        page.wait("return document.getElementById('ask-token').open", "it asks again")
        page.run("document.getElementById('token').value = ''")
        page.find("#token").type(TOKEN + ENTER)
        self.says(page, "#connection", "live")

    def test_it_says_when_its_node_is_gone_and_when_it_is_back(self):
        node = self.start("kvasir", *self.flags("a"))
        page = self.open(node)
        admin = node.ready["admin"]
        node.kill()
        self.says(page, "#connection", "Not live")
        flags = self.flags("a")
        flags[flags.index("--admin") + 1] = admin
        self.start("kvasir", *flags)
        page.wait("return document.getElementById('connection').textContent === 'live'",
                  "the page is live again")

    def test_256_workers_fit_and_both_colours_are_there(self):
        node = self.start("kvasir", *self.flags("a"))
        status = harness.request(node.at("admin"), "GET", "/admin/status").json()
        worker = {"id": "w", "url": "u", "engine": "vllm", "state": "healthy", "reason": "",
                  "eligible": True, "labels": {}, "models": [], "renderer": "exact", "inflight": 1,
                  "inflight_peers": 0, "kv_usage": 0.5}
        status["workers"] = [{**worker, "id": f"engine-{i:03}"} for i in range(256)]
        backs = set()
        for dark in (False, True):
            page = self.open(node, dark=dark)
            # In one turn: the page shows the node's own workers again as it hears of them.
            tall, wide, shown = page.run("""
                return import('/page/workers.js').then(({ showWorkers }) => {
                    const at = (id) => document.getElementById(id);
                    showWorkers(at('workers'), at('worker'), JSON.parse(arguments[0]));
                    return [at('workers').offsetHeight,
                            document.documentElement.scrollWidth - innerWidth,
                            at('workers').children.length]; })""", json.dumps(status))
            self.assertEqual(shown, 256)
            page.call("POST", "goog/cdp/execute", {
                "cmd": "Emulation.setDeviceMetricsOverride", "params": {
                    "width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": False}})
            self.assertLessEqual(page.run("return document.documentElement.scrollWidth - innerWidth"),
                                 0, "nor on a telephone")
            self.assertLess(tall, 900, "all are seen at once")
            self.assertLessEqual(wide, 0, "nothing sticks out")
            backs.add(page.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(backs), 2)


if __name__ == "__main__":
    harness.main()
