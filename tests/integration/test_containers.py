"""Images, compose and Kubernetes, as far as a machine without containers goes: what they
say is held against the program's own words, and engines and nodes run by their arguments."""
import json
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "deploy" / "containers"
KUBERNETES = ROOT / "deploy" / "kubernetes"
PROGRAMS = ["kvasir", "kvasir-engine", "kvasir-load", "kvasir-plan", "kvasir-replay",
            "kvasir-wide"]
COMPILERS_OWN = {"libasan8", "libubsan1", "libtsan2", "libgcc-s1", "libc6", "libstdc++6"}
DEBIAN_VERSION = pathlib.Path("/etc/debian_version")
DEBIAN = DEBIAN_VERSION.read_text() if DEBIAN_VERSION.exists() else ""
needs_yaml = unittest.skipUnless(yaml, "python3-yaml is not installed")


def durations(printed, *names):
    """Seconds of these keys of `kvasir check`'s page."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    found = [re.search(rf"(?m)^  {name}: (\d+)(ms|s|m|h)$", printed) for name in names]
    return [int(match[1]) * units[match[2]] for match in found]


class Image(unittest.TestCase):
    text = (CONTAINERS / "Containerfile").read_text()

    def test_what_is_copied_is_there_and_builds_need_no_more(self):
        copied = re.findall(r"(?m)^COPY (?!--)(\S+) ", self.text)
        for name in copied:
            self.assertTrue((ROOT / name).exists(), name)
        subdirs = re.findall(r"(?m)^subdir\('(\w+)'\)", (ROOT / "meson.build").read_text())
        self.assertEqual(set(subdirs) - set(copied), {"tests"})

    def test_a_debian_package_wants_what_is_installed_to_build(self):
        """Two lists of the same libraries: deploy/packages, and what dpkg-buildpackage wants."""
        control = (ROOT / "deploy" / "debian" / "control").read_text()
        wanted = re.search(r"(?ms)^Build-Depends: (.+?)^\S", control)[1]
        installed = re.search(r'(?m)^build="(.+)"$', (ROOT / "deploy" / "packages").read_text())[1]
        self.assertEqual({name for name in re.findall(r"[\w-]+-dev\b", wanted)},
                         {name for name in installed.split() if name.endswith("-dev")}
                         - {"libc6-dev"})

    @unittest.skipUnless(shutil.which("readelf") and DEBIAN.startswith("12."),
                         "packages of other systems than Debian 12 have other names")
    def test_the_image_has_the_libraries_that_the_programs_need(self):
        listed = set(re.search(r"no-install-recommends \\\n([^&]+)&&", self.text)[1]
                     .replace("\\", "").split()) - {"ca-certificates"}
        loaded = subprocess.run(["readelf", "-d", *map(harness.program, PROGRAMS)], timeout=60,
                                capture_output=True, text=True, check=True).stdout
        libraries = sorted(set(re.findall(r"\(NEEDED\).*\[(.+)\]", loaded)))
        owners = subprocess.run(["dpkg", "-S", *(f"*-linux-gnu/{name}" for name in libraries)],
                                capture_output=True, text=True, check=False, timeout=300).stdout
        for library in libraries:
            self.assertIn(f"/{library}\n", owners, "no package has it")
        wanted = {line.partition(":")[0] for line in owners.splitlines()}
        self.assertEqual(wanted - COMPILERS_OWN - listed, set(), "are needed, and not installed")
        self.assertEqual(listed - wanted, set(), "are installed, and not needed")


@needs_yaml
class Compose(harness.Case):
    def setUp(self):
        super().setUp()
        self.compose = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
        self.services = self.compose["services"]
        self.nodes = {name: service for name, service in self.services.items()
                      if service.get("command", [""])[0] == "serve"}
        self.engines = {name: service for name, service in self.services.items()
                        if service.get("command", [""])[0] == "engine"}
        self.assertEqual((len(self.nodes), len(self.engines)), (3, 4))

    def test_nodes_accept_their_arguments_and_know_all_engines(self):
        for name, node in self.nodes.items():
            told = self.run_once("kvasir", "check", *node["command"][1:],
                                 env=node["environment"])
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            self.assertIn(f'name: "{name}"\n', told.stdout)
            address = node["networks"]["mesh"]["ipv4_address"]
            self.assertIn(f'  listen: "{address}:7946"\n', told.stdout)
            join = re.search(r'  join: "dns:(\S+):7946"', told.stdout)[1]
            self.assertIn(join, node["networks"]["mesh"]["aliases"])
            for key, port in (("url", 8000), ("events", 5557), ("replay", 5657)):
                hosts = re.findall(rf'\b{key}: "\w+://(\S+):{port}"', told.stdout)
                self.assertEqual(sorted(hosts), sorted(self.engines))
            grace = int(node["stop_grace_period"].rstrip("s"))
            self.assertGreaterEqual(grace, sum(durations(told.stdout, "lame_duck", "drain")))

    def test_engines_run_by_their_arguments(self):
        words = next(iter(self.engines.values()))["command"][1:]
        self.assertTrue(all(engine["command"][1:] == words for engine in self.engines.values()))
        # Its ports are those of a network of its own; here they are free ones.
        here = [re.sub(r"(:?)\b(8000|5557|5657)$", r"\g<1>0", word) for word in words]
        here = [word.replace("0.0.0.0", "127.0.0.1") for word in here]
        engine = self.start("kvasir-engine", *here)
        self.assertEqual(set(engine.ready), {"http", "events", "replay"})

    def test_prometheus_scrapes_all_of_them(self):
        jobs = yaml.safe_load((CONTAINERS / "prometheus.yaml").read_text())["scrape_configs"]
        targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
        self.assertEqual(targets, {"kvasir": [f"{name}:9090" for name in self.nodes],
                                   "engines": [f"{name}:8000" for name in self.engines]})
        self.assertEqual({node["environment"]["KVASIR_ADMIN_METRICS"]
                          for node in self.nodes.values()}, {"0.0.0.0:9090"})

    def test_grafana_asks_prometheus_and_begins_with_the_dashboard(self):
        grafana = self.services["grafana"]
        mounted = {}
        for row in (row for service in (grafana, self.services["prometheus"])
                    for row in service["volumes"]):
            here, there, how = row.split(":")
            self.assertTrue((CONTAINERS / here).is_file(), row)
            self.assertEqual(how, "ro")
            mounted[there] = CONTAINERS / here
        home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        dashboard = json.loads(mounted[home].read_text())
        folder = "/etc/grafana/provisioning"
        provider, = yaml.safe_load(mounted[f"{folder}/dashboards/kvasir.yaml"].read_text())[
            "providers"]
        self.assertEqual(provider["options"]["path"], str(pathlib.Path(home).parent))
        source, = yaml.safe_load(mounted[f"{folder}/datasources/kvasir.yaml"].read_text())[
            "datasources"]
        asked, = (row["query"] for row in dashboard["templating"]["list"]
                  if row["type"] == "datasource")
        self.assertEqual((source["type"], source["isDefault"]), (asked, True))
        name, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()
        self.assertEqual(self.services[name]["ports"], [f"9091:{port}"])
        self.assertEqual(self.services[name]["networks"], grafana["networks"])


@needs_yaml
class Kubernetes(harness.Case):
    def setUp(self):
        super().setUp()
        self.objects = {}
        for path in sorted([*KUBERNETES.glob("base/*.yaml"), *KUBERNETES.glob("monitored/*.yaml")]):
            for made in yaml.safe_load_all(path.read_text()):
                if "kind" in made and made["kind"] != "Kustomization":
                    self.objects[made["kind"], made["metadata"]["name"]] = made
        self.set = self.objects["StatefulSet", "kvasir"]["spec"]
        self.pod = self.set["template"]["spec"]
        self.container, = self.pod["containers"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.labels = self.set["template"]["metadata"]["labels"]

    def check(self):
        """What a pod's arguments and environment make of the configuration."""
        given = {"metadata.name": "kvasir-0", "status.podIP": "10.0.0.1"}
        env = {}
        for row in self.container["env"]:
            env[row["name"]] = (given[row["valueFrom"]["fieldRef"]["fieldPath"]]
                                if "valueFrom" in row else
                                re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], row["value"]))
        secret = self.folder / "secret"
        secret.write_text("5f" * 32 + "\n")
        secret.chmod(0o440)
        mounted, = (row["mountPath"] for row in self.container["volumeMounts"]
                    if row["name"] == "mesh")
        text = (KUBERNETES / "base" / "kvasir.yaml").read_text()
        self.assertIn(f"secret_file: {mounted}/secret\n", text)
        file = self.folder / "kvasir.yaml"
        file.write_text(text.replace(f"{mounted}/secret", str(secret)))
        arguments = self.container["args"]
        self.assertEqual(arguments[:2], ["serve", "-c"])
        self.assertIn(arguments[2], [row["mountPath"] for row in self.container["volumeMounts"]])
        told = self.run_once("kvasir", "check", "-c", file, *arguments[3:], env=env)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return told.stdout

    def test_the_configuration_fits_the_pod(self):
        printed = self.check()
        self.assertIn('\nlisten: "0.0.0.0:%d"\n' % self.ports["serve"], printed)
        self.assertIn('\nadmin.metrics: "0.0.0.0:%d"\n' % self.ports["metrics"], printed)
        self.assertIn('\n  listen: "10.0.0.1:%d"\n' % self.ports["mesh"], printed)
        self.assertIn('name: "kvasir-0"\n', printed)
        self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"],
                                sum(durations(printed, "lame_duck", "drain")))
        data = re.search(r'\ndata:\n  dir: "(\S+)"', printed)[1]
        claim, = self.set["volumeClaimTemplates"]
        self.assertIn({"name": claim["metadata"]["name"], "mountPath": data},
                      self.container["volumeMounts"])

    def test_clients_keys_have_a_place_and_probes_ask_a_port_without_their_tls(self):
        text = (KUBERNETES / "base" / "kvasir.yaml").read_text()
        folder = pathlib.Path(re.search(r"(?m)^#keys: {file: (\S+)}$", text)[1]).parent
        name, = (row["name"] for row in self.container["volumeMounts"]
                 if row["mountPath"] == str(folder))
        secret, = (row["secret"] for row in self.pod["volumes"] if row["name"] == name)
        self.assertIn(f"kubectl create secret generic {secret['secretName']} ", text)
        self.assertTrue(secret["optional"])
        for probe in ("readinessProbe", "startupProbe", "livenessProbe"):
            self.assertEqual(self.container[probe]["httpGet"]["port"], "metrics")

    def test_names_that_mean_each_other_are_the_same(self):
        nodes = self.objects["Service", self.set["serviceName"]]["spec"]
        self.assertEqual((nodes["clusterIP"], nodes["publishNotReadyAddresses"]), ("None", True))
        self.assertIn('  join: "dns:%s:%d"\n' % (self.set["serviceName"],
                                                nodes["ports"][0]["port"]), self.check())
        self.assertEqual(self.set["selector"]["matchLabels"], self.labels)
        for kind, selector in (("Service", ("selector",)),
                               ("PodDisruptionBudget", ("selector", "matchLabels")),
                               ("NetworkPolicy", ("podSelector", "matchLabels")),
                               ("PodMonitor", ("selector", "matchLabels"))):
            for (each, _), made in self.objects.items():
                found = made["spec"]
                for key in selector if each == kind else ():
                    found = found[key]
                if each == kind:
                    self.assertEqual(found, self.labels, kind)
        used = [port["targetPort"] for (kind, _), made in self.objects.items()
                if kind == "Service" for port in made["spec"]["ports"]]
        used += [port["port"] for rule in
                 self.objects["NetworkPolicy", "kvasir"]["spec"]["ingress"]
                 for port in rule["ports"]]
        used += [row["port"] for row in
                 self.objects["PodMonitor", "kvasir"]["spec"]["podMetricsEndpoints"]]
        used += [self.container[probe]["httpGet"]["port"]
                 for probe in ("readinessProbe", "startupProbe", "livenessProbe")]
        self.assertEqual(set(used), set(self.ports))

    def test_as_pickers_nodes_are_asked_where_they_listen_and_see_the_pool_s_engines(self):
        folder = KUBERNETES / "gateway"
        patch = yaml.safe_load((folder / "nodes.yaml").read_text())["spec"]["template"]["spec"]
        added, = patch["containers"]
        self.assertEqual(added["name"], self.container["name"])
        port, = added["ports"]
        self.container["env"] += added["env"]
        printed = self.check()
        self.assertIn('\nextproc:\n  listen: "0.0.0.0:%d"\n' % port["containerPort"], printed)
        made = {each["kind"]: each for name in ("pool.yaml", "account.yaml")
                for each in yaml.safe_load_all((folder / name).read_text())}
        service, = made["Service"]["spec"]["ports"]
        allowed, = made["NetworkPolicy"]["spec"]["ingress"][0]["ports"]
        self.assertEqual({service["targetPort"], allowed["port"]}, {port["name"]})
        for kind, selector in (("Service", "selector"), ("NetworkPolicy", "podSelector")):
            found = made[kind]["spec"][selector]
            self.assertEqual(found.get("matchLabels", found), self.labels)
        pool = made["InferencePool"]["spec"]
        (label, value), = pool["selector"]["matchLabels"].items()
        target, = pool["targetPorts"]
        self.assertEqual(re.findall(r'    from: "(.+)"\n', printed),
                         [f"kube:{label}={value}:{target['number']}"])
        self.assertTrue(patch["automountServiceAccountToken"])
        account = made["ServiceAccount"]["metadata"]["name"]
        self.assertEqual(patch["serviceAccountName"], account)
        self.assertEqual(made["RoleBinding"]["subjects"],
                         [{"kind": "ServiceAccount", "name": account}])
        self.assertEqual(made["RoleBinding"]["roleRef"]["name"], made["Role"]["metadata"]["name"])
        told = (ROOT / "deploy" / "features.md").read_text()
        rules = yaml.safe_load(re.search(r"(?m)^    rules:\n      - .*endpointslices.*\n", told)[0])
        self.assertEqual(made["Role"]["rules"], rules["rules"])

    def test_a_pod_is_what_the_image_is_made_for(self):
        user = re.search(r"(?m)^USER (\d+):(\d+)$", Image.text)
        asked = self.pod["securityContext"]
        self.assertEqual([asked["runAsUser"], asked["runAsGroup"], asked["fsGroup"]],
                         [int(user[1]), int(user[2]), int(user[2])])
        exposed = re.search(r"(?m)^EXPOSE (.+)$", Image.text)[1].split()
        self.assertEqual(sorted(map(int, exposed)), sorted(self.ports.values()))

    @unittest.skipUnless(shutil.which("kubectl"), "kubectl is not installed")
    def test_kustomize_builds_it(self):
        made = self.kustomized("monitored")
        self.assertEqual(len(made), len(self.objects) + 1)  # the configuration
        config, = (each for each in made if each["kind"] == "ConfigMap")
        volumes, = (each["spec"]["template"]["spec"]["volumes"] for each in made
                    if each["kind"] == "StatefulSet")
        self.assertIn({"name": "config", "configMap": {"name": config["metadata"]["name"]}},
                      volumes)
        container, = (each["spec"]["template"]["spec"]["containers"][0]
                      for each in self.kustomized("gateway") if each["kind"] == "StatefulSet")
        self.assertEqual({port["name"] for port in container["ports"]},
                         {*self.ports, "picker"})
        self.assertLess({row["name"] for row in self.container["env"]},
                        {row["name"] for row in container["env"]})

    def kustomized(self, name):
        told = subprocess.run(["kubectl", "kustomize", KUBERNETES / name], timeout=60,
                              capture_output=True, text=True, check=False)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        return list(yaml.safe_load_all(told.stdout))

    @unittest.skipUnless(kubernetes_validate, "kubernetes-validate is not installed")
    def test_objects_fit_the_published_schemas(self):
        gateway = [made for name in ("account.yaml", "pool.yaml")
                   for made in yaml.safe_load_all((KUBERNETES / "gateway" / name).read_text())]
        for made in [*self.objects.values(), *gateway]:
            if made["kind"] not in ("PodMonitor", "InferencePool", "HTTPRoute"):  # of others
                kubernetes_validate.validate(made, kubernetes_validate.latest_version(),
                                             strict=True)


if __name__ == "__main__":
    harness.main()
