"""A real API server of Kubernetes: engines found by their EndpointSlices, a StatefulSet
scaled, and whether it takes the objects of deploy/kubernetes as they are. There are no
controllers and no kubelet: the tests make slices and start what pods would be."""
import pathlib
import threading
import unittest
import urllib.error

import builds
import certs
import harness
from cluster import API, PORT, SETS, SLICES, Cluster
from fake_worker import FakeWorker
from test_scale_act import ENGINE, Load
from test_sources import NEVER, echo

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
HOSTS = [f"192.0.2.{n}" for n in range(2, 9)]
POD = "192.0.2.1{}"  # by its number
LABELS = {"app": "vllm", "tier": "gpu"}
FROM = "kube:ml:app=vllm+tier=gpu:http"
# As deploy/features.md has them.
FIND = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
        "verbs": ["get", "list", "watch"]}
SCALE = {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get", "update"]}


def setUpModule():
    if not certs.FOUND:
        raise unittest.SkipTest("no openssl command on this machine")
    Kubernetes.cluster = Objects.cluster = Cluster()
    Kubernetes.cluster.make("/api/v1/namespaces", {"metadata": {"name": "ml"}})


class Kubernetes(harness.Case):
    cluster = None

    def tearDown(self):
        self.cluster.call("DELETE", SLICES)

    def begin(self, account, *flags, source=FROM):
        """As a pod of that account."""
        return self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--kubernetes.dir", account, "--worker", source, *flags,
            env={"KUBERNETES_SERVICE_HOST": API[0], "KUBERNETES_SERVICE_PORT": str(API[1])})

    def states(self, node):
        return {w["id"]: w["state"] for w in
                harness.request(node.at("admin"), "GET", "/admin/workers").json()}

    def source(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/status").json()[
            "worker_sources"][0]

    def has(self, node, hosts, **others):
        wanted = {f"{host}:{PORT}": "healthy" for host in hosts} | others
        harness.wait_until(lambda: self.states(node) == wanted, f"workers are {wanted}")

    def engines(self, hosts):
        return {host: FakeWorker(self, echo, host=host, port=PORT) for host in hosts}

    def test_ready_endpoints_are_workers_and_a_watch_tells_of_changes(self):
        cluster = self.cluster
        self.engines(HOSTS[:3])
        cluster.slice("a", HOSTS[:2], LABELS)
        cluster.slice("b", HOSTS[2:3], LABELS)
        cluster.slice("other", HOSTS[3:4], {"app": "vllm"})
        node = self.begin(cluster.account("finder", FIND), *NEVER)  # the rest is the watch's doing
        self.has(node, HOSTS[:3])
        cluster.slice("a", HOSTS[:2], LABELS, ready=False, serving=True, terminating=True)
        harness.wait_until(lambda: list(self.states(node).values()).count("drained") == 2,
                           "who ends is drained")
        cluster.slice("a", HOSTS[:2], LABELS)
        self.has(node, HOSTS[:3])
        cluster.call("DELETE", f"{SLICES}/b")
        harness.wait_until(lambda: self.states(node)[f"{HOSTS[2]}:{PORT}"] == "drained",
                           "a slice that is gone names nobody")
        self.assertEqual(len(cluster.asked("finder", "list")), 4, "one for each change")
        self.assertEqual(harness.request(node.at("serve"), "POST", "/v1/chat/completions", {
            "model": "m", "messages": [{"role": "user", "content": "hello"}]}).status, 200)

    def test_a_watch_that_the_server_ends_goes_on_where_it_was(self):
        """Takes the two minutes that a watch lasts."""
        cluster = self.cluster
        self.engines(HOSTS[:2])
        cluster.slice("a", HOSTS[:1], LABELS)
        node = self.begin(cluster.account("stayer", FIND), "--workers.resolve", "1s")
        self.has(node, HOSTS[:1])
        harness.wait_until(lambda: len(cluster.asked("stayer", "watch")) == 2, "it is resumed",
                           timeout_s=300)
        self.assertEqual(len(cluster.asked("stayer", "list")), 1)
        cluster.slice("a", HOSTS[:2], LABELS)
        self.has(node, HOSTS[:2])
        self.assertEqual(len(cluster.asked("stayer", "list")), 2)

    def test_a_server_that_is_gone_changes_nothing_and_is_heard_again(self):
        cluster = self.cluster
        self.engines(HOSTS[:3])
        cluster.slice("a", HOSTS[:2], LABELS)
        node = self.begin(cluster.account("patient", FIND), "--workers.resolve", "200ms")
        self.has(node, HOSTS[:2])
        for stop, before, after in ((cluster.api.kill, HOSTS[:2], HOSTS[1:3]),
                                    (cluster.api.end, HOSTS[1:3], HOSTS[:1])):
            stop()
            harness.wait_until(lambda: self.source(node)["state"] == "failed", "it is gone")
            self.has(node, before)
            cluster.begin()
            harness.wait_until(lambda: self.source(node)["state"] == "good", "it is back")
            self.has(node, before)
            cluster.slice("a", after, LABELS)
            self.has(node, after)

    def test_what_an_account_may_not_is_told(self):
        cluster = self.cluster
        self.engines(HOSTS[:1])
        cluster.slice("a", HOSTS[:1], LABELS)
        place = cluster.account("stranger")
        node = self.begin(place, "--workers.resolve", "200ms")
        harness.wait_until(lambda: "may not list" in self.source(node)["why"], "403")
        (place / "token").write_text("nonsense")
        harness.wait_until(lambda: "does not know the token" in self.source(node)["why"], "401")
        cluster.account("stranger", FIND)  # a new token, as the kubelet writes it
        self.has(node, HOSTS[:1])

    def test_many_slices_are_read_whole(self):
        cluster = self.cluster
        self.engines(HOSTS[:4])
        for number in range(60):
            cluster.slice(f"empty-{number}", [], LABELS)
        for number, host in enumerate(HOSTS[:4]):
            cluster.slice(f"full-{number}", [host], LABELS)
        self.has(self.begin(cluster.account("reader", FIND)), HOSTS[:4])

    def test_a_stateful_set_is_scaled_by_its_rules_alone(self):
        cluster, load = self.cluster, Load(self)
        account = cluster.account("scaler", SCALE)
        cluster.make(SETS, {
            "metadata": {"name": "vllm"}, "spec": {
                "serviceName": "vllm", "replicas": 0, "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": {
                    "containers": [{"name": "vllm", "image": "vllm"}]}}}})
        over, history, pods = threading.Event(), [0], []

        def control():
            """As its controller and a kubelet: pods come and go one after the other."""
            while not over.is_set():
                wanted = cluster.call("GET", f"{SETS}/vllm")["spec"]["replicas"]
                if wanted != history[-1]:
                    history.append(wanted)
                while len(pods) > wanted:
                    pods.pop().kill()
                while len(pods) < wanted:
                    pods.append(self.spawn("kvasir-engine", "--host", POD.format(len(pods)),
                                           "--port", str(PORT), *ENGINE))
                found = cluster.call("GET", f"{SETS}/vllm")
                if found.get("status", {}).get("replicas") != len(pods):
                    found["status"] = {"replicas": len(pods)}
                    try:
                        cluster.call("PUT", f"{SETS}/vllm/status", found)
                    except urllib.error.HTTPError:
                        pass  # it was changed in between
                over.wait(0.1)

        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        controller = threading.Thread(target=control)
        self.addCleanup(controller.join)
        self.addCleanup(over.set)
        controller.start()
        node = self.start(
            "kvasir", "serve", "--name", "n", "--worker", first.url("http"),
            "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--lanes", "1",
            "--workers.max_inflight", "4", "--health.interval", "200ms",
            "--health.timeout", "200ms", "--health.metrics_interval", "50ms",
            "--scale.mode", "act", "--scale.max", "3", "--scale.cool_down", "1s",
            "--scale.kubernetes", "vllm", "--scale.worker", f"http://{POD}:{PORT}",
            "--scale.provision", "2m",
            "--kubernetes.dir", account,
            env={"KUBERNETES_SERVICE_HOST": API[0], "KUBERNETES_SERVICE_PORT": str(API[1])})
        load.nodes.append(node)
        load.want(12)
        harness.wait_until(lambda: history[-1] == 2, "it asks for two")
        load.want(0)
        harness.wait_until(lambda: history[-1] == 0, "and gives both back")
        load.end()
        self.assertEqual(load.failed, [])
        self.assertEqual((history[0], max(history), history[-1]), (0, 2, 0))
        self.assertEqual({line["responseStatus"]["code"] for verb in ("get", "update")
                          for line in cluster.asked("scaler", verb)} - {409}, {200})


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Objects(unittest.TestCase):
    """Ours, made strictly, in a namespace where pods have to be restricted."""
    cluster = None

    @classmethod
    def setUpClass(cls):
        word = "pod-security.kubernetes.io/"
        cls.cluster.make("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": {
            word + "enforce": "restricted", word + "warn": "restricted"}}})
        # As a controller would.
        cls.cluster.make("/api/v1/namespaces/strict/serviceaccounts",
                         {"metadata": {"name": "default"}})
        for path in builds.definitions():
            cls.cluster.define(yaml.safe_load(path.read_text()))

    def take(self, made):
        """As the server has it, which has nothing to warn of."""
        version, plural = made["apiVersion"], made["kind"].lower() + "s"
        group = f"apis/{version}" if "/" in version else f"api/{version}"
        plural = plural.removesuffix("ys") + "ies" if plural.endswith("ys") else plural
        got = self.cluster.call(
            "POST", f"/{group}/namespaces/strict/{plural}?fieldValidation=Strict", made)
        self.assertEqual(self.cluster.warnings, [], made)
        return got

    def take_folder(self, name):
        """All resources of the folder, by their kinds."""
        folder, kinds = DEPLOY / "kubernetes" / name, {}
        for resource in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
            if resource.endswith(".yaml"):
                for made in yaml.safe_load_all((folder / resource).read_text()):
                    kinds.setdefault(made["kind"], []).append(self.take(made))
        return kinds

    def test_the_base_and_its_pods_are_taken(self):
        kinds = self.take_folder("base")
        self.assertEqual({kind: len(made) for kind, made in kinds.items()}, {
            "StatefulSet": 1, "Service": 2, "PodDisruptionBudget": 1, "NetworkPolicy": 1})
        found, = kinds["StatefulSet"]
        pod = found["spec"]["template"]["spec"]
        pod["volumes"].append({"name": "data", "emptyDir": {}})  # in place of the claim
        self.take({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kvasir-0"},
                   "spec": pod})
        claim, = found["spec"]["volumeClaimTemplates"]
        self.take({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                   "metadata": {"name": "data-kvasir-0"}, "spec": claim["spec"]})

    def test_a_gateway_s_objects_are_taken(self):
        kinds = self.take_folder("gateway")
        self.assertEqual(set(kinds), {"Service", "InferencePool", "HTTPRoute", "NetworkPolicy",
                                      "ServiceAccount", "Role", "RoleBinding"})
        nodes = yaml.safe_load((DEPLOY / "kubernetes/base/statefulset.yaml").read_text())
        nodes["metadata"]["name"] = "pickers"
        self.take(nodes)
        patch = yaml.safe_load((DEPLOY / "kubernetes/gateway/nodes.yaml").read_text())
        patch["metadata"]["name"] = "pickers"
        made = self.cluster.call(
            "PATCH", "/apis/apps/v1/namespaces/strict/statefulsets/pickers?fieldValidation=Strict",
            patch, form="strategic-merge-patch+json")
        self.assertEqual(self.cluster.warnings, [])
        pod = made["spec"]["template"]["spec"]
        self.assertEqual({port["name"] for port in pod["containers"][0]["ports"]},
                         {"serve", "metrics", "mesh", "picker"})
        for verb, resource, allowed in (("list", "endpointslices", True),
                                        ("watch", "endpointslices", True),
                                        ("update", "endpointslices", False),
                                        ("list", "secrets", False)):
            group = "discovery.k8s.io" if resource == "endpointslices" else ""
            told = self.cluster.call(
                "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {
                    "user": f"system:serviceaccount:strict:{pod['serviceAccountName']}",
                    "resourceAttributes": {"namespace": "strict", "verb": verb, "group": group,
                                           "resource": resource}}})
            self.assertEqual(told["status"]["allowed"], allowed, (verb, resource))

    def test_what_prometheus_operator_reads_is_taken(self):
        self.assertEqual(set(self.take_folder("monitored")), {"PodMonitor"})
        self.take({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
                   "metadata": {"name": "kvasir"}, "spec": yaml.safe_load(
                       (DEPLOY / "prometheus" / "alerts.yaml").read_text())})

    def test_a_field_that_is_unknown_is_refused(self):
        """So what the others say is worth something."""
        for made in ({"apiVersion": "v1", "kind": "Service"},
                     {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}):
            with self.assertRaisesRegex(urllib.error.HTTPError, "400"):
                self.take({**made, "metadata": {"name": "x"}, "spec": {"nonsense": 1}})
