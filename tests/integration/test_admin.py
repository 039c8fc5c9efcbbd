"""The admin port: who may use it, from where, and what is told of it."""
import gzip
import pathlib
import pty
import os
import resource
import socket
import subprocess
import time
import unittest

import harness
from fake_worker import FakeWorker

TOKEN = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"


def bearer(token):
    return {"authorization": f"Bearer {token}"}


class Admin(harness.Case):
    def serve(self, *flags):
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                          "127.0.0.1:0", "--lanes", "1", *flags)

    def tokens(self, text):
        path = self.folder / "tokens"
        fresh = self.folder / "tokens.new"
        fresh.write_text(text)
        fresh.replace(path)
        return path

    def status(self, node, method, path, body=None, headers=None):
        return harness.request(node.at("admin"), method, path, body, headers).status

    def test_a_page_of_another_origin_or_name_is_refused(self):
        node = self.serve()
        admin = "%s:%d" % node.at("admin")
        worker = {"url": "http://127.0.0.1:1"}
        for headers, status in (({"host": "rebound.example"}, 403),
                                ({"origin": "http://evil.example"}, 403),
                                ({"origin": "null"}, 403),
                                ({"content-type": "text/plain"}, 415),
                                ({"origin": f"http://{admin}"}, 200)):
            with self.subTest(headers=headers):
                self.assertEqual(
                    self.status(node, "POST", "/admin/workers", worker, headers), status)
        self.assertEqual(self.status(node, "GET", "/metrics", None,
                                     {"host": "rebound.example"}), 403)
        self.assertIn("admin_refused", node.log())

    def test_a_token_is_wanted_and_its_name_stands_in_the_log(self):
        path = self.tokens(f"anna {TOKEN}\n")
        node = self.serve("--admin.token_file", path)
        worker = {"url": "http://127.0.0.1:1", "id": "w"}
        denied = harness.request(node.at("admin"), "GET", "/admin/status")
        self.assertEqual((denied.status, denied.headers["www-authenticate"]), (401, "Bearer"))
        self.assertEqual(self.status(node, "GET", "/metrics"), 401)
        self.assertEqual(self.status(node, "GET", "/metrics", None, bearer(OTHER)), 401)
        self.assertEqual(self.status(node, "POST", "/admin/workers", worker, bearer(TOKEN)), 200)
        self.assertRegex(node.log(), r"admin_change by=127\.0\.0\.1:\d+ token=anna method=POST "
                                     r"path=/admin/workers worker=w outcome=done")
        self.tokens(f"berta {OTHER}\n")
        self.assertEqual(self.status(node, "DELETE", "/admin/workers/w", None, bearer(TOKEN)), 401)
        self.assertEqual(self.status(node, "DELETE", "/admin/workers/w", None, bearer(OTHER)), 200)
        self.assertRegex(node.log(), r"admin_change by=\S+ token=berta method=DELETE "
                                     r"path=/admin/workers/w worker=w outcome=done")
        self.tokens("nonsense\n")
        self.assertEqual(self.status(node, "GET", "/metrics", None, bearer(OTHER)), 200)
        self.assertIn("admin_tokens_unread", node.log())

    def test_what_a_stranger_sends_is_not_read(self):
        node = self.serve("--admin.token_file", self.tokens(f"anna {TOKEN}\n"),
                          "--admin.metrics", "127.0.0.1:0")
        for port, own, status in (("admin", "", 401), ("metrics", "", 405),
                                  ("admin", f"authorization: Bearer {TOKEN}\r\n", 100)):
            with self.subTest(port=port, own=own), \
                    socket.create_connection(node.at(port), harness.IO_TIMEOUT_S) as s:
                s.sendall(f"POST /metrics HTTP/1.1\r\nhost: localhost\r\n{own}content-length: "
                          "60000000\r\ncontent-type: application/json\r\n"
                          "expect: 100-continue\r\n\r\n".encode())
                self.assertEqual(s.makefile("rb").readline().split()[1], b"%d" % status)
        for length in "content-length: 9", "transfer-encoding: chunked":  # it is of no type
            self.assertIn(b"HTTP/1.1 415 ", harness.raw(
                node.at("admin"), f"POST /admin/reload HTTP/1.1\r\nauthorization: Bearer {TOKEN}"
                f"\r\nhost: localhost\r\n{length}\r\n\r\n".encode()))
        self.assertNotIn("reloaded", node.log())

    def test_a_token_that_is_exchanged_in_its_place_and_with_its_time_ends(self):
        path = self.tokens(f"anna {TOKEN}\n")
        node = self.serve("--admin.token_file", path)
        self.assertEqual(self.status(node, "GET", "/metrics", None, bearer(TOKEN)), 200)
        before = path.stat()
        path.write_text(f"anna {OTHER}\n")  # the same file
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(self.status(node, "GET", "/metrics", None, bearer(TOKEN)), 401)
        self.assertEqual(self.status(node, "GET", "/metrics", None, bearer(OTHER)), 200)

    def test_operators_are_told_where_their_requests_went(self):
        told = ("x-kvasir-worker", "x-kvasir-mode", "x-kvasir-overlap", "x-kvasir-source")
        worker = FakeWorker(self, lambda peer, request: peer.json(
            {}, 429 if b"too many" in request.body else 200))
        self.tokens(f"anna {TOKEN}\n")
        node = self.serve("--admin.token_file", self.folder / "tokens", "--worker", worker.url,
                          "--placement-headers", "off")

        def shown(token=None, text="hello", **more):
            headers = {} if token is None else {"X-Kvasir-Token": token}
            answer = harness.request(
                node.at("serve"), "POST", "/v1/chat/completions",
                {"messages": [{"role": "user", "content": text}]}, {**headers, **more})
            return [name for name in told if name in answer.headers]
        harness.wait_until(lambda: harness.request(node.at("serve"), "GET", "/ready").status
                           == 200, "the worker is up")
        self.assertEqual(shown(TOKEN), list(told))
        self.assertEqual(shown(), [])
        for wrong in OTHER, TOKEN[:-1], TOKEN + "0", TOKEN * 9, "", "anna":
            self.assertEqual(shown(wrong), [], wrong)
        self.assertEqual(shown(TOKEN, "too many"), [])
        self.assertEqual(shown(**bearer(TOKEN)), [])
        # Nobody asks the admin port for anything meanwhile.
        self.tokens(f"berta {OTHER}\n")
        harness.wait_until(lambda: shown(OTHER) == list(told), "the new token is known")
        self.assertEqual(shown(TOKEN), [])
        for request in worker.requests:
            self.assertEqual([name for name in request.headers if "kvasir" in name], [])

    def test_every_change_is_logged_however_many(self):
        node = self.serve()
        for _ in range(50):
            self.status(node, "DELETE", "/admin/workers/nobody")
        self.assertEqual(node.log().count('outcome="no such worker"'), 50)

    def test_commands_find_and_send_the_token(self):
        path = self.tokens(f"anna {TOKEN}\n")
        node = self.serve("--admin.token_file", path)
        admin = node.ready["admin"]
        told = self.run_once("kvasir", "status", "--admin", admin)
        self.assertEqual(told.returncode, 1)
        self.assertIn("answered 401", told.stderr)
        self.assertIn("--token-file", told.stderr)
        for args, env in ((["--token-file", path], {}),
                          ([], {"KVASIR_ADMIN_TOKEN_FILE": str(path)})):
            for command, more in (("status", []), ("explain", []), ("top", ["--count", "1"])):
                told = self.run_once("kvasir", command, "--admin", admin, *more, *args, env=env,
                                     stdin='{"model":"m","prompt":"x"}')
                self.assertEqual((told.returncode, told.stderr), (0, ""), command)
        told = self.run_once("kvasir", "status", "--admin", admin, "--token-file",
                             self.folder / "none")
        self.assertEqual(told.returncode, 2)
        self.assertIn("cannot be read", told.stderr)

    def test_counts_of_events_outlive_their_worker(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0")
        node = self.serve("--worker", f"{engine.url('http')},id=e,events={engine.ready['events']},"
                                      f"replay={engine.ready['replay']}")
        prompt = {"model": "kvasir/stand-in", "prompt": list(range(100)), "max_tokens": 1}
        self.assertEqual(harness.request(engine.at("http"), "POST", "/v1/completions",
                                         prompt).status, 200)

        def stored():
            return harness.metric(node.at("admin"), "kvasir_events_blocks_stored_total")

        harness.wait_until(lambda: stored() == 6, "its blocks were heard of")
        self.assertEqual(self.status(node, "DELETE", "/admin/workers/e"), 200)
        harness.wait_until(lambda: harness.metric(
            node.at("admin"), "kvasir_mirror_worker_blocks") is None, "it is gone")
        self.assertEqual(stored(), 6)

    def test_the_process_is_told_as_everywhere(self):
        before = int(time.time())
        node = self.serve()
        told = harness.metrics(node.at("admin"))
        self.assertTrue(before <= told["process_start_time_seconds"] <= time.time())
        soft, _ = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(told["process_max_fds"], soft)
        fields = pathlib.Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        spent = (int(fields[11]) + int(fields[12])) / ticks
        self.assertLessEqual(told["process_cpu_seconds_total"], spent)
        again = harness.metrics(node.at("admin"))
        self.assertLessEqual(spent, again["process_cpu_seconds_total"])
        resident = int(fields[21]) * os.sysconf("SC_PAGESIZE")
        self.assertGreater(told["process_resident_memory_bytes"], resident / 2)
        self.assertLess(told["process_resident_memory_bytes"], resident * 2)
        self.assertGreater(told["process_virtual_memory_bytes"], resident)

    def test_256_workers_make_fewer_than_5000_series(self):
        words = [word for i in range(256) for word in (
            "--worker", f"http://127.0.0.1:{i + 1},id=w{i},events=tcp://127.0.0.1:1,"
                        "replay=tcp://127.0.0.1:1")]
        node = self.serve(*words)
        harness.wait_until(lambda: sum(key.startswith("kvasir_mirror_worker_blocks") for key in
                                       harness.metrics(node.at("admin"))) == 256, "all are there")
        self.assertLess(len(harness.metrics(node.at("admin"))), 5000)

    def test_metrics_are_small_for_whom_takes_them_so(self):
        node = self.serve("--admin.metrics", "127.0.0.1:0")
        for port in "admin", "metrics":
            connection = harness.connect(node.at(port))
            self.addCleanup(connection.close)
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip;q=0.5"})
            got = connection.getresponse()
            self.assertEqual((got.status, got.getheader("content-encoding"), got.getheader("vary")),
                             (200, "gzip", "Accept-Encoding"))
            body = got.read()
            page = gzip.decompress(body).decode()
            self.assertIn("\nkvasir_ready 0\n", page)
            self.assertLess(len(body) * 4, len(page))
            head = harness.request(node.at(port), "HEAD", "/metrics",
                                   headers={"Accept-Encoding": "gzip"})
            self.assertEqual((head.headers["content-encoding"], head.text), ("gzip", ""))
            plain = harness.request(node.at(port), "GET", "/metrics",
                                    headers={"Accept-Encoding": "gzip;q=0"})
            self.assertNotIn("content-encoding", plain.headers)
            self.assertIn("\nkvasir_ready 0\n", plain.text)

    def test_what_can_be_read_can_be_asked_for_by_head(self):
        node = self.serve("--admin.metrics", "127.0.0.1:0")
        for port in "admin", "metrics":
            for path in "/metrics", "/health":
                got = harness.request(node.at(port), "HEAD", path)
                self.assertEqual((got.status, got.text), (200, ""))
                self.assertGreater(int(got.headers["content-length"]), 10)
        for path in "/", "/admin/status", "/admin/decisions", "/admin/live":
            got = harness.request(node.at("admin"), "HEAD", path)
            self.assertEqual((got.status, got.text), (200, ""), path)
        refused = harness.request(node.at("admin"), "HEAD", "/admin/explain")
        self.assertEqual((refused.status, refused.headers["allow"]), (405, "POST"))

    def test_the_port_for_metrics_reads_and_changes_nothing(self):
        path = self.tokens(f"anna {TOKEN}\n")
        worker = FakeWorker(self, lambda peer, request: peer.json({}))
        node = self.serve("--admin.token_file", path, "--admin.metrics", "127.0.0.1:0",
                          "--worker", worker.url)
        metrics = node.at("metrics")

        def status(method, path):
            return harness.request(metrics, method, path).status

        self.assertEqual(status("GET", "/health"), 200)
        harness.wait_until(lambda: status("GET", "/ready") == 200, "the worker is up")
        self.assertIn("kvasir_info", harness.request(metrics, "GET", "/metrics").text)
        for path in "/admin/status", "/admin/workers", "/":
            self.assertEqual(status("GET", path), 404)
        refused = harness.request(metrics, "POST", "/metrics")
        self.assertEqual((refused.status, refused.headers["allow"]), (405, "GET, HEAD"))
        self.assertEqual(status("POST", "/admin/workers"), 404)

    def test_beyond_loopback_it_wants_tokens_or_a_word(self):
        told = self.run_once("kvasir", "check", "--admin", "0.0.0.0:0")
        self.assertEqual(told.returncode, 2)
        self.assertIn("admin.token_file", told.stderr)
        told = self.run_once("kvasir", "check", "--admin", "0.0.0.0:0", "--admin.insecure", "true",
                             "--worker", "http://a:1")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        told = self.run_once("kvasir", "check", "--admin.token_file", self.tokens("short\n"))
        self.assertEqual(told.returncode, 2)
        self.assertIn("16 to 128 characters", told.stderr)

    def test_a_denied_address_is_refused_by_name_and_range(self):
        node = self.serve("--workers.deny", "10.0.0.0/8")
        refused = harness.request(node.at("admin"), "POST", "/admin/workers",
                                  {"url": "http://10.1.2.3:8000"})
        self.assertEqual(refused.status, 403)
        self.assertEqual(refused.json()["error"]["message"],
                         "the address 10.1.2.3 of its url is in 10.0.0.0/8, which "
                         "workers.deny denies")
        told = self.run_once("kvasir", "check", "--worker", "http://169.254.169.254")
        self.assertEqual(told.returncode, 2)
        self.assertIn("169.254.0.0/16", told.stderr)

    def test_a_name_with_a_denied_address_is_told_with_both(self):
        sidecar = FakeWorker(self, lambda peer, request: peer.answer(404))
        node = self.serve("--workers.deny", "127.0.0.0/8 ::1/128", "--worker",
                          f"http://localhost:1,id=w,sse=http://localhost:{sidecar.address[1]}/e")
        harness.wait_until(lambda: "worker_address_denied" in node.log(), "the name is resolved")
        self.assertIn("worker=w address=127.0.0.1 range=127.0.0.0/8", node.log())
        harness.wait_until(lambda: "sse_ended worker=w" in node.log(), "nor does it read events")
        self.assertEqual(sidecar.requests, [])

    def test_no_line_of_a_start_with_many_workers_is_lost(self):
        workers = []
        for i in range(100):
            workers += ["--worker", f"http://127.0.0.1:{i + 1},id=w{i}"]
        node = self.serve(*workers)
        harness.wait_until(lambda: node.log().count(" worker_added ") == 100, "all are told")
        self.assertNotIn("dropped=", node.log())

    def test_a_failed_check_names_url_and_status(self):
        engine = self.start("kvasir-engine", "--port", "0")
        node = self.serve("--worker", f"{engine.url('http')}/nowhere,id=w")
        harness.wait_until(lambda: " worker_down " in node.log(), "it is down")
        self.assertRegex(node.log(), r'worker_down worker=w reason="health status" status=404 '
                                     r"worker_url=\S+/nowhere path=/nowhere/\S+")

    def test_top_says_that_its_output_cannot_be_written(self):
        node = self.serve("--worker", "http://127.0.0.1:1")
        with open("/dev/full", "w") as full:
            top = subprocess.run([harness.program("kvasir"), "top", "--admin",
                                  "%s:%d" % node.at("admin"), "--interval", "0.1"], stdout=full,
                                 stderr=subprocess.PIPE, timeout=harness.IO_TIMEOUT_S, text=True)
        self.assertEqual((top.returncode, top.stderr), (1, "kvasir top: cannot write to stdout\n"))

    def test_explain_says_on_a_terminal_what_it_waits_for(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        explain = subprocess.Popen([harness.program("kvasir"), "explain"], stdin=slave,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(slave)
        self.addCleanup(explain.stderr.close)
        self.addCleanup(explain.wait)
        self.addCleanup(explain.kill)
        self.assertIn(b"type the request's JSON", explain.stderr.readline())


if __name__ == "__main__":
    harness.main()
