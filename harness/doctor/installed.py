"""Finds the service proxy of a cluster among its DaemonSets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.api.client import Object
from harness.doctor.check import Check, ok, unknown

_KNOWN = {  # a part of the name of a DaemonSet, and what it does with Services
    "kube-proxy": "",
    "cilium": "serves Services itself where kube-proxy replacement is on",
    "calico-node": "serves Services itself in eBPF mode",
    "canal": "",
    "kube-router": "serves Services itself with --run-service-proxy",
    "antrea-agent": "serves Services itself (AntreaProxy)",
    "ovnkube-node": "serves Services itself",
    "kube-ovn": "serves Services itself with its load balancer on",
    "kindnet": "",
    "kube-flannel": "",
    "aws-node": "",
    "weave-net": "",
}
_PROXIES = {name for name, does in _KNOWN.items() if does} | {"kube-proxy"}


@dataclass(frozen=True, slots=True)
class Found:
    """A DaemonSet for Services or pod networks: its name, its image, and what it does, if known."""

    name: str
    image: str
    does: str
    serves: bool


def recognised(daemon_sets: Iterable[Object]) -> list[Found]:
    """Return the known DaemonSets; those that may serve Services come first."""
    found = []
    for each in daemon_sets:
        name = str(each["metadata"]["name"])
        kind = next((known for known in _KNOWN if known in name), "")
        if kind:
            containers = each["spec"]["template"]["spec"].get("containers") or [{}]
            found.append(Found(name, str(containers[0].get("image", "?")), _KNOWN[kind], kind in _PROXIES))
    return sorted(found, key=lambda each: (not each.serves, each.name))


def check(daemon_sets: Iterable[Object]) -> Check:
    """Check that a known proxy serves Services on the nodes."""
    found = recognised(daemon_sets)
    said = "; ".join(f"{each.name} ({each.image}){f', {each.does}' if each.does else ''}" for each in found)
    if any(each.serves for each in found):
        return ok("proxy", said)
    none = "no DaemonSet that is known to serve Services" + (f", but {said}" if said else "")
    return unknown("proxy", f"{none}; distributions may build it in", "name it with --project and --version")
