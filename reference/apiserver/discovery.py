"""Discovery, the documents about what is served: /version, /api, /apis, and a list for each group and version.

Old clients ask for each group in turn; new ones (Kubernetes 1.26 on) ask once, for the aggregated form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reference.apiserver import media
from reference.apiserver.kinds import Resource, Strategy, View
from reference.apiserver.kinds.strategy import api_version
from reference.apiserver.registry import Registry
from reference.client import Object

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_AGGREGATED = ("v2", "v2beta1")
_EVICTION = {"group": "policy", "version": "v1", "kind": "Eviction"}  # what `kubectl drain` looks for beside pods


@dataclass(frozen=True, slots=True)
class Found:
    """A discovery document and its media type."""

    value: Any
    content_type: str = media.JSON


class Discovery:
    """Documents about what a registry serves now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find(self, path: str, accept: str) -> Found | None:
        """The document at a path; None when there is none."""
        parts = path.strip("/").split("/")
        found: Found | None = None
        match parts:
            case [""]:
                found = Found({"paths": self._paths()})
            case ["version"]:
                found = Found(self._version())
            case ["api" | "apis"]:
                found = self._root(parts[0], accept)
            case ["api", version]:
                found = self._resources("", version)
            case ["apis", group]:
                found = self._group_document(group)
            case ["apis", group, version]:
                found = self._resources(group, version)
        return found

    def _version(self) -> Object:
        major, minor = self._registry.features.version
        return {
            "major": str(major),
            "minor": str(minor),
            "gitVersion": f"v{major}.{minor}.0",
            "gitCommit": "0" * 40,
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "python",
            "compiler": "python",
            "platform": "linux/amd64",
        }

    def _root(self, which: str, accept: str) -> Found:
        for version in _AGGREGATED:
            if _wants_aggregated(accept, version):
                content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                return Found(self._aggregated(which, version), content_type)
        if which == "api":
            everywhere = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            return Found({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": everywhere})
        groups = [self._group(group, versions) for group, versions in self._groups().items() if group]
        return Found({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def _group_document(self, group: str) -> Found | None:
        versions = self._groups().get(group)
        return Found({"kind": "APIGroup", "apiVersion": "v1", **self._group(group, versions)}) if versions else None

    def _group(self, group: str, versions: dict[str, list[Strategy]]) -> Object:
        named = [{"groupVersion": api_version(group, each), "version": each} for each in versions]
        return {"name": group, "versions": named, "preferredVersion": named[0]}

    def _resources(self, group: str, version: str) -> Found | None:
        strategies = self._groups().get(group, {}).get(version)
        if strategies is None:
            return None
        resources = [entry for each in strategies for entry in _entries(each)]
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version)}
        return Found({**head, "resources": resources})

    def _aggregated(self, which: str, version: str) -> Object:
        items = [
            {
                "metadata": {**({"name": group} if group else {}), "creationTimestamp": None},
                "versions": [
                    {
                        "version": name,
                        "freshness": "Current",
                        "resources": [_aggregated_entry(each, group, name) for each in strategies],
                    }
                    for name, strategies in versions.items()
                ],
            }
            for group, versions in self._groups().items()
            if (group == "") == (which == "api")
        ]
        head = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
        return {**head, "metadata": {}, "items": items}

    def _groups(self) -> dict[str, dict[str, list[Strategy]]]:
        """Group, version, kinds; with the second groups under which some kinds are served."""
        found: dict[str, dict[str, list[Strategy]]] = {"": {"v1": []}}
        for strategy in self._registry.strategies.values():
            places: tuple[Resource | View, ...] = (strategy.resource, *strategy.views)
            for served in places:
                found.setdefault(served.group, {}).setdefault(served.version, []).append(strategy)
        return found

    def _paths(self) -> list[str]:
        return sorted([*self._prefixes(), "/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi/v2"])

    def _prefixes(self) -> Iterator[str]:
        for group, versions in self._groups().items():
            for version in versions:
                yield f"/apis/{group}/{version}" if group else f"/api/{version}"


def _wants_aggregated(accept: str, version: str) -> bool:
    for entry in accept.split(","):
        type_, parameters = media.parse(entry)
        if type_ == media.JSON and parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") == version:
            return True
    return False


def _entries(strategy: Strategy) -> Iterator[Object]:
    resource = strategy.resource
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    if resource.has_status:
        named = {"name": f"{resource.plural}/status", "singularName": "", "namespaced": resource.namespaced}
        yield {**named, "kind": resource.kind, "verbs": _STATUS_VERBS}
    if resource.plural == "pods":
        yield {"name": "pods/eviction", "singularName": "", "namespaced": True, **_EVICTION, "verbs": ["create"]}


def _aggregated_entry(strategy: Strategy, group: str, version: str) -> Object:
    resource = strategy.resource
    kind = {"group": group, "version": version, "kind": resource.kind}
    entry: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _VERBS,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.has_status:
        entry["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": _STATUS_VERBS}]
    if resource.plural == "pods":
        entry["subresources"].append({"subresource": "eviction", "responseKind": _EVICTION, "verbs": ["create"]})
    return entry
