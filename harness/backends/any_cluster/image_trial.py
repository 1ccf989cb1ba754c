"""Check that nodes can pull the suite's image and run its pods. The check creates pods, so it runs only on request."""

from __future__ import annotations

from collections.abc import Mapping

from harness.api.client import Api, RefusedError
from harness.backends.any_cluster import pods
from harness.checks.check import Finding, State, unknown, unusable
from harness.errors import DistrustError, InconclusiveError
from harness.eventually import eventually
from harness.guest import errors
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import hold
from harness.guest.leftovers import Say
from harness.model.needs import Needs

_PULL_SECONDS = 120.0
_PORT = 8080


def check(api: Api, names: Mapping[str, str], registry: str, *, try_pods: bool, say: Say) -> str | Finding:
    """Check that a pod runs on each node that scenarios use, if `try_pods`; then remove the pods.

    `names` maps each node of the topology to the cluster's node.
    """
    image = pods.image(registry).partition("@")[0]
    if not try_pods:
        return unknown(f"not tried: {image}", "--try runs a pod on each node, and removes it")
    try:
        failed = _try(api, names, registry, say)
    except (RefusedError, InconclusiveError, DistrustError) as error:
        return unusable(errors.of(error))
    if not failed:
        return f"{image} runs on all {len(names)} nodes"
    why = next(iter(failed.values()))
    if len(failed) == len(names):
        return unusable(why)
    return Finding(State.LACKS, f"{len(failed)} nodes: {why}", lacks=Needs(nodes=frozenset(failed)))


def _try(api: Api, names: Mapping[str, str], registry: str, say: Say) -> dict[str, str]:
    """Run the pods. Return why a node does not run its pod, for each such node by its name in the topology."""
    run = new_run_id()
    namespace, labels = f"td-{run}-doctor", run_labels(run)
    with hold(api, run, say=say):
        restricted = {**labels, "pod-security.kubernetes.io/enforce": "restricted"}
        api.create("namespaces", "", {"metadata": {"name": namespace, "labels": restricted}})
        for ours, theirs in names.items():
            _create(api, namespace, pods.client(ours, theirs, labels, registry, port=_PORT, host_network=False))
        say(f"trying {pods.image(registry).partition('@')[0]} on {len(names)} nodes")
        return _outcome(api, namespace, set(names))


def _create(api: Api, namespace: str, pod: dict[str, object]) -> None:
    def admitted() -> bool:
        try:
            return bool(api.create("pods", namespace, pod))
        except RefusedError as error:
            if "service account" not in str(error) and "serviceaccount" not in str(error):
                raise
            raise AssertionError(str(error)) from None  # the controller creates it soon

    eventually(admitted, within=10, every=0.1, describe="a pod to be admitted", error=InconclusiveError)


def _outcome(api: Api, namespace: str, wanted: set[str]) -> dict[str, str]:
    last: dict[str, str] = {}

    def all_known() -> bool:
        found = {str(each["metadata"]["name"]): each for each in api.list("pods", namespace)}
        waiting = {name for name in wanted if name not in found or not pods.is_ready(found[name])}
        last.clear()
        last.update({name: errors.of_pod(found[name]) if name in found else "it is gone" for name in waiting})
        if all(last.values()):
            return True
        raise AssertionError(f"{', '.join(sorted(waiting))} not yet")

    try:
        eventually(all_known, within=_PULL_SECONDS, every=0.2, describe="pods to run", error=InconclusiveError)
    except InconclusiveError as error:
        return {name: why or str(error) for name, why in last.items()}
    return dict(last)
