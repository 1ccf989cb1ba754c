"""The process that keeps an embedded cluster running in the background, until SIGTERM, SIGHUP or SIGINT.

The whole cluster belongs to this process, so no process and no netns remains when it ends, even after SIGKILL. The
process writes `ready` or an error to the pipe that `trafficdist cluster up` passes to it.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from emulator.cluster_state import READY, ClusterState, save
from emulator.control_plane import implementation_of
from emulator.kube_dns import KubeDns
from emulator.kubelet.images import EMULATED_AGNHOST
from emulator.kubelet.kubelet import Kubelet
from harness import threads
from harness.api.client import Api, Object, RefusedError
from harness.backends.netns import BOOT_SECONDS, NetnsBackend
from harness.errors import DistrustError, HarnessError, InconclusiveError
from harness.eventually import eventually
from harness.judging.exit_codes import ExitCode
from harness.model import manifests
from harness.model.manifests import has_condition
from harness.model.workloads import external_client, node_client
from harness.netns import sandbox
from harness.netns.fabric import NetworkPeer
from harness.netns.process import start_time
from harness.proxies.executable import ExecutableProxy
from harness.settings.settings import Settings
from reference.client import Key

_STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_EVERY = 1.0  # seconds between checks of the cluster's threads


def main(arguments: Sequence[str]) -> int:
    """Run the cluster until a signal. Return 0 after a signal, 1 if it did not start, and 12 if a thread has failed."""
    name, folder, settings, descriptor = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # before any thread starts, because threads inherit the signal mask
    with contextlib.ExitStack() as running:
        try:
            with os.fdopen(int(descriptor), "w", encoding="utf-8") as pipe:
                try:
                    _boot(name, Path(folder), Settings.from_json(json.loads(settings)), running)
                except (HarnessError, RefusedError) as error:
                    pipe.write(str(error))
                    return 1
                pipe.write(READY)
            ended = _signal_to_end()
            while not ended.wait(_EVERY):
                threads.require()
        except BrokenPipeError:  # the command that started this process was killed
            pass
        except DistrustError as error:
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
            return ExitCode.DISTRUST
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _signal_to_end() -> threading.Event:
    """Return an event that a signal sets. (sigtimedwait may return a false signal after SIGSTOP and SIGCONT.)"""
    ended = threading.Event()

    def wait() -> None:
        signal.sigwait(_STOP)
        ended.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return ended


def _boot(name: str, folder: Path, settings: Settings, running: contextlib.ExitStack) -> None:
    outside = Path("/proc/self/ns/user").stat().st_ino
    topology = settings.topology
    backend = NetnsBackend(
        topology, families=settings.families, implementation=implementation_of(settings), release=settings.release
    )
    running.enter_context(backend)
    own = Path("/proc/self/ns/user").stat().st_ino != outside
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(yaml.safe_dump(_reachable(backend) if own else backend.kubeconfig()), encoding="utf-8")
    places = {node.name: backend.namespace_of(node_client(node.name)).proc_path for node in topology.nodes}
    places["external"] = backend.namespace_of(external_client(topology.nodes[0].name)).proc_path
    clients = backend.proxy.clients if isinstance(backend.proxy, ExecutableProxy) else None
    groups = {node.name: clients.members(node.name) for node in topology.nodes} if clients else {}
    state = ClusterState(
        name=name,
        pid=os.getpid(),
        start_time=start_time(os.getpid()),
        topology=topology.name,
        zones={node.name: node.zone for node in topology.nodes},
        places=places,
        user_namespace=f"/proc/{os.getpid()}/ns/user" if own else "",
        service={},
        groups=groups,
    )
    record = _StateFile(folder, state)
    dns = KubeDns(backend.kubeconfig(), backend.api, backend.network)
    running.enter_context(dns.served())
    running.enter_context(threads.watched(dns.threads))
    kubelet = Kubelet(
        backend.kubeconfig(),
        backend.network,
        changed=record.set_pods,
        dns=dns.address,
        trust=backend.control_plane.kubelets,
    )
    running.enter_context(kubelet)
    running.enter_context(threads.watched(kubelet.threads))
    record.set_service(_run_example(backend))


class _StateFile:
    """Writes the cluster's state file for other commands when the example Service is ready and when pods change."""

    def __init__(self, folder: Path, state: ClusterState) -> None:
        self._folder = folder
        self._state = state
        self._pods: dict[str, NetworkPeer] = {}
        self._lock = threading.Lock()

    def set_pods(self, hosts: Mapping[Key, NetworkPeer]) -> None:
        with self._lock:
            self._pods = {
                name if namespace == "default" else f"{namespace}/{name}": host
                for (namespace, name), host in hosts.items()
            }
            self._save()

    def set_service(self, service: dict[str, Any]) -> None:
        """Record the example Service, and write the state file for the first time: the cluster is now ready."""
        with self._lock:
            self._state = dataclasses.replace(self._state, service=service)
            self._save()

    def _save(self) -> None:
        if self._state.service:
            nodes = self._state
            places = {name: pod.namespace.proc_path for name, pod in self._pods.items()} | nodes.places
            groups = {name: nodes.groups[pod.node] for name, pod in self._pods.items() if pod.node in nodes.groups}
            save(self._folder, dataclasses.replace(nodes, places=places, groups=groups | nodes.groups))


def _reachable(backend: NetnsBackend) -> dict[str, Any]:
    """Make the API server also listen on the machine's own loopback. Return a kubeconfig for that address."""
    listening = sandbox.outside_socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    backend.control_plane.listen(listening)
    kubeconfig = backend.kubeconfig()
    kubeconfig["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{listening.getsockname()[1]}"
    return kubeconfig


def _run_example(backend: NetnsBackend) -> dict[str, Any]:
    for node in backend.topology.nodes:
        pod = manifests.pod(f"web-{node.name}", node.name, labels={"app": "web"})
        for container in pod["spec"]["containers"]:
            container["image"] = EMULATED_AGNHOST
        backend.api.create("pods", "default", pod)
    made = _prefer_the_zone(backend.api)
    eventually(
        lambda: all(has_condition(pod, "Ready") for pod in backend.api.list("pods", "default")),
        within=BOOT_SECONDS,
        describe="a pod on each node to be ready",
        error=InconclusiveError,
    )
    backend.settle()
    return {"name": "web", "clusterIP": made["spec"]["clusterIP"], "port": made["spec"]["ports"][0]["port"]}


def _prefer_the_zone(api: Api) -> Object:
    wanted = manifests.service("web", selector={"app": "web"}, trafficDistribution="PreferSameZone")
    try:
        return api.create("services", "default", wanted)
    except RefusedError:  # Kubernetes before 1.34 rejects PreferSameZone
        wanted["spec"]["trafficDistribution"] = "PreferClose"
        return api.create("services", "default", wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
