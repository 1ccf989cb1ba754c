"""Evidence about a node's proxy from the cluster's API, and commands for evidence that needs root on the node. A run
does not require permission to read the proxy's log, because this permission covers the logs of all pods.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.api.client import Api, RefusedError, log_of_pod
from harness.errors import InconclusiveError
from harness.probes.loop import Probe

_MOST = {"tailLines": "1000", "limitBytes": "300000"}


@dataclass(frozen=True, slots=True)
class ProxySelector:
    name: str
    namespace: str
    selector: str


KUBE_PROXY = ProxySelector("kube-proxy", "kube-system", "k8s-app=kube-proxy")


@dataclass(frozen=True, slots=True)
class ProxyLog:
    """The last lines of the log of a node's proxy. If no log could be read, `missing` is the reason."""

    text: str = ""
    missing: str = ""


def proxy_logs(api: Api, nodes: Sequence[str], place: ProxySelector = KUBE_PROXY) -> dict[str, ProxyLog]:
    """Return the proxy's log on each of these nodes, keyed by node name. Stop at the first failed request."""
    none = f"no pod in {place.namespace} with label {place.selector} is on its node"
    found = dict.fromkeys(nodes, ProxyLog(missing=none))
    try:
        pods = api.list("pods", place.namespace, label_selector=place.selector)
        names = {str(each["spec"].get("nodeName")): str(each["metadata"]["name"]) for each in pods}
        for node in found.keys() & names.keys():
            text = log_of_pod(api, place.namespace, names[node], **_MOST)
            forbidden = f"the run needs `get` of pods/log in namespace {place.namespace}"
            found[node] = ProxyLog(text) if text else ProxyLog(missing=forbidden)
    except (InconclusiveError, RefusedError) as error:
        return {node: each if each.text else ProxyLog(missing=str(error)) for node, each in found.items()}
    return found


def missing(probe: Probe, node: str, root: str, log: ProxyLog) -> Iterator[str]:
    """Yield each unknown part of a probe's path and a command that shows it. `root` explains how to become root."""
    capture = f"`tcpdump -ni any host {probe.address} and port {probe.port}`"
    entry = f"conntrack -L -d {probe.address} -p {probe.protocol.lower()} --dport {probe.port}"
    where = f"on node {node}, as root ({root})"
    yield f"which rules handled the packet: `nft monitor trace`, or `iptables-save -c` before and after, {where}"
    yield f"its conntrack entry: `{entry}` {where}"
    yield f"its packets at the node: {capture} {where}"
    yield (
        f"its packets at client and server: {capture} in their pods (`kubectl debug --profile=netadmin`, with `patch` "
        "of pods/ephemeralcontainers)"
    )
    if log.missing:
        yield f"the log of its proxy: {log.missing}"
