"""Discovery documents. Aggregated discovery, which clients since Kubernetes 1.26 try first, is not implemented."""

from collections.abc import Iterator

from reference.apiserver.kinds import Strategy
from reference.apiserver.kinds.strategy import api_version, version_rank
from reference.apiserver.registry import Registry
from reference.client import Object

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_OF_PODS = (
    ("eviction", {"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    ("exec", {"kind": "PodExecOptions"}, ["create", "get"]),
    ("log", {"kind": "Pod"}, ["get"]),
    ("proxy", {"kind": "PodProxyOptions"}, ["create", "delete", "get", "patch", "update"]),
)


class Discovery:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find(self, path: str) -> Object | None:
        parts = path.strip("/").split("/")
        found: Object | None = None
        match parts:
            case [""]:
                fixed = ("/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi/v2")
                found = {"paths": sorted([*self._prefixes(), *fixed])}
            case ["version"]:
                found = self._version()
            case ["api" | "apis"]:
                found = self._root(parts[0])
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

    def _root(self, which: str) -> Object:
        if which == "api":
            everywhere = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": everywhere}
        groups = [self._group(group, versions) for group, versions in self._groups().items() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_document(self, group: str) -> Object | None:
        versions = self._groups().get(group)
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group, versions)} if versions else None

    def _group(self, group: str, versions: dict[str, list[Strategy]]) -> Object:
        in_order = sorted(versions, key=version_rank)
        named = [{"groupVersion": api_version(group, each), "version": each} for each in in_order]
        return {"name": group, "versions": named, "preferredVersion": named[0]}

    def _resources(self, group: str, version: str) -> Object | None:
        strategies = self._groups().get(group, {}).get(version)
        if strategies is None:
            return None
        resources = [entry for each in strategies for entry in _entries(each)]
        head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version)}
        return {**head, "resources": resources}

    def _groups(self) -> dict[str, dict[str, list[Strategy]]]:
        """Return the strategies by API group and version. Some kinds, for example Event, are in two groups."""
        found: dict[str, dict[str, list[Strategy]]] = {"": {"v1": []}}
        for strategy in self._registry.strategies.values():
            for place, rules in strategy.group_versions:
                found.setdefault(place.group, {}).setdefault(place.version, []).append(rules)
        return found

    def _prefixes(self) -> Iterator[str]:
        for group, versions in self._groups().items():
            for version in versions:
                yield f"/apis/{group}/{version}" if group else f"/api/{version}"


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
    subresources = [("status", {"kind": resource.kind}, _STATUS_VERBS)] if resource.has_status else []
    if strategy.scale is not None:
        subresources.append(("scale", {"group": "autoscaling", "version": "v1", "kind": "Scale"}, _STATUS_VERBS))
    for name, kind, verbs in (*subresources, *(_OF_PODS if resource.key == "pods" else ())):
        common = {"singularName": "", "namespaced": resource.namespaced}
        yield {"name": f"{resource.plural}/{name}", **common, **kind, "verbs": verbs}
