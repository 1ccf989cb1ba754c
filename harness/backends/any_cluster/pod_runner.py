"""Creates a run's pods, and waits until their kubelets report the requested readiness."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.api.client import STRATEGIC_MERGE_PATCH, Api, Object, RefusedError, path_of
from harness.backends.any_cluster import pods
from harness.backends.backend import TERMINATION_SECONDS, WantedPod
from harness.errors import InconclusiveError
from harness.eventually import NotYetError, eventually
from harness.guest import errors
from harness.model.manifests import has_condition

READY_SECONDS = 120.0  # seconds for a pod to start, before `time_scale` is applied; a node may have to pull the image
TROUBLED_SECONDS = 15.0  # seconds after which a problem that prevents a pod from running is an error
LATE_SECONDS = 90.0  # seconds for a kubelet to react after it reconnects to an API server, or on a shared machine
ADMITTED_SECONDS = 10.0  # seconds until a new namespace has its service account
END_GRACE = 1  # grace period in seconds for immediate deletion; with 0, containers would outlive the Pod object

_THREADS = 16


class PodRunner:
    def __init__(
        self,
        api: Api,
        labels: Mapping[str, str],
        registry: str,
        kubelet_patience: float,
        *,
        server: Callable[[WantedPod, str, Mapping[str, str], str], Object] = pods.server,
    ) -> None:
        """Kubelet errors are fatal after `kubelet_patience` seconds. `server` returns a server pod's manifest."""
        self._server = server
        self._api = api
        self._labels = dict(labels)
        self._registry = registry
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="pod-runner")
        self._awaited: dict[tuple[str, str], bool] = {}
        self._terminating: set[tuple[str, str]] = set()
        self._kubelet_patience = kubelet_patience

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def create_namespace(self, name: str, *, privileged: bool = False) -> None:
        standard = "privileged" if privileged else "restricted"
        labels = {**self._labels, "pod-security.kubernetes.io/enforce": standard}
        self._api.create("namespaces", "", {"metadata": {"name": name, "labels": labels}})

    def delete_namespace(self, name: str) -> None:
        self._awaited = {key: ready for key, ready in self._awaited.items() if key[0] != name}
        self._terminating = {key for key in self._terminating if key[0] != name}
        self._api.request("DELETE", path_of("pods", name), query={"gracePeriodSeconds": str(END_GRACE)})
        self._api.delete("namespaces", "", name)

    def run_servers(
        self,
        namespace: str,
        wanted: Sequence[WantedPod],
        *,
        before_ready: Callable[[Sequence[Object]], None] = lambda _: None,
    ) -> list[Object]:
        """Create pods, and `wait` for them. `before_ready` is called before any pod can become ready."""
        before_ready(self._create(namespace, [self._made(each, namespace) for each in wanted]))
        list(self._pool.map(lambda each: self.open_gate(namespace, each.name, each.ready), wanted))
        return self.wait(namespace, {each.name: each.ready for each in wanted})

    def run_clients(self, namespace: str, wanted: Mapping[str, str], *, port: int, host_network: bool) -> list[Object]:
        """Run client pods. `wanted` maps each pod's name to its node. Raises the errors of `wait`."""
        made = [
            pods.client(name, node, self._labels, self._registry, port=port, host_network=host_network)
            for name, node in wanted.items()
        ]
        self._create(namespace, made)
        return self.wait(namespace, dict.fromkeys(wanted, True))

    def create(self, namespace: str, wanted: WantedPod) -> None:
        """Create a pod. `settle` waits until it has the requested readiness."""
        self._create(namespace, [self._made(wanted, namespace)])
        self.open_gate(namespace, wanted.name, wanted.ready)

    def open_gate(self, namespace: str, name: str, ready: bool) -> None:
        """Set the condition of a pod's readiness gate. `settle` waits until the kubelet reports the change."""
        path = path_of("pods", namespace, name, "status")
        answer = self._api.request("PATCH", path, pods.gate(ready), content_type=STRATEGIC_MERGE_PATCH)
        if answer.code >= 400:
            raise RefusedError("PATCH", path, answer)
        self._awaited[namespace, name] = ready

    def settle(self) -> None:
        """Wait until each pod that still exists has the state that was requested last."""
        by_namespace: dict[str, dict[str, bool]] = {}
        for (namespace, name), ready in self._awaited.items():
            by_namespace.setdefault(namespace, {})[name] = ready
        for namespace, wanted in by_namespace.items():
            self.wait(namespace, wanted, all_exist=False)

    def wait(self, namespace: str, wanted: Mapping[str, bool], *, all_exist: bool = True) -> list[Object]:
        """Wait until these pods run with the requested readiness, and return them. Raises `InconclusiveError`."""
        troubled: dict[str, float] = {}

        def look() -> list[Object]:
            found = {str(each["metadata"]["name"]): each for each in self._api.list("pods", namespace)}
            here = {name: ready for name, ready in wanted.items() if all_exist or name in found}
            late = [name for name, ready in here.items() if not _as_wanted(found.get(name), ready)]
            for name in late:
                self._raise_if_stuck(found.get(name), troubled)
            if late:
                raise NotYetError(f"{len(late)} of {len(here)} pods have the wrong state: {', '.join(late[:4])}")
            return [found[name] for name in here]

        found = eventually(
            look,
            within=READY_SECONDS,
            every=0.02,
            describe=f"{len(wanted)} pods in namespace {namespace}",
            error=InconclusiveError,
        )
        for name in wanted:
            self._awaited.pop((namespace, name), None)
        return found

    def terminates(self, namespace: str, name: str) -> None:
        """Record that a pod is terminating, and must exist until its grace period ends."""
        self._terminating.add((namespace, name))

    def require_terminating(self) -> None:
        """Raise `InconclusiveError` if a terminating pod ended early, possibly before the last observations."""
        for namespace, name in sorted(self._terminating):
            if self._is_gone(namespace, name):
                raise InconclusiveError(
                    f"terminating pod {namespace}/{name} has ended, after at most {TERMINATION_SECONDS} s: the "
                    "cluster was too slow to complete the observations before the pod ended"
                )

    def _raise_if_stuck(self, pod: Object | None, troubled: dict[str, float]) -> None:
        of_pod, of_kubelet = (errors.of_pod(pod), errors.of_kubelet(pod)) if pod is not None else ("", "")
        why = of_pod or of_kubelet
        if not why:
            return
        patience = TROUBLED_SECONDS if of_pod else self._kubelet_patience
        since = troubled.setdefault(why, time.monotonic())
        if time.monotonic() - since > patience:
            raise InconclusiveError(why)

    def delete(self, namespace: str, name: str) -> None:
        self.begin_to_delete(namespace, name)
        eventually(
            lambda: self._is_gone(namespace, name),
            within=READY_SECONDS,
            every=0.02,
            describe=f"pod {namespace}/{name} to end",
            error=InconclusiveError,
        )

    def _is_gone(self, namespace: str, name: str) -> bool:
        return self._api.request("GET", path_of("pods", namespace, name)).code == 404

    def begin_to_delete(self, namespace: str, name: str) -> None:
        self._awaited.pop((namespace, name), None)
        self._terminating.discard((namespace, name))
        self._api.delete("pods", namespace, name, grace_seconds=END_GRACE)

    def _made(self, wanted: WantedPod, namespace: str) -> Object:
        return self._server(wanted, namespace, self._labels, self._registry)

    def _create(self, namespace: str, wanted: Sequence[Object]) -> list[Object]:
        return list(self._pool.map(lambda pod: self._create_one(namespace, pod), wanted))

    def _create_one(self, namespace: str, pod: Object) -> Object:
        path = path_of("pods", namespace)

        def create() -> Object:
            answer = self._api.request("POST", path, pod)
            message = str(answer.body.get("message", ""))
            if answer.code in (403, 404) and "serviceaccount" in message.lower().replace(" ", ""):
                raise NotYetError(message)
            if answer.code >= 400:
                raise InconclusiveError(errors.of_answer(answer, doing=f"create pod {pod['metadata']['name']}"))
            return answer.body

        what = f"pod {pod['metadata']['name']} to be admitted"
        return eventually(create, within=ADMITTED_SECONDS, every=0.05, describe=what, error=InconclusiveError)


def _as_wanted(pod: Object | None, ready: bool) -> bool:
    return pod is not None and pods.runs(pod) and has_condition(pod, "Ready") is ready
