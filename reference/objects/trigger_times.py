"""The annotation of a slice with the time of the change that caused the controller to write the slice.

Proxies subtract this time from the time at which the change is in the kernel. Source: core/v1
`EndpointsLastChangeTriggerTime`; KEP-3015, Monitoring Requirements (the SLI of network programming).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from reference.client import Object

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


def change_times(service: Object, pods: Iterable[Object]) -> Mapping[str, str]:
    """Return the creation time of a Service (key ""), and for each pod the time when its readiness last changed."""
    times = {"": str(service["metadata"].get("creationTimestamp", ""))}
    for pod in pods:
        for each in (pod.get("status") or {}).get("conditions") or ():
            if each["type"] == "Ready":
                times[pod["metadata"]["name"]] = each.get("lastTransitionTime") or ""
    return times


def trigger_time(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """Return the earliest time that is new since `before`, or "" if there is none, like kube-controller-manager.

    If `before` is None, return the creation time of the Service. Times are in UTC, to the second, so they sort as text.
    """
    if before is None:
        return now[""]
    return min((each for name, each in now.items() if each > before.get(name, "")), default="")


def with_trigger_time(endpoint_slice: Object, time: str) -> Object:
    """Return a copy of a slice with this time, or without a time if it is ""."""
    metadata = dict(endpoint_slice["metadata"])
    annotations = {**(metadata.pop("annotations", None) or {}), ANNOTATION: time}
    if not time:
        del annotations[ANNOTATION]
    return {**endpoint_slice, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def read_trigger_time(endpoint_slice: Object) -> float:
    """Return the annotated time in seconds since 1970, or 0 if there is none or it cannot be read."""
    try:
        return datetime.fromisoformat((endpoint_slice["metadata"].get("annotations") or {})[ANNOTATION]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0
