"""Checks that nodes run the suite's pods, image included. It must create pods, so it is done only on request."""

from __future__ import annotations

from harness.api.client import Api, RefusedError
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.node_names import Names
from harness.doctor.check import Check, CheckState, ok, unknown, unusable
from harness.errors import DistrustError, InconclusiveError
from harness.eventually import eventually
from harness.guest import errors
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import hold
from harness.guest.leftovers import Say
from harness.model.needs import Needs

_PULL_SECONDS = 120.0
_PORT = 8080


def check(api: Api, names: Names, registry: str, *, try_pods: bool, say: Say) -> Check:
    """Check that a pod runs on each node that scenarios use, if `try_pods`; the pods are removed again."""
    image = pods.image(registry).partition("@")[0]
    if not try_pods:
        return unknown("images", f"not tried: {image}", "--try runs a pod on each node, and removes it")
    try:
        failed = _try(api, names, registry, say)
    except (RefusedError, InconclusiveError, DistrustError) as error:
        return unusable("images", errors.of(error))
    if not failed:
        return ok("images", f"{image} runs on all {len(names.nodes)} nodes")
    why = next(iter(failed.values()))
    if len(failed) == len(names.nodes):
        return unusable("images", why)
    return Check("images", CheckState.LACKS, f"{len(failed)} nodes: {why}", "", Needs(nodes=frozenset(failed)))


def _try(api: Api, names: Names, registry: str, say: Say) -> dict[str, str]:
    """Run the pods, and return the reason for each node (by its name in the topology) that does not run its pod."""
    run = new_run_id()
    namespace, labels = f"td-{run}-doctor", run_labels(run)
    with hold(api, run, say=say):
        restricted = {**labels, "pod-security.kubernetes.io/enforce": "restricted"}
        api.create("namespaces", "", {"metadata": {"name": namespace, "labels": restricted}})
        for ours, theirs in names.nodes.items():
            pod = pods.client(ours, theirs, labels, registry, port=_PORT, host_network=False)
            _create(api, namespace, pod)
        say(f"trying {pods.image(registry).partition('@')[0]} on {len(names.nodes)} nodes")
        return _outcome(api, namespace, set(names.nodes))


def _create(api: Api, namespace: str, pod: dict[str, object]) -> None:
    def admitted() -> bool:
        try:
            return bool(api.create("pods", namespace, pod))
        except RefusedError as error:
            if "service account" not in str(error) and "serviceaccount" not in str(error):
                raise
            raise AssertionError(str(error)) from None  # it is made in a moment

    eventually(admitted, within=10, every=0.1, describe="a pod to be admitted", error=InconclusiveError)


def _outcome(api: Api, namespace: str, wanted: set[str]) -> dict[str, str]:
    last: dict[str, str] = {}

    def all_told() -> bool:
        found = {str(each["metadata"]["name"]): each for each in api.list("pods", namespace)}
        waiting = {name for name in wanted if name not in found or not pods.is_ready(found[name])}
        last.clear()
        last.update({name: errors.of_pod(found[name]) if name in found else "it is gone" for name in waiting})
        if all(last.values()):
            return True
        raise AssertionError(f"{', '.join(sorted(waiting))} not yet")

    try:
        eventually(all_told, within=_PULL_SECONDS, every=0.2, describe="pods to run", error=InconclusiveError)
    except InconclusiveError as error:
        return {name: why or str(error) for name, why in last.items()}
    return dict(last)
