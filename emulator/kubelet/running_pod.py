"""Run one pod on a node, from its first event to its end. Each event triggers a `sync`."""

import time
from collections.abc import Callable, Sequence

from emulator.kubelet.environment import FieldValues
from emulator.kubelet.pod_status import PodAddresses, status_of
from emulator.kubelet.running_container import PodContext, RunningContainer
from harness.api.client import STRATEGIC_MERGE_PATCH, Api, RefusedError, path_of
from harness.errors import UsageError
from harness.event_loop import EventLoop
from harness.model.manifests import Object
from harness.netns import sysctls
from harness.netns.fabric import Network, NetworkPeer, PodIdentity
from reference.objects.timestamps import timestamp

_ZONE = "cluster.local"


class RunningPod:
    """Runs one pod. Only one thread at a time may call its methods."""

    def __init__(
        self,
        pod: Object,
        *,
        api: Api,
        network: Network,
        loop: EventLoop,
        wake: Callable[[], None],
        host_changed: Callable[[], None],
        dns: str,
    ) -> None:
        """`wake` schedules another call of `sync`. `host_changed` is called when `host` is set or cleared."""
        meta = pod["metadata"]
        self.uid = str(meta["uid"])
        self.host: NetworkPeer | None = None
        """The netns and addresses of the pod (with hostNetwork, of its node), or None if the pod does not run."""
        self._pod = pod
        self._path = path_of("pods", meta["namespace"], meta["name"])
        self._api = api
        self._network = network
        self._loop = loop
        self._wake = wake
        self._host_changed = host_changed
        self._dns = dns
        self._node = network.nodes[pod["spec"]["nodeName"]]
        self._since = timestamp()
        self._init: list[RunningContainer] = []  # containers that start before the others, including sidecars
        self._containers: list[RunningContainer] = []
        self._reported: Object = {}
        self._started = False
        self._removed = False
        self._ends_since = self._kill_at = float("inf")

    @property
    def ending(self) -> bool:
        return self._ends_since != float("inf")

    def container(self, name: str) -> RunningContainer | None:
        """Return a container by name, or None. Thread-safe."""
        return next((each for each in self._all if each.name == name), None)

    @property
    def _all(self) -> list[RunningContainer]:
        return [*self._init, *self._containers]

    def sync(self, pod: Object) -> None:
        """Perform the next step for this API object. Raises `InconclusiveError` if the API server does not respond."""
        self._pod = pod
        if self._removed:
            return
        if not self._started:
            self._start()
        if pod["metadata"].get("deletionTimestamp"):
            self._end()
        self._sync_containers()
        if self.ending and not any(container.runs for container in self._all):
            self._finish()
        elif all(container.known for container in self._all):
            self._report()

    def _sync_containers(self) -> None:
        for container in self._init:
            container.sync()
            if not container.lets_others_start and not self.ending:
                return
        for container in self._containers:
            container.sync()
        if not any(container.runs or container.waits for container in self._containers):
            for container in self._init:  # sidecars end last
                container.end()

    def remove(self) -> None:
        """Kill the processes and remove the netns immediately. Idempotent."""
        self._removed = True
        for container in self._all:
            container.drop()
        host, self.host = self.host, None
        if host is not None:
            self._host_changed()
            if not self._on_node:
                self._network.remove_pod(host)

    @property
    def _on_node(self) -> bool:
        return bool(self._pod["spec"].get("hostNetwork"))

    def _start(self) -> None:
        """Create the netns and the containers, unless the pod has ended. On `HarnessError`, the caller retries."""
        meta = self._pod["metadata"]
        ended = (self._pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not ended and not meta.get("deletionTimestamp"):
            of = PodIdentity(meta["namespace"], meta["name"], self.uid)
            try:
                self.host = self.host or (
                    self._node if self._on_node else self._network.add_pod(self._node.name, of=of)
                )
            except UsageError as error:  # the node has no free address
                self._refuse(str(error))
                return
            self._make_containers(self.host)
        self._started = True

    def _make_containers(self, host: NetworkPeer) -> None:
        meta, spec = self._pod["metadata"], self._pod["spec"]
        self._host_changed()
        if not self._on_node:
            sysctls.apply(host.namespace, sysctls.of_programs())
        hostname = self._node.name if self._on_node else spec.get("hostname") or meta["name"][:63].rstrip("-.")
        ips = tuple(host.addresses.values())
        context = PodContext(
            FieldValues(self._pod, ips, tuple(self._node.addresses.values())),
            hostname,
            files_of(self._pod, ips, hostname, dns=self._dns),
            host.namespace,
            self._node.namespace,
            host.addresses,
            self._loop,
            self._wake,
        )
        policy = spec.get("restartPolicy", "Always")
        init = spec.get("initContainers") or ()
        once = "Never" if policy == "Never" else "OnFailure"
        self._init = [RunningContainer(each, context, policy=each.get("restartPolicy") or once) for each in init]
        waits = "PodInitializing" if init else "ContainerCreating"
        self._containers = [RunningContainer(each, context, policy=policy, waits=waits) for each in spec["containers"]]

    def _end(self) -> None:
        moment = time.monotonic()
        if not self.ending:
            self._ends_since = moment
        kill_at = self._ends_since + float(self._pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if kill_at < self._kill_at:
            self._kill_at = kill_at
            if kill_at > moment:
                self._loop.after(kill_at - moment, self._wake)
        for container in self._all:
            if moment >= self._kill_at:
                container.kill()
            elif not container.is_sidecar:
                container.end()

    def _finish(self) -> None:
        if self._containers:
            self._report()
        self.remove()
        self._removed = False  # the next `sync` retries until the API object is deleted
        self._init, self._containers = [], []
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        response = self._api.request("DELETE", self._path, body)
        if response.code >= 400 and response.code not in (404, 409):
            raise RefusedError("DELETE", self._path, response)
        self._removed = True

    def _refuse(self, why: str) -> None:
        self._patch({"phase": "Failed", "reason": "OutOfpods", "message": why})
        self._removed = True

    def _report(self) -> None:
        if not self._containers:
            return
        addresses = {} if self.host is None else self.host.addresses
        place = PodAddresses(tuple(addresses.values()), tuple(self._node.addresses.values()), self._since)
        states = [container.state for container in self._containers]
        init = [container.state for container in self._init]
        status = status_of(self._pod, place, states, init=init, before=self._reported, now=timestamp())
        if status != self._reported:
            self._patch(status)
            self._reported = status

    def _patch(self, status: Object) -> None:
        """Write the pod's status. The uid in the patch protects a newer pod with the same name."""
        body = {"metadata": {"uid": self.uid}, "status": status}
        path = f"{self._path}/status"
        response = self._api.request("PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH)
        if response.code >= 400 and response.code not in (404, 409):
            raise RefusedError("PATCH", path, response)


def files_of(pod: Object, pod_ips: Sequence[str], hostname: str, *, dns: str) -> dict[str, str]:
    """Return the files in /etc that a kubelet writes, by path (Kubernetes page "DNS for Services and Pods")."""
    names = "".join(f"{ip}\t{hostname}\n" for ip in pod_ips)
    for alias in pod["spec"].get("hostAliases") or ():
        names += f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n"
    return {
        "/etc/hosts": f"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n{names}",
        "/etc/hostname": f"{hostname}\n",
        "/etc/resolv.conf": _resolver(pod, dns),
    }


def _resolver(pod: Object, dns: str) -> str:
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    policy, wanted = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    servers, search, options = [], [], []
    if dns and (policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))):
        servers, search, options = [dns], [f"{namespace}.svc.{_ZONE}", f"svc.{_ZONE}", _ZONE], ["ndots:5"]
    servers += wanted.get("nameservers") or ()
    search += [each for each in wanted.get("searches") or () if each not in search]
    named = {each.partition(":")[0]: each for each in options}
    for each in wanted.get("options") or ():
        named[each["name"]] = f"{each['name']}:{each['value']}" if each.get("value") else each["name"]
    lines = [f"search {' '.join(search)}"] if search else []
    lines += [f"nameserver {each}" for each in servers]
    lines += [f"options {' '.join(named.values())}"] if named else []
    return "".join(f"{line}\n" for line in lines)
