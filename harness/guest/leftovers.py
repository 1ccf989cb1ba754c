"""Finds and removes the leftovers of runs on a cluster by their labels, after killed runs and at the end of a run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.api.client import Api, Object, RefusedError
from harness.errors import DistrustError
from harness.eventually import time_scale
from harness.guest.labels import NAMESPACE, RUN_LABEL
from harness.guest.nodes import restore_node, run_of_node

Say = Callable[[str], None]

_GONE_SECONDS = 180.0
_FORCE_SECONDS = 20.0  # seconds until pods on nodes that do not respond are deleted without grace period
_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    namespaces: tuple[str, ...] = ()
    made_nodes: tuple[str, ...] = ()
    changed_nodes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.made_nodes or self.changed_nodes)

    def __str__(self) -> str:
        counts = (
            (len(self.namespaces), "namespace"),
            (len(self.made_nodes), "node that exists only in the API"),
            (len(self.changed_nodes), "changed node"),
        )
        return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count) or "nothing"


def find(api: Api, *, run: str = "", not_of: str = "") -> Leftovers:
    """Find objects of `run` ("": of all runs except `not_of`), but not the Lease's namespace. Raises `RefusedError`."""

    def counts(by: str) -> bool:
        return bool(by) and by != not_of and run in {"", by}

    namespaces = api.list("namespaces", label_selector=f"{RUN_LABEL}={run}" if run else RUN_LABEL)
    nodes = api.list("nodes")
    return Leftovers(
        tuple(_name(each) for each in namespaces if counts(_run_of(each)) and _name(each) != NAMESPACE),
        tuple(_name(each) for each in nodes if counts(_run_of(each))),
        tuple(_name(each) for each in nodes if counts(run_of_node(each))),
    )


def remove(api: Api, found: Leftovers, say: Say) -> list[str]:
    """Remove leftovers, and wait until they are deleted. Return one line of text per object. Raises `RefusedError`."""
    done = [f"node {name} is restored" for name in found.changed_nodes if restore_node(api, name)]
    for name in found.made_nodes:
        api.delete("nodes", "", name)
        done.append(f"node {name} is removed")
    for name in found.namespaces:
        try:
            api.delete("namespaces", "", name)
        except RefusedError as error:
            if error.response.code != 409:  # 409: it is terminating already
                raise
    wait_until_gone(api, found.namespaces, say)
    return done + [f"namespace {name} is removed" for name in found.namespaces]


def wait_until_gone(api: Api, names: Sequence[str], say: Say) -> None:
    """Wait until namespaces are deleted, and report progress. Raises `DistrustError` with the reason."""
    begin = reported = time.monotonic()
    forced = False
    while left := [each for each in api.list("namespaces") if _name(each) in names] if names else []:
        waited = time.monotonic() - begin
        if waited > _GONE_SECONDS * time_scale():
            raise DistrustError(_stuck(left))
        if time.monotonic() - reported > _PROGRESS_SECONDS:
            reported = time.monotonic()
            namespaces = "a namespace" if len(left) == 1 else f"{len(left)} namespaces"
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            some = ", ".join(map(_name, left[:3]))
            say(f"waiting until {namespaces} are deleted ({waited:.0f} s): {some}{more}")
        if waited > _FORCE_SECONDS and not forced:
            forced = True
            for pod in [pod for each in left for pod in api.list("pods", _name(each))]:
                if pod["metadata"].get("deletionTimestamp"):  # its node does not respond
                    api.delete("pods", pod["metadata"]["namespace"], _name(pod), grace_seconds=0)
        time.sleep(min(0.5, 0.01 + waited / 4))  # check soon at first: embedded API servers delete at once


def _stuck(left: Sequence[Object]) -> str:
    conditions = (left[0].get("status") or {}).get("conditions") or ()
    why = next((str(each.get("message")) for each in conditions if each.get("status") == "True"), "no reason reported")
    return (
        f"namespace {_name(left[0])} was not deleted within {_GONE_SECONDS:.0f} s: {why}; "
        "see `kubectl get namespace -o yaml`, then run `trafficdist cleanup` again"
    )


def _run_of(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(RUN_LABEL, ""))


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])
