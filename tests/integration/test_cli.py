"""The command line: manuals, exit codes, check, and what asks a node."""
import http.server
import json
import os
import pathlib
import pty
import re
import select
import shutil
import socket
import subprocess
import tempfile
import termios
import threading
import unittest

BUILD = pathlib.Path(os.environ["KVASIR_BUILD"])
KVASIR = BUILD / "node" / "kvasir"
COMMANDS = ["serve", "status", "top", "explain", "check", "doctor", "snapshot",
            "render", "tokenize", "key"]


def run(*args, stdin="", program=KVASIR, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KVASIR_")}
    return subprocess.run([program, *args], input=stdin, text=True,
                          capture_output=True, timeout=60,
                          env={**clean, **env})


class Tokenize(unittest.TestCase):
    def test_words_of_signs_that_the_model_leaves_out_have_no_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tokenizer.json").write_text(
                '{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}')
            for text, ids in (("x", "\n"), ("xax", "0\n")):
                told = run("tokenize", "--files", folder, stdin=text)
                self.assertEqual((told.returncode, told.stdout, told.stderr), (0, ids, ""))


class Manual(unittest.TestCase):
    def test_help_lists_every_command_and_each_has_a_manual(self):
        top = run("--help")
        self.assertEqual((top.returncode, top.stderr), (0, ""))
        for command in COMMANDS + ["engine", "replay", "plan"]:
            self.assertRegex(top.stdout, rf"(?m)^  {command} ")
        for command in COMMANDS:
            for flag in "--help", "-h":
                told = run(command, flag)
                self.assertEqual((told.returncode, told.stderr), (0, ""))
                self.assertRegex(told.stdout, rf"\Ausage: kvasir {command}\b")
                self.assertIn("\nexamples:\n", told.stdout)
                self.assertLessEqual(
                    max(map(len, told.stdout.splitlines())), 80)

    def test_version_is_one_line(self):
        told = run("--version")
        self.assertRegex(told.stdout, r"\Akvasir \d+\.\d+\.\d+( \([0-9a-f]{12}(-dirty)?\))?\n\Z")

    def test_nothing_to_do_is_bad_usage(self):
        told = run()
        self.assertEqual((told.returncode, told.stdout), (2, ""))
        self.assertTrue(told.stderr.startswith("usage: kvasir "))

    def test_unknown_commands_and_options_are_named(self):
        cases = [
            (["stauts"], "kvasir: unknown command stauts, did you mean status?"
                         " (see kvasir --help)\n"),
            (["--frobnicate"], "kvasir: unknown option --frobnicate"
                               " (see kvasir --help)\n"),
            (["status", "--jsn"], "kvasir status: unknown option --jsn,"
                                  " did you mean --json? (see --help)\n"),
            (["status", "--json=1"], "kvasir status: --json takes no value\n"),
            (["status", "now"], "kvasir status: takes no operand: now\n"),
            (["check", "k.yaml"], "kvasir check: takes no operand: k.yaml;"
                                  " a configuration file goes after -c\n"),
            (["check", "-c"], "kvasir check: --config needs a value\n"),
            (["check", "-c", "a", "-c", "b"],
             "kvasir check: --config appears twice\n"),
            (["check", "--limit.head_bytes_max", "1"],
             "kvasir check: unknown option --limit.head_bytes_max,"
             " did you mean --limits.head_bytes_max? (see --help)\n"),
        ]
        for args, line in cases:
            told = run(*args)
            self.assertEqual((told.returncode, told.stdout, told.stderr),
                             (2, "", line))

    def test_data_is_short_for_its_directory(self):
        told = run("check", "--data", "d", "--worker", "http://a:1")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertIn('data:\n  dir: "d"\n', told.stdout)
        self.assertNotIn("keys:", told.stdout, "a section without values has no heading")

    def test_serve_refuses_what_check_refuses(self):
        told = run("serve", "--lanes", "65")
        self.assertEqual(
            (told.returncode, told.stdout, told.stderr),
            (2, "", "--lanes: expected a number from 0 to 64, not "
                    '"65"\nkvasir serve: 1 error in the configuration\n'))


class Closed(unittest.TestCase):
    """Descriptors 0 to 2 are not taken for files or connections of its own."""

    def test_commands_end_by_their_codes_without_them(self):
        for closed in "<&-", ">&-", "2>&-", "<&- >&- 2>&-":
            told = subprocess.run(
                ["sh", "-c", f'exec "$0" status --admin 127.0.0.1:1 {closed}', KVASIR],
                timeout=60, check=False, capture_output=True)
            self.assertEqual(told.returncode, 1, (closed, told.stderr))

    def test_a_node_without_a_place_for_its_log_serves_and_stops(self):
        node = subprocess.Popen(
            ["sh", "-c", 'exec "$0" serve --listen 127.0.0.1:0 --admin 127.0.0.1:0'
             " --timeouts.lame_duck 0 <&- 2>&-", KVASIR], stdout=subprocess.PIPE, text=True)
        with node:
            self.addCleanup(node.kill)
            self.assertTrue(node.stdout.readline().startswith("ready serve="))
            node.terminate()
            self.assertEqual(node.wait(60), 0)

    def test_what_cannot_be_written_is_a_failure(self):
        for command in "--version", "--help", "key":
            told = subprocess.run(["sh", "-c", f'exec "$0" {command} >/dev/full', KVASIR],
                                  timeout=60, check=False, capture_output=True)
            self.assertEqual(told.returncode, 1, command)


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "node.yaml"

    def test_a_good_file_prints_what_is_in_force(self):
        self.file.write_text("name: n1\nlanes: 3\ntimeouts: {head: 4s}\n"
                             "workers: ['http://a:1']\n")
        told = run("check", "-c", str(self.file), "--policy", "least_load",
                   "--worker=http://b:2,pool=x", KVASIR_TIMEOUTS_HEAD="5s",
                   KVASIR_TIMEOUTS_BODY="6s", KVASIR_SERVICE_HOST="10.0.0.1")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        for line in ['name: "n1"', "lanes: 3", "  head: 5s", "  body: 6s",
                     "  name: least_load", '  - url: "http://b:2"',
                     '    pool: "x"']:
            self.assertIn(line + "\n", told.stdout)
        self.assertNotIn("http://a:1", told.stdout)
        again = run("check", "-c", "-", stdin=told.stdout)
        self.assertEqual((again.returncode, again.stdout),
                         (0, told.stdout))

    def test_it_warns_of_what_is_allowed_and_not_meant(self):
        key = "http://10.0.0.1:8000,api_key=hushhush"
        for listen, worker, warned in (("0.0.0.0:8080", key, True), ("[::]:8080", key, True),
                                       ("127.0.0.1:8080", key, False), ("[::1]:8080", key, False),
                                       ("0.0.0.0:8080", "http://10.0.0.1:8000", False)):
            done = run("check", "--listen", listen, "--worker", worker)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("warning: workers: 1 of 1 have an api_key" in done.stderr, warned,
                             (listen, worker, done.stderr))
            self.assertNotIn("hushhush", done.stderr + done.stdout)

    def test_a_node_without_workers_is_warned_of(self):
        told = run("check")
        self.assertEqual(told.returncode, 0)
        self.assertTrue(told.stderr.startswith("warning: workers: none"), told.stderr)

    def test_a_bad_file_prints_every_error_with_its_place(self):
        self.file.write_text("lisen: 1\nlimits:\n  head_bytes_max: 64kb\n"
                             "workers:\n- url: gpu\n")
        told = run("check", "-c", str(self.file), "--lanes", "many",
                   KVASIR_LOG_LEVL="info")
        self.assertEqual((told.returncode, told.stdout), (2, ""))
        self.assertEqual(told.stderr.splitlines(), [
            f'{self.file}:1:1: unknown key "lisen", did you mean listen?',
            f"{self.file}:3:19: limits.head_bytes_max: expected a size from"
            ' 1KiB to 1MiB such as 32KiB, not "64kb"',
            f'{self.file}:5:8: url: expected http://HOST:PORT or https://HOST:PORT, not "gpu"',
            "KVASIR_LOG_LEVL: no key has this name",
            '--lanes: expected a number from 0 to 64, not "many"',
            "kvasir check: 5 errors in the configuration",
        ])

    def test_a_missing_folder_or_huge_file_is_one_line(self):
        missing = run("check", "-c", str(self.file))
        self.assertEqual(missing.returncode, 2)
        self.assertEqual(missing.stderr.splitlines()[0],
                         f"{self.file}: cannot be read: "
                         "no such file or directory")
        folder = run("check", "-c", str(self.file.parent))
        self.assertIn("cannot be read: illegal operation on a directory",
                      folder.stderr)
        self.file.write_text("# nothing\n" * 200000)
        huge = run("check", "-c", str(self.file))
        self.assertEqual(huge.stderr.splitlines()[0],
                         f"{self.file}: over 1048576 bytes")

    def test_a_file_that_is_missing_is_said_with_where_it_was_looked_for(self):
        told = run("check", "--admin.token_file", "none", "--tls.cert_file", "/none/cert",
                   "--tls.key_file", "key")
        self.assertEqual(told.returncode, 2)
        missing, here = "cannot be read: no such file or directory", f", looked for in {os.getcwd()}"
        self.assertEqual(told.stderr.splitlines(), [
            f"tls.cert_file: /none/cert {missing}", f"tls.key_file: key {missing}{here}",
            f"admin.token_file: none {missing}{here}",
            "kvasir check: 3 errors in the configuration"])

    def test_a_file_that_nodes_share_needs_no_address_of_one(self):
        self.file.write_text("mesh: {join: 'dns:router.example:7946', insecure: true}\n"
                             "workers: ['http://a:1']\n")
        told = run("check", "-c", str(self.file))
        self.assertEqual((told.returncode, told.stderr),
                         (0, "warning: mesh.listen: missing: each node that shares this file "
                             "needs its own, --mesh IP:PORT\n"))
        told = run("check", "-c", str(self.file), "--mesh", "10.0.0.1:7946")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        told = run("serve", "-c", str(self.file))
        self.assertEqual(told.returncode, 2)
        self.assertIn("mesh.listen: missing", told.stderr)

    def test_the_example_file_is_right_as_it_is_and_with_all_its_lines(self):
        example = (pathlib.Path(__file__).parents[2] / "deploy" / "kvasir.yaml").read_text()
        folder = self.file.parent
        (folder / "tokens").write_text("ops 0123456789abcdef0123456789abcdef\n")
        (folder / "mesh-secret").write_text("0123456789abcdef0123456789abcdef\n")
        line = run("key").stdout.splitlines()[1]
        (folder / "keys.yaml").write_text(f"tenants: {{shop: {{keys: ['{line}']}}}}\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=node",
                        "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                       check=True, capture_output=True, timeout=60)
        for text in example, re.sub(r"(?m)^#(?! \S)", "", example):
            self.file.write_text(text.replace("/etc/kvasir", str(folder)))
            told = run("check", "-c", str(self.file))
            self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn('url: "http://10.0.0.2:8000"', told.stdout)

    def test_the_nodes_of_kubernetes_know_all_lines_of_their_file(self):
        base = pathlib.Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "kvasir.yaml"
        self.file.write_text(re.sub(r"(?m)^#(?! |$)", "", base.read_text()))
        self.assertNotIn("unknown key", run("check", "-c", str(self.file)).stderr)

    def test_the_reference_has_every_key_that_check_prints(self):
        reference = run("check", "--reference").stdout
        section = ""
        for line in run("check").stdout.splitlines():
            key, value = line.split(":", 1)
            if not line.startswith(" ") and value == "":
                section = key + "."
                continue
            name = section + key.strip() if line.startswith(" ") else key
            self.assertRegex(reference, rf"(?m)^{name}$")

    def fits(self, value, schema):
        """Whether a value as YAML would read it is one of the schema's."""
        if "enum" in schema:
            return value in schema["enum"]
        kinds = {str: "string", int: "integer", float: "number"}
        wanted = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if isinstance(value, int) and "number" in wanted:
            value = float(value)
        if kinds[type(value)] not in wanted:
            return False
        if isinstance(value, str):
            return re.search(schema.get("pattern", ""), value) is not None
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)

    def test_the_schema_takes_what_check_prints_and_every_default(self):
        schema = json.loads(run("check", "--schema").stdout)
        self.assertFalse(schema["additionalProperties"])
        rows = schema["properties"]
        for line in run("check", "--retries.statuses", "500").stdout.splitlines():
            key, value = line.split(":", 1)
            if not line.startswith(" ") and value == "":
                rows = schema["properties"][key]["properties"]
                continue
            at = rows if line.startswith(" ") else schema["properties"]
            row = at[key.strip()]
            for text in value.strip(), json.dumps(row.get("default")):
                bare = re.fullmatch(r"[0-9.]+|true|false|null|\".*\"", text)
                read = json.loads(text) if bare else text
                self.assertTrue(read is None or self.fits(read, row), f"{line}: {row}")
        worker = schema["properties"]["workers"]["items"]["anyOf"][1]["properties"]
        self.assertTrue(self.fits("http://a:1", worker["url"]))
        self.assertFalse(self.fits("5x", schema["properties"]["timeouts"]["properties"]["drain"]))


class Snapshot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "data"

    def write(self):
        subprocess.run([BUILD / "tests" / "property" /
                        "property_storage_files", "write", self.folder],
                       check=True)
        return self.folder / "kvasir-0000000000000001.mdb"

    def test_nothing_there_is_one_line(self):
        told = run("snapshot", "info", str(self.folder))
        self.assertEqual((told.returncode, told.stdout, told.stderr), (
            1, "", f"kvasir snapshot: {self.folder}: there is no snapshot, nor the directory\n"))
        self.folder.mkdir()
        self.assertEqual(run("snapshot", "info", str(self.folder)).stderr,
                         f"kvasir snapshot: {self.folder}: there is no snapshot\n")
        self.assertEqual(run("snapshot", "verify").returncode, 2)
        self.assertEqual(run("snapshot", "see", "x").returncode, 2)

    def test_a_good_one_is_described_and_left_as_it_is(self):
        file = self.write()
        before = file.read_bytes()
        for what in "info", "verify":
            told = run("snapshot", what, str(self.folder))
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            self.assertIn(f"file          {file.name}\n", told.stdout)
            self.assertIn("snapshot      2 of life 1\n", told.stdout)
            raw = json.loads(run("snapshot", what, "--json",
                                 str(self.folder)).stdout)
            self.assertEqual((raw["outcome"], raw["cluster"], raw["number"],
                              raw["parts"]), ("ok", "c", 2, 40))
        self.assertEqual(file.read_bytes(), before)

    def test_what_a_start_would_refuse_is_refused(self):
        file = self.write()
        told = run("snapshot", "verify", "--cluster", "d", str(self.folder))
        self.assertEqual(told.returncode, 1)
        self.assertIn('of cluster "c", this one is "d"\n', told.stdout)
        whole = file.read_bytes()
        file.write_bytes(whole[:len(whole) // 2])
        told = run("snapshot", "verify", str(self.folder))
        self.assertEqual(told.returncode, 1)
        self.assertIn("\nrefused       file: corrupt\n", told.stdout)


class Admin(http.server.BaseHTTPRequestHandler):
    """A node's admin port with canned answers."""
    answers = {}
    asked = []
    tenants = []

    def answer(self):
        Admin.tenants += [self.headers[name] for name in self.headers
                          if name.lower() == "x-kvasir-tenant"]
        size = int(self.headers.get("Content-Length") or 0)
        Admin.asked.append((self.command, self.path, self.rfile.read(size)))
        status, body = Admin.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


class Asking(unittest.TestCase):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Admin)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.address = "127.0.0.1:%d" % server.server_port
        Admin.asked = []
        Admin.tenants = []

    def test_status_is_a_table_or_the_answer_itself(self):
        body = json.dumps({"node": "n1", "ready": True, "workers": [
            {"id": "gpu-1", "state": "up", "inflight": 3},
            {"id": "gpu-22", "state": "down", "inflight": 0}]}).encode()
        Admin.answers = {"/admin/status": (200, body)}
        told = run("status", "--admin", self.address)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout.splitlines()[0], "n1 : ready, up 0 s")
        self.assertRegex(told.stdout, r"(?m)^gpu-22 +down +0 +0 ")
        raw = run("status", "--json", KVASIR_ADMIN=self.address)
        self.assertEqual(raw.stdout.encode(), body)
        self.assertEqual(Admin.asked, [("GET", "/admin/status", b"")] * 2)

    def test_explain_posts_what_it_reads(self):
        Admin.answers = {"/admin/explain": (
            200, b'{"worker":"gpu-1","candidates":[{"worker":"gpu-1"}]}')}
        request = json.dumps({"prompt": "x" * 100000})
        told = run("explain", "--admin", self.address, stdin=request)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertIn("worker        gpu-1\n", told.stdout)
        self.assertEqual(Admin.asked,
                         [("POST", "/admin/explain", request.encode())])

    def test_explain_names_the_path_that_is_meant(self):
        Admin.answers = {"/admin/explain?path=/v1/messages": (200, b'{"worker":"gpu-1"}')}
        told = run("explain", "--admin", self.address, "--path", "/v1/messages", stdin="{}")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        for wrong in ("v1/messages", "/v1/messages?x", "/v1/a b", "/" + 300 * "x", ""):
            told = run("explain", "--admin", self.address, "--path", wrong, stdin="{}")
            self.assertEqual((told.returncode, told.stderr),
                             (2, "kvasir explain: --path: expected a path, as "
                                 "/v1/chat/completions\n"))
        self.assertEqual(len(Admin.asked), 1)

    def test_explain_names_the_tenant_that_is_meant(self):
        Admin.answers = {"/admin/explain": (200, b'{"worker":"gpu-1"}')}
        told = run("explain", "--admin", self.address, "--tenant", "shop", stdin="{}")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(Admin.tenants, ["shop"])
        for wrong in ("", "a b", "a\r\nx: y", "n" * 65):
            told = run("explain", "--admin", self.address, "--tenant", wrong, stdin="{}")
            self.assertEqual((told.returncode, told.stderr),
                             (2, "kvasir explain: --tenant: expected a name of keys.file\n"))

    def test_explain_without_a_request_is_bad_usage(self):
        told = run("explain", "--admin", self.address)
        self.assertEqual((told.returncode, told.stderr),
                         (2, "kvasir explain: expected a request body on "
                             "stdin\n"))
        self.assertEqual(Admin.asked, [])

    def test_an_error_of_the_node_is_passed_on(self):
        Admin.answers = {"/admin/explain": (400, json.dumps({"error": {
            "message": "not valid JSON: \x1b[2J at byte 3"}}).encode())}
        told = run("explain", "--admin", self.address, stdin="{")
        self.assertEqual(told.returncode, 1)
        self.assertEqual(told.stderr,
                         f"kvasir explain: {self.address} answered 400: "
                         '"not valid JSON: \\u001b[2J at byte 3"\n')

    def test_an_answer_that_is_no_json_is_refused(self):
        Admin.answers = {"/admin/status": (200, b"<html>")}
        told = run("status", "--admin", self.address)
        self.assertEqual((told.returncode, told.stderr),
                         (1, "kvasir status: the answer is not a JSON "
                             "object\n"))

    def test_nobody_there_is_one_clear_line(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # bound, not listening: refused
            address = "127.0.0.1:%d" % free.getsockname()[1]
            told = run("status", "--admin", address)
        self.assertEqual(told.returncode, 1)
        self.assertEqual(told.stderr,
                         f"kvasir status: cannot reach a node at {address}: "
                         "connection refused (--admin HOST:PORT names its "
                         "admin port; is it open to this machine?)\n")

    def test_a_bad_address_is_bad_usage(self):
        for args, env, source in [(["--admin", "x"], {}, "--admin"),
                                  ([], {"KVASIR_ADMIN": "x"}, "KVASIR_ADMIN")]:
            told = run("status", *args, **env)
            self.assertEqual((told.returncode, told.stderr),
                             (2, f"kvasir status: {source}: expected "
                                 'HOST:PORT or https://HOST:PORT, not "x"\n'))


    METRICS = (b'kvasir_info{node="n1",version="9"} 1\nkvasir_uptime_seconds 5\n'
               b'kvasir_requests_total 5\nkvasir_worker_eligible{worker="gpu-1"} 1\n')

    def test_top_prints_pages_where_there_is_no_terminal(self):
        Admin.answers = {"/metrics": (200, self.METRICS)}
        told = run("top", "--admin", self.address, "--interval", "0.1", "--count", "2")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout.count("kvasir 9  node n1"), 2)
        self.assertEqual(told.stdout.count("requests  0.0/s"), 2)
        self.assertEqual(told.stdout.count("\ngpu-1  yes "), 2)
        self.assertNotIn("\x1b", told.stdout)
        self.assertEqual(Admin.asked, [("GET", "/metrics", b"")] * 3)

    def test_top_ends_where_nobody_answers(self):
        Admin.answers = {"/metrics": (503, b"{}")}
        told = run("top", "--admin", self.address)
        self.assertEqual((told.returncode, told.stdout, told.stderr),
                         (1, "", f"kvasir top: {self.address} answered 503\n"))

    def test_top_refuses_intervals_and_counts_that_are_none(self):
        for args, fault in [
                (["--interval", "0"], '--interval: expected a number from 0.1 to 3600, not "0"'),
                (["--interval", "nan"], '--interval: expected a number from 0.1 to 3600, not "nan"'),
                (["--count", "-1"], '--count: expected a whole number from 1 to 1000000, not "-1"'),
                (["--count", "3x"], '--count: expected a whole number from 1 to 1000000, not "3x"')]:
            told = run("top", *args)
            self.assertEqual((told.returncode, told.stderr), (2, f"kvasir top: {fault}\n"))

    def test_top_waits_on_a_terminal_for_a_node_to_come_back_until_q(self):
        Admin.answers = {"/metrics": (200, self.METRICS)}
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        before = termios.tcgetattr(slave)
        top = subprocess.Popen([KVASIR, "top", "--admin", self.address, "--interval", "0.1"],
                               stdin=slave, stdout=slave, stderr=subprocess.PIPE)
        self.addCleanup(top.stderr.close)
        self.addCleanup(top.kill)
        drawn = bytearray()

        def until(text):
            while text not in drawn:
                ready, _, _ = select.select([master], [], [], 60)
                self.assertTrue(ready, f"top is {top.poll()}, drawn {bytes(drawn)}")
                drawn.extend(os.read(master, 65536))
            del drawn[:drawn.index(text) + len(text)]

        until(b"\x1b[?1049h")
        until(b"node n1")
        Admin.answers = {"/metrics": (503, b"{}")}
        until(b"answered 503")
        Admin.answers = {"/metrics": (200, self.METRICS)}
        until(b"\x1b[Hkvasir 9")
        os.write(master, b"q")
        until(b"\x1b[?1049l")  # the screen as it was
        self.assertEqual(top.wait(60), 0)
        self.assertEqual(top.stderr.read(), b"")
        self.assertEqual(termios.tcgetattr(slave), before)
        os.close(slave)


class Engine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "bin").mkdir()
        self.kvasir = self.root / "bin" / "kvasir"
        shutil.copy(KVASIR, self.kvasir)

    def install(self, place):
        engine = self.root / place / "kvasir-engine"
        engine.parent.mkdir(parents=True, exist_ok=True)
        engine.write_text('#!/bin/sh\necho "$# $*"\nexit 7\n')
        engine.chmod(0o755)
        return engine

    def test_meson_installs_what_is_looked_for_in_libexec(self):
        told = subprocess.run(["meson", "introspect", "--installed", BUILD], text=True,
                              capture_output=True, timeout=60, check=True)
        places = {pathlib.Path(place) for place in json.loads(told.stdout).values()}
        prefix = next(place for place in places if place.name == "kvasir").parents[1]
        for name in "kvasir-engine", "kvasir-replay", "kvasir-wide":
            self.assertIn(prefix / "libexec" / "kvasir" / name, places)

    def test_it_is_found_beside_in_the_build_and_in_libexec(self):
        for place in "libexec/kvasir", "chaos", "bin":
            engine = self.install(place)
            told = run("engine", "--port", "0", "a b", program=self.kvasir)
            self.assertEqual((told.returncode, told.stdout, told.stderr),
                             (7, "3 --port 0 a b\n", ""))
            engine.unlink()

    def test_a_missing_engine_is_one_clear_line(self):
        told = run("engine", program=self.kvasir)
        self.assertEqual(told.returncode, 1)
        self.assertEqual(told.stderr,
                         "kvasir engine: kvasir-engine is not installed: "
                         f"looked in {self.root}/bin/ and {self.root}/bin/"
                         "../libexec/kvasir\n")


if __name__ == "__main__":
    unittest.main()
