"""Pages of other origins: what their browsers are told, and by whom."""
import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat

PAGE = "https://chat.example"
ASK = {"Access-Control-Request-Method": "POST",
       "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}


def answer(peer, _):
    # As vLLM does where nobody told it otherwise.
    peer.answer(200, b"{}", "Content-Type: application/json\r\nAccess-Control-Allow-Origin: *\r\n"
                            "Access-Control-Allow-Credentials: true\r\n")


class Cors(Proxy):
    def setUp(self):
        super().setUp()
        self.worker = FakeWorker(self, answer)

    def preflight(self, origin, path=CHAT):
        return harness.request(self.address, "OPTIONS", path, headers={"Origin": origin, **ASK})

    def told(self, got):
        return {k: v for k, v in got.headers.items() if k.startswith("access-control-")}

    def test_a_listed_page_may(self):
        self.serve(self.worker, options=["--cors.origins", f"http://localhost:3000 {PAGE}"])
        for origin in (PAGE, "http://localhost:3000"):
            got = self.preflight(origin)
            self.assertEqual((got.status, got.text), (204, ""))
            self.assertEqual(self.told(got), {
                "access-control-allow-origin": origin,
                "access-control-allow-methods": "GET, POST, DELETE",
                "access-control-allow-headers": ASK["Access-Control-Request-Headers"],
                "access-control-max-age": "600"})
            self.assertEqual(got.headers["vary"], "Origin")
            got = self.post(headers={"Origin": origin})
            self.assertEqual(got.status, 200)
            told = self.told(got)
            self.assertEqual(told.pop("access-control-allow-origin"), origin)
            self.assertIn("x-request-id", told.pop("access-control-expose-headers"))
            self.assertEqual(told, {}, "the engine's own are not passed on")
        self.assertEqual(len(self.worker.requests), 2, "browsers' questions go to no worker")
        for path in ("/v1/models", "/health"):
            got = harness.request(self.address, "GET", path, headers={"Origin": PAGE})
            self.assertEqual(got.headers["access-control-allow-origin"], PAGE)

    def test_a_page_can_read_why_it_was_refused(self):
        self.serve(self.worker, options=["--cors.origins", PAGE])
        got = self.post(chat(model="other"), headers={"Origin": PAGE})
        self.assertEqual(got.status, 404)
        self.assertEqual(got.headers["access-control-allow-origin"], PAGE)

    def test_another_page_may_not(self):
        node = self.serve(self.worker, options=["--cors.origins", PAGE])
        for origin in ("https://evil.example", PAGE + ".evil", "null", PAGE + ":8443"):
            got = self.preflight(origin)
            self.assertEqual((got.status, got.json()["error"]["code"]), (403, "origin_not_allowed"))
            self.assertEqual(self.told(got), {})
            self.assertEqual(self.told(self.post(headers={"Origin": origin})), {})
        self.assertEqual(harness.metric(node.at("admin"), 'kvasir_requests_total{reason="origin_not_allowed"}'), 4)

    def test_without_a_list_no_page_may_whatever_engines_say(self):
        self.serve(self.worker)
        got = self.preflight(PAGE)
        self.assertEqual((got.status, self.told(got)), (403, {}))
        self.assertEqual(self.told(self.post(headers={"Origin": PAGE})), {})
        self.assertEqual(len(self.worker.requests), 1)

    def test_a_star_lets_every_page(self):
        self.serve(self.worker, options=["--cors.origins", "*"])
        got = self.preflight("https://any.example")
        self.assertEqual((got.status, got.headers["access-control-allow-origin"]), (204, "*"))
        self.assertNotIn("vary", got.headers)
        self.assertEqual(self.told(self.post(headers={"Origin": "null"}))[
            "access-control-allow-origin"], "*")

    def test_a_browsers_question_needs_no_key_and_the_request_does(self):
        key, line = self.run_once("kvasir", "key").stdout.split()
        file = self.folder / "keys.yaml"
        file.write_text(f"tenants:\n  one:\n    keys:\n      - {line}\n")
        self.serve(self.worker, options=["--keys.file", file, "--cors.origins", PAGE])
        self.assertEqual(self.preflight(PAGE).status, 204)
        got = self.post(headers={"Origin": PAGE})
        self.assertEqual(got.status, 401)
        self.assertEqual(got.headers["access-control-allow-origin"], PAGE, "so it can say why")
        got = self.post(headers={"Origin": PAGE, "Authorization": f"Bearer {key}"})
        self.assertEqual(got.status, 200)
        # Without Origin or method it is a request like any other.
        got = harness.request(self.address, "OPTIONS", CHAT, headers={"Origin": PAGE})
        self.assertEqual(got.status, 401)


if __name__ == "__main__":
    harness.main()
