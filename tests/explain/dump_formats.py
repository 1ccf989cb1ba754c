"""Write the objects of a cluster in the forms that people have: a recording, a List, documents, and dumps of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from explain import objects as recording
from explain.objects import Objects
from harness.api.client import Object

_KINDS = {
    "services": "Service",
    "endpointslices": "EndpointSlice",
    "nodes": "Node",
    "pods": "Pod",
    "namespaces": "Namespace",
    "ingresses": "Ingress",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "replicasets": "ReplicaSet",
    "horizontalpodautoscalers": "HorizontalPodAutoscaler",
    "poddisruptionbudgets": "PodDisruptionBudget",
}
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def by_resource(seen: Objects) -> dict[str, list[Object]]:
    """Return the objects that `kubectl get svc,endpointslices,nodes,pods,… -A` prints, by resource."""
    lists = {
        "services": seen.services,
        "endpointslices": seen.endpointslices,
        "nodes": seen.nodes,
        "pods": [*seen.pods, *seen.proxies],
        **seen.further,
    }
    return {name: [{"kind": _KINDS[name], **each} for each in found] for name, found in lists.items()}


def everything(seen: Objects) -> Iterator[Object]:
    for found in by_resource(seen).values():
        yield from found


def _recording(seen: Objects, place: Path) -> Path:
    recording.write(seen, place)
    return place


def _one_list(seen: Objects, place: Path) -> Path:
    return _text(place, yaml.dump({"apiVersion": "v1", "kind": "List", "items": [*everything(seen)]}, Dumper=_DUMPER))


def _json_list(seen: Objects, place: Path) -> Path:
    return _text(place, json.dumps({"apiVersion": "v1", "kind": "List", "items": [*everything(seen)]}))


def _documents(seen: Objects, place: Path) -> Path:
    return _text(place, yaml.dump_all(everything(seen), Dumper=_DUMPER))


def _dump_on_stdout(seen: Objects, place: Path) -> Path:
    """Write what `kubectl cluster-info dump` prints, followed by the EndpointSlices, which it leaves out."""
    log = "==== START logs for container web of pod shop/web-x ====\n{ nothing: to read\n==== END logs ====\n"
    lists = {_KINDS[name]: found for name, found in by_resource(seen).items()}
    documents = (json.dumps({"kind": f"{kind}List", "items": found}, indent=4) for kind, found in lists.items())
    return _text(place, log.join(f"{each}\n" for each in documents))


def _dump_in_folder(seen: Objects, place: Path) -> Path:
    """Write the tree of `kubectl cluster-info dump --output-directory`, with EndpointSlices beside the Services."""
    for name, found in by_resource(seen).items():
        for namespace in sorted({each["metadata"].get("namespace", "") for each in found}):
            mine = [each for each in found if each["metadata"].get("namespace", "") == namespace]
            folder = place / namespace
            folder.mkdir(parents=True, exist_ok=True)
            content = {"kind": f"{_KINDS[name]}List", "items": mine}
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (place / "shop" / "web-x").mkdir(exist_ok=True)
    (place / "shop" / "web-x" / "logs.txt").write_text("kind: Service\n", encoding="utf-8")
    return place


def _must_gather(seen: Objects, place: Path) -> Path:
    """Write a tree with one file for each object, as must-gather does for nodes and pods."""
    for name, found in by_resource(seen).items():
        for each in found:
            namespace = each["metadata"].get("namespace")
            above = f"namespaces/{namespace}/core" if namespace else "cluster-scoped-resources/core"
            folder = place / "quay-io" / above / name
            folder.mkdir(parents=True, exist_ok=True)
            _text(folder / f"{each['metadata']['name']}.yaml", yaml.dump(each, Dumper=_DUMPER))
    return place


def _text(place: Path, text: str) -> Path:
    place.write_text(text, encoding="utf-8")
    return place


SHAPES: dict[str, Callable[[Objects, Path], Path]] = {
    "recording": _recording,
    "one List": _one_list,
    "one List as JSON": _json_list,
    "documents": _documents,
    "cluster-info dump": _dump_on_stdout,
    "cluster-info dump in a folder": _dump_in_folder,
    "must-gather": _must_gather,
}
"""Writers of one form each. They return the path for `--from`."""
