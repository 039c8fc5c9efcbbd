"""The official clients of both vendors, for Node and for Python, on streams whose engine is killed:
they see one whole stream, its text and usage those of one that nobody disturbs."""
import harness
import official
from official import TOKENS, Official, body_of

SLOWLY, FAST = 1, 1000  # percent of an engine's speed


class Resumed(Official):
    """The engine of a stream is killed in the middle, and that of an answer which is not
    streamed before its first byte."""

    def order(self, engines, **orders):
        for engine in engines:
            harness.request(engine.at("http"), "POST", "/chaos", orders)

    def busy(self, engines):
        """The one of them that has the request."""
        return harness.wait_until(
            lambda: next((e for e in engines
                          if harness.metric(e.at("http"), "vllm:num_requests_running") == 1), None),
            "an engine has it")

    def survives(self, client):
        for api in client.apis:
            with self.subTest(api=api):
                self.survives_api(client, api)

    def survives_api(self, client, api):
        engines = [self.engine("--speed", "5", "--apis", "chats") for _ in range(3)]
        node = self.node([engine.url("http") for engine in engines])
        url, body = node.url("serve"), body_of(api)
        self.order(engines, speed_percent=FAST)
        expected = [client.ask(url, api, stream, **body) for stream in (True, False)]
        self.assertEqual([e["tokens"][1] for e in expected], 2 * [TOKENS], expected)

        self.order(engines, speed_percent=SLOWLY)
        client.begin(url, api, True, pause=8, **body)
        self.assertEqual(client.hear(), {"at": 8})
        self.kill(engines)
        client.go_on()
        self.assertEqual(client.hear(), expected[0])
        self.assertEqual(self.ends(node), (1, 0))

        self.order(engines, speed_percent=SLOWLY)
        client.begin(url, api, False, **body)
        self.kill(engines)
        self.assertEqual(client.hear(), expected[1])
        self.assertEqual(self.ends(node), (1, 0))

    def ends(self, node):
        """How many answers went on elsewhere, and how many broke off."""
        broken = 'kvasir_requests_total{reason="answer_broke_off"}'
        return self.count(node, "resumed"), harness.metric(node.at("admin"), broken)

    def kill(self, engines):
        killed = self.busy(engines)
        killed.kill()
        engines.remove(killed)
        self.order(engines, speed_percent=FAST)

    def test_openai_for_node(self):
        self.survives(official.openai_node(self))

    def test_openai_for_python(self):
        self.survives(official.openai_python(self))

    def test_anthropic_for_node(self):
        self.survives(official.anthropic_node(self))

    def test_anthropic_for_python(self):
        self.survives(official.anthropic_python(self))


if __name__ == "__main__":
    harness.main()
