"""`trafficdist explain`: reads a Service, its slices and the nodes of any cluster, and explains its routing.

An adapter that knows the reference: it computes the decisions of the reference's controller and proxy.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.api.client import Api, RefusedError
from harness.api.kubeconfig import files_of, find
from harness.errors import InconclusiveError, UnavailableError, UsageError
from harness.guest import errors
from reference.explanation import Explanation, Tier, explain
from reference.features import NEWEST, OLDEST, Features, Reading

_WIDTH = 160  # letters of a line of text
SAME = 6  # node names on a line; the rest is counted


def explain_service(name: str, *, kubeconfig: str, context: str, follow: Reading, console: Console) -> None:
    """Print the explanation of Service `name` ("web", or "shop/web"). Raises `UsageError`, `UnavailableError`."""
    namespace, _, short = name.rpartition("/")
    loaded = find(kubeconfig, context=context)
    api = Api(loaded, timeout=15)
    try:
        for part in _explained(api, namespace or loaded.namespace, short, follow):
            console.print(part, soft_wrap=isinstance(part, str))
    except (InconclusiveError, RefusedError) as error:
        raise UnavailableError(f"kubeconfig {files_of(kubeconfig)}: {errors.of(error, server=api.server)}") from error
    finally:
        api.close()


def explained(api: Api, namespace: str, name: str, follow: Reading) -> str:
    """Return the explanation as text. Raises `UsageError`, `RefusedError` and `InconclusiveError`."""
    written = io.StringIO()
    console = Console(file=written, width=_WIDTH, highlight=False)
    for part in _explained(api, namespace, name, follow):
        console.print(part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _explained(api: Api, namespace: str, name: str, follow: Reading) -> Iterable[Any]:
    try:
        service = api.get("services", namespace, name)
    except RefusedError as error:
        if error.response.code != 404:
            raise
        said = f"{error.response.body.get('message', error)}; it has {_some(api, namespace)}"
        raise UsageError(f"Service {namespace}/{name}: {said}") from None
    slices = api.list("endpointslices", namespace, label_selector=f"kubernetes.io/service-name={name}")
    nodes = api.list("nodes")
    version = api.request("GET", "/version").body
    features = Features(_version(version), follows=follow)
    found = explain(service, slices, sorted(nodes, key=lambda each: str(each["metadata"]["name"])), features)
    spec = service["spec"]
    yield f"Service {namespace}/{name}, {spec.get('type', 'ClusterIP')} {', '.join(spec.get('clusterIPs') or [])}"
    yield f"  cluster     Kubernetes {version.get('gitVersion', '?')}, {len(nodes)} nodes"
    yield f"  decides     {found.decided_by}"
    yield from (f"  hints       {each}" for each in found.hints)
    yield f"  safeguard   {found.safeguard or 'none failed'}"
    if spec.get("externalTrafficPolicy") == "Local":
        yield "  policy      externalTrafficPolicy is Local: hints do not count for traffic from outside"
    yield ""
    yield _table(found)


def _table(found: Explanation) -> Table:
    """Return the table of decisions; nodes with the same decision share a line."""
    table = Table(
        "nodes", "zone", "port", "uses", "endpoints", "because", box=None, pad_edge=False, header_style="bold"
    )
    groups: dict[tuple[str, str, str, int, str], list[Tier]] = {}
    for each in found.tiers:
        because = each.because.replace(f"node {each.node}", "the node")
        groups.setdefault((each.zone, each.port, each.tier, each.used, because), []).append(each)
    for (zone, port, tier, used, because), tiers in groups.items():
        names = [each.node for each in tiers]
        more = f" and {len(names) - SAME} more" if len(names) > SAME else ""
        table.add_row(" ".join(names[:SAME]) + more, zone or "(none)", port, tier, str(used), because)
    return table


def _some(api: Api, namespace: str) -> str:
    names = [str(each["metadata"]["name"]) for each in api.list("services", namespace)]
    return ", ".join(names[:SAME]) or f"no Service in namespace {namespace}"


def _version(told: Mapping[str, Any]) -> tuple[int, int]:
    """Return the server's version, or the nearest one that is known."""
    match = re.match(r"v?(\d+)\.(\d+)", str(told.get("gitVersion", "")))
    found = (int(match[1]), int(match[2])) if match else NEWEST
    return min(max(found, OLDEST), NEWEST)
