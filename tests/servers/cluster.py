"""A control plane of Kubernetes without controllers: etcd and kube-apiserver."""
import json
import pathlib
import ssl
import tempfile
import unittest
import urllib.error
import urllib.request

import builds
import certs
import harness
from program import Program

API, ETCD = ("192.0.2.1", 6443), "http://127.0.0.1:2379"
SPACE, PORT = "ml", 8000
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices"
SETS = f"/apis/apps/v1/namespaces/{SPACE}/statefulsets"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{SPACE}"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


class Cluster:
    """For the tests of a module. `call` is by its administrator."""

    def __init__(self):
        folder = self.temporary()
        self.folder, self.keys = folder, certs.Certs(self)
        self.warnings = []  # of the last answer
        self.keys.signed("api", f"IP:{API[0]},IP:127.0.0.1,DNS:localhost")
        self.keys.openssl("genrsa", "-out", "account.key", "2048")
        (folder / "tokens.csv").write_text("root-token,root,0,system:masters\n")
        (folder / "audit.yaml").write_text(json.dumps(AUDIT))
        self.audit = folder / "audit.jsonl"
        self.context = ssl.create_default_context(cafile=self.keys.path("ca.pem"))
        programs = builds.kubernetes()
        self.etcd = Program(self, "etcd", [
            programs / "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", ETCD,
            "--advertise-client-urls", ETCD, "--listen-peer-urls", "http://127.0.0.1:2380",
            "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
            "--initial-cluster", "default=http://127.0.0.1:2380"])
        self.api = Program(self, "kube-apiserver", [
            programs / "kube-apiserver", "--etcd-servers", ETCD,
            "--advertise-address", API[0], "--secure-port", API[1],
            "--service-cluster-ip-range", "198.51.100.0/24",
            "--tls-cert-file", self.keys.path("api.pem"),
            "--tls-private-key-file", self.keys.path("api.key"),
            "--token-auth-file", folder / "tokens.csv", "--authorization-mode", "RBAC",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", self.keys.path("account.key"),
            "--service-account-signing-key-file", self.keys.path("account.key"),
            "--audit-policy-file", folder / "audit.yaml", "--audit-log-path", self.audit])
        self.etcd.begin(lambda: urllib.request.urlopen(ETCD + "/health").status == 200)
        self.begin()

    @staticmethod
    def addCleanup(*args):
        unittest.addModuleCleanup(*args)

    addClassCleanup = addCleanup

    def temporary(self):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-kubernetes-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def begin(self):
        self.api.begin(lambda: self.call("GET", "/readyz", raw=True) == b"ok")

    def call(self, method, path, body=None, raw=False, form="json"):
        asked = urllib.request.Request(
            f"https://{API[0]}:{API[1]}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": "Bearer root-token", "content-type": f"application/{form}"})
        with urllib.request.urlopen(asked, context=self.context,
                                    timeout=harness.IO_TIMEOUT_S) as answer:
            self.warnings = answer.headers.get_all("warning") or []
            said = answer.read()
        return said if raw else json.loads(said)

    def make(self, path, body):
        """Made, or changed to be so."""
        name = body["metadata"]["name"]
        try:
            return self.call("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        found = self.call("GET", f"{path}/{name}")
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        return self.call("PUT", f"{path}/{name}", body)

    def define(self, resource):
        """Takes the definition of a custom resource, and waits until it is served."""
        kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = self.make(kinds, resource)["metadata"]["name"]
        harness.wait_until(lambda: any(
            found["type"] == "Established" and found["status"] == "True"
            for found in self.call("GET", f"{kinds}/{name}")["status"]["conditions"] or []),
            f"{name} is established")

    def account(self, name, *rules):
        """A folder as a pod has it, of a service account with these rules."""
        self.make(f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": name}})
        self.make(f"{ROLES}/roles", {"metadata": {"name": name}, "rules": list(rules)})
        self.make(f"{ROLES}/rolebindings", {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SPACE}]})
        token = self.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/{name}/token", {
            "spec": {"expirationSeconds": 3600}})["status"]["token"]
        place = self.folder / name
        place.mkdir(exist_ok=True)
        (place / "token").write_text(token)
        (place / "namespace").write_text(SPACE)
        (place / "ca.crt").write_text(pathlib.Path(self.keys.path("ca.pem")).read_text())
        return place

    def slice(self, name, addresses, labels, **conditions):
        return self.make(SLICES, {
            "metadata": {"name": name, "labels": labels}, "addressType": "IPv4",
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True, **conditions}}
                          for address in addresses]})

    def asked(self, account, verb):
        """Requests of an account with that verb, by the server's log: each with its last stage."""
        user = f"system:serviceaccount:{SPACE}:{account}"
        lines = self.audit.read_text().rpartition("\n")[0].splitlines()
        return list({line["auditID"]: line for line in map(json.loads, lines)
                     if line["user"].get("username") == user and line["verb"] == verb
                     and line["stage"] != "RequestReceived"}.values())
