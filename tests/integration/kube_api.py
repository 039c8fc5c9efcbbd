"""An API server of Kubernetes, as far as EndpointSlices go: lists and watches of
discovery.k8s.io/v1 by label, with resource versions, bookmarks and 410; and of a
StatefulSet the scale sub-resource, with resource versions and 409."""
import json
import threading
import urllib.parse

from fake_worker import Close, FakeWorker

PATH = "/apis/discovery.k8s.io/v1/namespaces/"
SETS = "/apis/apps/v1/namespaces/"


class KubeApi(FakeWorker):
    def __init__(self, case, token="", **more):
        self.token = token
        self.slices = {}  # (namespace, name): slice
        self.events = []  # (version, namespace, labels, event)
        self.version = 100
        self.oldest = 0   # watches from before it are answered 410
        self.lists = 0
        self.watches = []  # the versions they began at
        self.status = 200
        self.ended = 0    # watches that begin with a lower number end
        self.changed = threading.Condition()
        self.sets = {}    # (namespace, name): StatefulSet
        super().__init__(case, self.serve, **more)

    def put(self, name, addresses, labels, space="ml", port=8000, **conditions):
        """Adds a slice or changes it; without addresses it is one of none."""
        self._put(name, space, {
            "metadata": {"name": name, "namespace": space, "labels": labels},
            "addressType": "IPv4", "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True, **conditions}}
                          for address in addresses]})

    def _put(self, name, space, found):
        with self.changed:
            self.version += 1
            found["metadata"]["resourceVersion"] = str(self.version)
            kind = "MODIFIED" if (space, name) in self.slices else "ADDED"
            self.slices[space, name] = found
            self.events.append((self.version, space, found["metadata"]["labels"],
                                {"type": kind, "object": found}))
            self.changed.notify_all()

    def delete(self, name, space="ml"):
        with self.changed:
            self.version += 1
            found = self.slices.pop((space, name))
            self.events.append((self.version, space, found["metadata"]["labels"],
                                {"type": "DELETED", "object": found}))
            self.changed.notify_all()

    def bookmark(self):
        """Says how far watches are; what was before is forgotten."""
        with self.changed:
            self.version += 1
            self.events.append((self.version, None, None, {"type": "BOOKMARK", "object": {
                "kind": "EndpointSlice", "metadata": {"resourceVersion": str(self.version)}}}))
            self.changed.notify_all()

    def forget(self):
        with self.changed:
            self.oldest = self.version + 1

    def end_watches(self):
        with self.changed:
            self.ended = len(self.watches)
            self.changed.notify_all()

    def serve(self, peer, request):
        target = urllib.parse.urlsplit(request.target)
        if target.path.startswith(SETS):
            return self.serve_scale(peer, request, target.path[len(SETS):])
        query = dict(urllib.parse.parse_qsl(target.query))
        assert request.method == "GET" and target.path.startswith(PATH), request.line
        space, _, kind = target.path[len(PATH):].partition("/")
        assert kind == "endpointslices", request.line
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return peer.json({"kind": "Status", "code": 401}, 401)
        if self.status != 200:
            return peer.json({"kind": "Status", "code": self.status}, self.status)
        labels = dict(pair.split("=") for pair in query["labelSelector"].split(","))
        if query.get("watch") == "1":
            assert query["allowWatchBookmarks"] == "true" and int(query["timeoutSeconds"]) > 0
            return self.watch(peer, space, labels, int(query["resourceVersion"]))
        with self.changed:
            self.lists += 1
            items = [found for (there, _), found in self.slices.items()
                     if there == space and labels.items() <= found["metadata"]["labels"].items()]
            return peer.json({"kind": "EndpointSliceList",
                              "apiVersion": "discovery.k8s.io/v1",
                              "metadata": {"resourceVersion": str(self.version)}, "items": items})

    def watch(self, peer, space, labels, version):
        with self.changed:
            number = len(self.watches)
            self.watches.append(version)
            old = version < self.oldest
        peer.begin_stream()
        if old:
            peer.chunk(json.dumps({"type": "ERROR", "object": {
                "kind": "Status", "code": 410, "reason": "Expired"}}).encode() + b"\n")
            return peer.end_stream()
        at = 0
        while True:
            with self.changed:
                while at == len(self.events) and number >= self.ended:
                    if not self.changed.wait(30):
                        raise Close
                fresh, at = self.events[at:], len(self.events)
                over = number < self.ended
            for seen, there, has, event in fresh:
                if seen > version and (there is None or (
                        there == space and labels.items() <= has.items())):
                    text = json.dumps(event).encode() + b"\n"
                    peer.chunk(text[:7])  # lines come in pieces
                    peer.chunk(text[7:])
            if over:
                return peer.end_stream()

    def serve_scale(self, peer, request, path):
        space, kind, name, part = path.split("/")
        assert (kind, part) == ("statefulsets", "scale"), request.line
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return peer.json({"kind": "Status", "code": 401}, 401)
        found = self.sets.get((space, name))
        if found is None:
            return peer.json({"kind": "Status", "code": 404}, 404)
        fewer = request.method == "PUT" and (
            request.json()["spec"].get("replicas", 0) < found.replicas)
        if fewer:
            found.before_fewer()
        with found.lock:
            if request.method == "PUT" and not found.put(request.json()):
                return peer.json({"kind": "Status", "code": 409}, 409)
            assert request.method in ("GET", "PUT"), request.line
            answer = found.scale()
        if fewer:
            found.after_fewer()
        return peer.json(answer)


class StatefulSet:
    """make(number) gives a pod, which has kill(); the last one goes first."""

    def __init__(self, api, space, name, make, replicas=0):
        self.space, self.name, self.make = space, name, make
        self.lock = threading.Lock()
        self.version, self.rivals = 7, 0
        self.before_fewer = self.after_fewer = lambda: None  # what a PUT of fewer waits for
        self.history, self.pods = [], []
        self.replicas = 0
        self.set(replicas)
        api.sets[space, name] = self

    def set(self, replicas, more_pods=True):
        self.version += 1
        self.replicas = replicas
        while len(self.pods) > replicas:
            self.pods.pop().kill()
        while more_pods and len(self.pods) < replicas:
            self.pods.append(self.make(len(self.pods)))

    def put(self, body):
        meta = body["metadata"]
        assert (body["apiVersion"], body["kind"]) == ("autoscaling/v1", "Scale")
        assert (meta["namespace"], meta["name"]) == (self.space, self.name)
        if self.rivals > 0:  # somebody changed it in between
            self.rivals -= 1
            self.version += 1
        if meta["resourceVersion"] != str(self.version):
            return False
        self.history.append(body["spec"]["replicas"])
        self.set(self.history[-1])
        return True

    def scale(self):
        spec = {"replicas": self.replicas} if self.replicas else {}  # 0 is left out
        return {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": spec,
                "metadata": {"name": self.name, "namespace": self.space, "uid": "u",
                             "resourceVersion": str(self.version)},
                "status": {"replicas": len(self.pods), "selector": "app=vllm"}}
