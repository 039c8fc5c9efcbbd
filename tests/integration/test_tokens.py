"""Clients' tokens: JWTs in place of keys, made here by the openssl command."""
import base64
import json
import shutil
import subprocess
import time
import unittest

import certs
import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import CHAT, Proxy, chat, echo

HOUR = 3600


def encode(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """A key pair of one algorithm, under a name."""

    def __init__(self, folder, name, alg="ES256"):
        self.name, self.alg, self.file = name, alg, folder / f"{name}.key"
        kind = (["EC", "-pkeyopt", "ec_paramgen_curve:P-256"] if alg == "ES256"
                else ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        self.openssl("genpkey", "-algorithm", *kind, "-out", self.file)

    @staticmethod
    def openssl(*args, data=None):
        return subprocess.run(["openssl", *map(str, args)], input=data, check=True,
                              capture_output=True, timeout=harness.IO_TIMEOUT_S).stdout

    def jwk(self):
        own = {"kid": self.name, "use": "sig", "alg": self.alg}
        if self.alg == "RS256":
            told = self.openssl("rsa", "-in", self.file, "-noout", "-modulus").decode()
            modulus = bytes.fromhex(told.strip().partition("=")[2])
            return {**own, "kty": "RSA", "n": encode(modulus), "e": "AQAB"}
        point = self.openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-64:]
        return {**own, "kty": "EC", "crv": "P-256", "x": encode(point[:32]),
                "y": encode(point[32:])}

    def sign(self, data):
        der = self.openssl("dgst", "-sha256", "-sign", self.file, data=data)
        if self.alg == "RS256":
            return der
        numbers, at = b"", 2
        for _ in range(2):  # 2, length, number
            size = der[at + 1]
            number = der[at + 2:at + 2 + size]
            numbers += number[-32:].rjust(32, b"\0")
            at += 2 + size
        return numbers

    def token(self, tenant="shop", **claims):
        head = {"alg": self.alg, "kid": self.name, "typ": "JWT"}
        body = {"iss": "https://id.example/", "aud": ["kvasir"], "exp": int(time.time()) + HOUR,
                "tenant": tenant, **claims}
        text = f"{encode(head)}.{encode({k: v for k, v in body.items() if v is not None})}"
        return f"{text}.{encode(self.sign(text.encode()))}"


@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class Tokens(Proxy):
    def setUp(self):
        super().setUp()
        self.worker = FakeWorker(self, echo, models=("m", "other"))
        self.keys = self.folder / "keys.yaml"
        self.keys.write_text("tenants:\n  shop:\n    models: ['m']\n  research:\n")
        self.jwks = self.folder / "jwks.json"
        self.one = Signer(self.folder, "one")

    def write(self, *signers):
        self.jwks.write_text(self.set_of(*signers))

    @staticmethod
    def set_of(*signers):
        return json.dumps({"keys": [s.jwk() for s in signers]})

    def serve_tokens(self, *options, jwks=None):
        return self.serve(self.worker, options=[
            "--keys.file", self.keys, "--jwt.jwks", jwks or self.jwks,
            "--jwt.issuer", "https://id.example/", "--jwt.audience", "kvasir", *options])

    def status(self, token, body=None):
        return self.post(body, {"authorization": f"Bearer {token}"}).status

    def why(self, token):
        answer = self.post(headers={"authorization": f"Bearer {token}"})
        self.assertEqual(answer.status, 401, answer.text)
        self.assertEqual(answer.json()["error"]["code"], "invalid_api_key")
        self.assertEqual(answer.headers["www-authenticate"], "Bearer")
        return answer.json()["error"]["message"]

    def reload(self, node):
        return harness.request(node.at("admin"), "POST", "/admin/reload", {})

    def metric(self, node, name):
        return harness.metric(node.at("admin"), name)

    def test_a_token_is_as_good_as_a_key_and_goes_to_no_worker(self):
        two = Signer(self.folder, "two", "RS256")
        self.write(self.one, two)
        node = self.serve_tokens()
        for signer in (self.one, two):
            token = signer.token()
            self.assertEqual([self.status(token) for _ in range(3)], [200] * 3)
            self.assertNotIn(b"eyJ", self.worker.requests[-1].raw_head)
        answer = self.post(headers={"x-api-key": token})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.status(token, {**chat(), "model": "other"}), 403)
        other = self.one.token("research", exp=int(time.time()) + HOUR + 0.5)
        self.assertEqual(self.status(other, {**chat(), "model": "other"}), 200)
        found = harness.metrics(node.at("admin"))
        self.assertEqual(found['kvasir_tenant_requests_total{tenant="shop"}'], 8)
        self.assertEqual(found['kvasir_tenant_requests_total{tenant="research"}'], 1)
        self.assertLess(found["kvasir_jwt_verified_total"], 9,
                        "a token that is known is not looked at again by the same lane")
        self.assertNotIn("eyJ", node.log())

    def test_what_is_wrong_with_a_token_is_told(self):
        self.write(self.one)
        self.serve_tokens("--jwt.leeway", "0s")
        now = int(time.time())
        good = self.one.token()
        head, body, signature = good.split(".")
        forged = f"{head}.{encode({'exp': now + HOUR, 'tenant': 'research'})}.{signature}"
        none = f"{encode({'alg': 'none'})}.{body}."
        for token, word in ((self.one.token(exp=now - 1), "expired"),
                            (self.one.token(nbf=now + HOUR), "not valid yet"),
                            (self.one.token(aud="other"), "audience"),
                            (self.one.token(iss="https://other/"), "issuer"),
                            (self.one.token("nobody"), "no tenant"),
                            (self.one.token(None), "no tenant"),
                            (self.one.token(exp=None), "cannot be read"),
                            (Signer(self.folder, "two").token(), "key is not known"),
                            (forged, "signature"), (none, "key is not known"),
                            (f"{head}.{body}.{encode(bytes(64))}", "signature"), ("eyJ", "cannot be read"),
                            (f"{good}.x", "cannot be read")):
            self.assertIn(word, self.why(token), token)
        self.assertEqual(self.worker.requests, [])
        self.assertEqual(self.status(good), 200)

    def test_keys_of_tokens_are_read_again_with_the_configuration(self):
        self.write(self.one)
        node = self.serve_tokens("--jwt.default_tenant", "shop")
        two = Signer(self.folder, "two")
        old, new = self.one.token("nobody"), two.token("nobody")
        self.assertEqual((self.status(old), self.status(new)), (200, 401))
        self.write(two)
        self.assertEqual(self.reload(node).status, 200)
        self.assertEqual((self.status(old), self.status(new)), (401, 200))
        self.jwks.write_text("{}")
        refused = self.reload(node)
        self.assertEqual(refused.status, 400, refused.text)
        self.assertIn("has no key for RS256 or ES256", refused.text)
        self.assertEqual(self.status(new), 200)

    def test_keys_of_tokens_are_fetched_from_one_url(self):
        self.certs = certs.Certs(type(self))
        given = [self.set_of(self.one)]

        def answer(peer, request):
            if given[0] is None:
                peer.answer(500, b"no")
            else:
                peer.answer(200, given[0].encode())

        class Provider(FakeWorker):
            def _own(self, peer, target):
                return False

        provider = Provider(self, answer, tls=self.certs.of_server("one"))
        url = f"https://localhost:{provider.address[1]}/.well-known/jwks.json"
        node = self.serve_tokens("--jwt.ca_file", self.certs.path("ca.pem"), jwks=url)
        old = self.one.token()
        harness.wait_until(lambda: self.status(old) == 200, "the keys are fetched")
        self.assertEqual(provider.requests[0].target, "/.well-known/jwks.json")

        two = Signer(self.folder, "two")
        given[0] = self.set_of(two)
        harness.wait_until(lambda: self.status(two.token()) == 200,
                           "a token by an unknown key has the keys fetched again")
        self.assertEqual(self.status(old), 401)

        given[0] = None
        self.assertEqual(self.reload(node).status, 200)
        harness.wait_until(lambda: self.metric(node, "kvasir_jwks_failures_total") > 0,
                           "a failure is counted")
        self.assertEqual(self.status(two.token()), 200, "the last good keys stay")
        self.assertEqual(self.metric(node, "kvasir_jwks_keys"), 1)

    def test_a_server_by_another_authority_is_not_believed(self):
        self.certs = certs.Certs(type(self))
        provider = FakeWorker(self, lambda peer, _: peer.answer(200, self.set_of(self.one).encode()),
                              tls=self.certs.of_server("one"))
        authorities = self.folder / "authorities.pem"
        shutil.copy(self.certs.path("stranger.pem"), authorities)
        node = self.serve_tokens("--jwt.ca_file", authorities, jwks=f"{provider.url}/keys")
        harness.wait_until(lambda: self.metric(node, "kvasir_jwks_failures_total") > 0,
                           "the fetch fails")
        self.assertEqual(provider.requests, [])
        token = self.one.token()
        self.assertEqual(self.status(token), 503, "nobody knows yet whether it is good")
        # They may be exchanged.
        shutil.copy(self.certs.path("ca.pem"), authorities)
        self.assertEqual(self.reload(node).status, 200)
        harness.wait_until(lambda: self.status(token) == 200, "the keys are fetched")

    def test_what_cannot_work_is_a_fault_of_the_configuration(self):
        self.write(self.one)
        for more, word in ((["--jwt.jwks", self.jwks], "wants keys.file"),
                           (["--jwt.jwks", "http://id.example/k", "--keys.file", self.keys],
                            "expected a file, or https://"),
                           (["--jwt.jwks", "/dev/zero", "--keys.file", self.keys],
                            "is no regular file"),
                           (["--keys.file", self.keys], "has no key")):
            told = self.run_once("kvasir", "check", "--worker", "http://a:1", *map(str, more))
            self.assertEqual(told.returncode, 2, told.stderr)
            self.assertIn(word, told.stderr)
        told = self.run_once("kvasir", "check", "--worker", "http://a:1", "--keys.file",
                             str(self.keys), "--jwt.jwks", str(self.jwks))
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("warning: jwt.audience", told.stderr)


@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class Everywhere(MeshCase):
    def test_a_token_is_good_on_each_node(self):
        one = Signer(self.folder, "one")
        (self.folder / "keys.yaml").write_text("tenants:\n  shop:\n")
        (self.folder / "jwks.json").write_text(Tokens.set_of(one))
        worker = FakeWorker(self, echo)
        nodes = self.three("--worker", worker.url, "--keys.file", self.folder / "keys.yaml",
                           "--jwt.jwks", self.folder / "jwks.json")
        headers = {"authorization": f"Bearer {one.token()}"}
        for node in nodes:
            harness.wait_until(lambda node=node: harness.request(
                node.at("serve"), "POST", CHAT, chat(), headers).status == 200, "it is let in")
            self.assertEqual(harness.request(node.at("serve"), "POST", CHAT, chat()).status, 401)


if __name__ == "__main__":
    harness.main()
