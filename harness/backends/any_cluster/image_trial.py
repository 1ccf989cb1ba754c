"""Check that nodes can pull the suite's image and run its pods. The check creates pods, so it runs only on request."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from harness.api.client import Api, RefusedError
from harness.backends.any_cluster import pods
from harness.backends.any_cluster.pod_runner import TROUBLED_SECONDS, PodRunner
from harness.checks.check import Finding, State, unknown, unusable
from harness.errors import DistrustError, InconclusiveError
from harness.guest import errors
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import hold
from harness.guest.leftovers import Say
from harness.model.needs import Needs

_PORT = 8080


def check(api: Api, names: Mapping[str, str], registry: str, *, try_pods: bool, say: Say) -> str | Finding:
    """If `try_pods`, check that a pod runs on each node that scenarios use. The pods are removed afterwards.

    `names` maps each node of the topology to its name in the cluster.
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
    """Run the pods. Return the reason for each node that does not run its pod, by the node's name in the topology."""
    run = new_run_id()
    namespace, failed = f"td-{run}-doctor", {}
    runner = PodRunner(api, run_labels(run), registry, TROUBLED_SECONDS)

    def run_on(ours: str) -> None:
        try:
            runner.run_clients(namespace, {ours: names[ours]}, port=_PORT, host_network=False)
        except InconclusiveError as error:
            failed[ours] = str(error)

    with hold(api, run, say=say), contextlib.closing(runner), ThreadPoolExecutor() as pool:
        runner.create_namespace(namespace)
        say(f"trying {pods.image(registry).partition('@')[0]} on {len(names)} nodes")
        list(pool.map(run_on, names))
    return failed
