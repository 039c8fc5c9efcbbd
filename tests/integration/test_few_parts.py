"""Requests for which there is not all the memory that they need: each part of an exchange
(node/edge/parts_internal.h) fails once, and its request gets an answer all the same."""
import itertools
import json
import mmap
import struct

import harness
from fake_worker import Close, FakeWorker
from test_messages import MESSAGES, STREAM, ask, chats, chunk, events_of, say, without
from test_proxy import Proxy, chat

RESPONSES = "/v1/responses"
SPAN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WORDS = [chunk({"content": word}) for word in ("One", " two", " three")]
LONG = "A long prompt is worth a second worker, and this sentence comes again. " * 60


def breaks_off(peer, request):
    """After two words, unless it goes on with them."""
    if request.json().get("continue_final_message"):
        say(peer, WORDS[1:] + STREAM[-2:])
        return
    peer.begin_stream()
    for event in WORDS[:2]:
        peer.chunk(f"data: {json.dumps(event)}\n\n".encode())
    raise Close


class FewParts(Proxy):
    def setUp(self):
        super().setUp()
        path = self.folder / "parts"
        path.write_bytes(bytes(4))
        with path.open("r+b") as file:
            self.left = mmap.mmap(file.fileno(), 4)
        self.addCleanup(self.left.close)
        self.path = path

    def start(self, name, *args, env=None, before=()):
        if name == "kvasir":
            name, env = "kvasir-few-parts", {**(env or {}), "KVASIR_TEST_PARTS": str(self.path)}
        return super().start(name, *args, env=env, before=before)

    def each(self, send):
        """What comes back when the first part fails, the second, and so on; and at last when
        none does."""
        given, failed = [], True
        while failed:
            self.left[:] = struct.pack("=I", len(given) + 1)
            given.append(send())
            failed = self.left[:] == bytes(4)
        self.left[:] = bytes(4)
        return given

    def test_a_stream_that_is_translated_and_goes_on_elsewhere(self):
        file = self.folder / "kvasir.yaml"
        file.write_text(json.dumps({"aliases": ["gpt=m"]}))
        collector = FakeWorker(self, lambda peer, _: peer.json({}))
        self.serve(*(FakeWorker(self, without(breaks_off)) for _ in range(2)), options=[
            "-c", file, "--traces.otlp", collector.url, "--breaker.failures", "100"])

        def send():
            got = self.post(ask(model="gpt", stream=True, temperature=0), {"traceparent": SPAN},
                            path=MESSAGES)
            if got.status != 200:
                return got.json()["error"]["message"]
            last = events_of(got.text.replace(": x-kvasir-resumed: 1\n\n", ""))[-1]
            return last["error"]["message"] if last["type"] == "error" else last["type"]
        self.assertEqual(send(), "message_stop")  # and who does not know the path
        broke_off = "the worker's answer ended too early"
        self.assertEqual(self.each(send), [
            "message_stop",               # its steps are not told
            "out of memory; try again",   # what its name stands for
            broke_off,                    # what it said is not kept
            broke_off,                    # no translation: so it is the second's, which breaks off
            broke_off,                    # nobody is asked to go on
            "message_stop"])

    def test_a_node_that_cannot_translate_blames_no_engine(self):
        node = self.serve(FakeWorker(self, without(chats)), options=["--retries.streams", "off"])

        def send():
            got = self.post(ask(stream=True), path=MESSAGES)
            return got.status, got.json()["error"]["message"] if got.status != 200 else ""
        self.assertEqual(send()[0], 200)
        (status, message), (then, _) = self.each(send)
        self.assertEqual((status, then), (502, 200))
        self.assertIn("no descriptor, port or memory here", message)
        told = harness.metrics(node.at("admin"))
        self.assertEqual(told['kvasir_attempts_failed_total{reason="bad"}'], 0)
        rows = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual([row["failures"] for row in rows], [0])

    def test_what_an_engine_stores(self):
        self.serve(FakeWorker(self, lambda peer, _: peer.json({"id": "resp_00000001"})))

        def send():
            return self.post({"model": "m", "input": "x"}, path=RESPONSES).status
        self.assertEqual(self.each(send), [503, 200])

    def test_two_halves(self):
        halves = [FakeWorker(self, lambda peer, _: peer.json({
            "choices": [], "kv_transfer_params": {"do_remote_prefill": True}})) for _ in range(2)]
        node = self.serve(f"{halves[0].url},role=prefill", f"{halves[1].url},role=decode", count=2)
        harness.wait_until(lambda: all(w["engine"] != "other" for w in harness.request(
            node.at("admin"), "GET", "/admin/workers").json()), "they are known")

        number = itertools.count()

        def send():
            before = len(halves[0].requests)
            self.assertEqual(self.post(chat(f"{next(number)} {LONG}")).status, 200)
            return len(halves[0].requests) - before
        self.assertEqual(self.each(send), [0, 1], "whether the prompt went to the first one")


if __name__ == "__main__":
    harness.main()
