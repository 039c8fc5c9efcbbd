"""The Helm chart: what it renders is what the Kustomize base says, but for its values.
Nothing is installed: helm alone renders, and the program reads what it would be given."""
import json
import pathlib
import re
import shutil
import subprocess
import unittest

import certs
import harness

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm"
KUBERNETES = ROOT / "deploy" / "kubernetes"
needs_yaml = unittest.skipUnless(yaml, "python3-yaml is not installed")


def load(path):
    return yaml.safe_load(path.read_text())


def based(name):
    """The objects that this folder's kustomization.yaml names, without the generated."""
    folder = KUBERNETES / name
    found = {}
    for resource in load(folder / "kustomization.yaml")["resources"]:
        if resource.endswith(".yaml"):
            for made in yaml.safe_load_all((folder / resource).read_text()):
                found[made["kind"], made["metadata"]["name"]] = made
    return found


@needs_yaml
class Files(unittest.TestCase):
    def test_each_file_that_a_template_reads_is_in_the_chart(self):
        read = [name for path in (CHART / "templates").iterdir()
                for name in re.findall(r'\.Files\.Get "([^"]+)"', path.read_text())]
        for name in read:
            self.assertTrue((CHART / name).is_file(), name)
        wanted = [f"{folder}/{resource}" for folder in ("base", "monitored", "gateway")
                  for resource in load(KUBERNETES / folder / "kustomization.yaml")["resources"]
                  if resource.endswith(".yaml")]
        self.assertEqual(set(read), {*wanted, "base/kvasir.yaml", "gateway/nodes.yaml",
                                     "alerts.yaml"})

    def test_it_has_the_version_of_the_program_and_of_the_base(self):
        version = re.search(r"version: '(.+)'", (ROOT / "meson.build").read_text())[1]
        chart = load(CHART / "Chart.yaml")
        image, = load(KUBERNETES / "base" / "kustomization.yaml")["images"]
        self.assertEqual([chart["version"], chart["appVersion"], image["newTag"]],
                         [version] * 3)

    def test_the_schema_has_each_value(self):
        def compare(values, schema):
            for name, value in values.items():
                self.assertIn(name, schema["properties"])
                if value and "properties" in schema["properties"][name]:
                    compare(value, schema["properties"][name])
        compare(load(CHART / "values.yaml"), json.loads((CHART / "values.schema.json").read_text()))


@needs_yaml
@unittest.skipUnless(shutil.which("helm"), "helm is not installed, so the chart was not rendered")
class Rendered(harness.Case):
    def helm(self, values):
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        return subprocess.run(["helm", "template", "any", CHART, "-f", file], timeout=60,
                              capture_output=True, text=True, check=False)

    def render(self, **values):
        """The objects by kind and name, and the configuration's text."""
        told = self.helm(values)
        self.assertEqual(told.returncode, 0, told.stderr)
        objects = {}
        for made in yaml.safe_load_all(told.stdout):
            if made is not None:
                key = made["kind"], made["metadata"]["name"]
                self.assertNotIn(key, objects)
                objects[key] = made
        return objects, objects.pop(("ConfigMap", "kvasir"))["data"]["kvasir.yaml"]

    def test_without_values_it_is_the_base(self):
        objects, config = self.render()
        expected = based("base")
        self.assertEqual(yaml.safe_load(config), load(KUBERNETES / "base" / "kvasir.yaml"))
        template = expected["StatefulSet", "kvasir"]["spec"]["template"]
        image, = load(KUBERNETES / "base" / "kustomization.yaml")["images"]
        container, = template["spec"]["containers"]
        self.assertEqual(container["image"], image["name"])
        container["image"] = f"{image['name']}:{image['newTag']}"
        # In place of the hash in the name of Kustomize's ConfigMap.
        made = objects["StatefulSet", "kvasir"]["spec"]["template"]["metadata"]
        self.assertRegex(made.pop("annotations")["checksum/config"], "^[0-9a-f]{64}$")
        self.assertEqual(objects, expected)

    def test_monitoring_is_the_base_s_monitor_and_the_rules_for_prometheus(self):
        objects, _ = self.render(monitoring={"enabled": True, "namespace": "watch",
                                             "labels": {"release": "prometheus"}})
        labels = {"app.kubernetes.io/name": "kvasir", "release": "prometheus"}
        monitor = based("monitored")["PodMonitor", "kvasir"]
        monitor["metadata"]["labels"] = labels
        self.assertEqual(objects["PodMonitor", "kvasir"], monitor)
        rule = objects["PrometheusRule", "kvasir"]
        self.assertEqual(rule["spec"], load(ROOT / "deploy" / "prometheus" / "alerts.yaml"))
        self.assertEqual(rule["metadata"]["labels"], labels)
        policy = based("base")["NetworkPolicy", "kvasir"]
        policy["spec"]["ingress"][2]["from"] = [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watch"}}}]
        self.assertEqual(objects["NetworkPolicy", "kvasir"], policy)

    def test_a_gateway_s_objects_and_pods_are_those_of_its_folder(self):
        objects, _ = self.render(gateway={"enabled": True})
        expected = based("base") | based("gateway")
        pod = expected["StatefulSet", "kvasir"]["spec"]["template"]["spec"]
        patch = load(KUBERNETES / "gateway" / "nodes.yaml")["spec"]["template"]["spec"]
        added, = patch.pop("containers")
        pod.update(patch)
        container, = pod["containers"]
        container["env"] += added["env"]
        container["ports"] += added["ports"]
        made = objects["StatefulSet", "kvasir"]["spec"]["template"]
        del made["metadata"]["annotations"]
        container["image"] = made["spec"]["containers"][0]["image"]
        self.assertEqual(objects, expected)

    def test_a_gateway_is_told_whom_to_ask_and_nodes_see_its_engines(self):
        parents = [{"name": "public", "namespace": "edge"}]
        engines = {"tier": "gpu", "app": "vllm"}
        given = {"enabled": True, "parents": parents, "namespace": "edge", "engines": engines,
                 "port": 8001}
        objects, _ = self.render(gateway=given)
        pool = objects["InferencePool", "engines"]["spec"]
        self.assertEqual(pool["selector"], {"matchLabels": engines})
        self.assertEqual(pool["targetPorts"], [{"number": 8001}])
        self.assertEqual(objects["HTTPRoute", "engines"]["spec"]["parentRefs"], parents)
        rule, = objects["NetworkPolicy", "kvasir-picker"]["spec"]["ingress"]
        self.assertEqual(rule["from"], [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "edge"}}}])

        def env(objects):
            container, = objects["StatefulSet", "kvasir"]["spec"]["template"]["spec"]["containers"]
            return {row["name"]: row.get("value") for row in container["env"]}
        before, = (row["value"] for row in load(KUBERNETES / "gateway" / "nodes.yaml")["spec"][
            "template"]["spec"]["containers"][0]["env"] if row["name"] == "KVASIR_WORKERS")
        self.assertEqual(env(objects)["KVASIR_WORKERS"],
                         before.replace("app=engine:8000", "app=vllm+tier=gpu:8001"))
        objects, _ = self.render(gateway=given, config={"workers": [{"url": "http://10.0.0.9:1"}]})
        self.assertIn("KVASIR_EXTPROC_LISTEN", env(objects))
        self.assertNotIn("KVASIR_WORKERS", env(objects), "those of the configuration count")

    def test_values_reach_the_pod(self):
        resources = {"limits": {"memory": "12Gi"}}
        changed, _ = self.render(
            image={"repository": "registry.example/kvasir", "tag": "1.2.3"}, replicas=5,
            resources=resources, storage={"size": "9Gi", "className": "local"},
            pod={"nodeSelector": {"pool": "cpu"}, "terminationGracePeriodSeconds": 900,
                 "automountServiceAccountToken": True, "serviceAccountName": "kvasir"})
        expected = based("base")["StatefulSet", "kvasir"]["spec"]
        made = changed["StatefulSet", "kvasir"]["spec"]
        del made["template"]["metadata"]["annotations"]
        expected["replicas"] = 5
        pod = expected["template"]["spec"]
        pod["containers"][0].update(image="registry.example/kvasir:1.2.3", resources=resources)
        pod.update(nodeSelector={"pool": "cpu"}, terminationGracePeriodSeconds=900,
                   automountServiceAccountToken=True, serviceAccountName="kvasir")
        claim = expected["volumeClaimTemplates"][0]["spec"]
        claim["storageClassName"] = "local"
        claim["resources"]["requests"]["storage"] = "9Gi"
        self.assertEqual(made, expected)

    def test_a_changed_configuration_is_laid_over_and_replaces_the_nodes(self):
        def hashed(objects):
            return objects["StatefulSet", "kvasir"]["spec"]["template"]["metadata"]["annotations"]
        before, _ = self.render()
        worker = {"url": "http://10.0.0.9:8000"}
        after, config = self.render(config={"timeouts": {"drain": "1m", "lame_duck": 0},
                                            "workers": [worker]})
        self.assertNotEqual(hashed(before), hashed(after))
        expected = load(KUBERNETES / "base" / "kvasir.yaml")
        expected["timeouts"] = {"drain": "1m", "lame_duck": 0}
        expected["workers"] = [worker]
        self.assertEqual(yaml.safe_load(config), expected)

    def test_probes_speak_what_their_port_does(self):
        def schemes(**tls):
            objects, _ = self.render(config={"tls": {"cert_file": "c", "key_file": "k", **tls}})
            pod = objects["StatefulSet", "kvasir"]["spec"]["template"]["spec"]
            return [pod["containers"][0][probe]["httpGet"].get("scheme")
                    for probe in ("readinessProbe", "startupProbe", "livenessProbe")]
        for admin in True, "on":
            self.assertEqual(schemes(admin=admin), ["HTTPS"] * 3)
        for tls in {}, {"admin": False}, {"admin": "off"}:
            self.assertEqual(schemes(**tls), [None] * 3)

    @unittest.skipUnless(certs.FOUND, "openssl is not installed")
    def test_with_an_issuer_nodes_talk_in_tls_by_the_certificate_of_that_secret(self):
        issuer = {"name": "mesh", "kind": "Issuer"}
        objects, config = self.render(meshIssuer=issuer)
        certificate = objects["Certificate", "kvasir-mesh"]["spec"]
        self.assertEqual(certificate["issuerRef"], issuer)
        pod = objects["StatefulSet", "kvasir"]["spec"]["template"]["spec"]
        volume, = (row for row in pod["volumes"] if row["name"] == "mesh")
        self.assertEqual(volume["secret"]["secretName"], certificate["secretName"])
        mounted, = (row["mountPath"] for row in pod["containers"][0]["volumeMounts"]
                    if row["name"] == "mesh")
        mesh = yaml.safe_load(config)["mesh"]
        # The names of a Secret's entries are cert-manager's.
        self.assertEqual([mesh["tls_ca"], mesh["tls_cert"], mesh["tls_key"]],
                         [f"{mounted}/{name}" for name in ("ca.crt", "tls.crt", "tls.key")])
        self.assertEqual([mesh["tls_server_name"]], certificate["dnsNames"])
        made = certs.Certs(type(self))
        made.signed("node", f"DNS:{certificate['dnsNames'][0]}")
        for key, name in (("tls_ca", "ca.pem"), ("tls_cert", "node.pem"), ("tls_key", "node.key")):
            config = config.replace(mesh[key], made.path(name))
        file = self.folder / "kvasir.yaml"
        file.write_text(config)
        told = self.run_once("kvasir", "check", "-c", file, "--name", "kvasir-0",
                             "--mesh.listen", "10.0.0.1:7946")
        self.assertEqual((told.returncode, told.stderr), (0, ""))

    def test_what_is_no_value_is_refused(self):
        for values in ({"replica": 3}, {"monitoring": {"enable": True}}, {"replicas": 0},
                       {"pod": {"containers": []}}, {"meshIssuer": {"kind": "Issuer"}},
                       {"gateway": {"port": 0}}, {"gateway": {"parents": []}}):
            told = self.helm(values)
            self.assertNotEqual(told.returncode, 0, values)
            self.assertIn("values don't meet the specifications of the schema", told.stderr)


if __name__ == "__main__":
    harness.main()
