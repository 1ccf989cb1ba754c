"""Keeps namespaces to their ResourceQuotas, as Kubernetes' admission plugin and quota controller do together.

Counted are objects (`pods`, `services`, `count/leases.coordination.k8s.io`, …) and what pods ask for of CPU and memory.
Quotas with scopes other than those of the quality of service are accepted, and not enforced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal

from reference.apiserver import status
from reference.apiserver.kinds import Resource, Strategy, quantities
from reference.apiserver.registry import Registry
from reference.client import Object

QUOTAS = "resourcequotas"
_BY_NAME = frozenset({"pods", "services", "configmaps", "secrets", QUOTAS})
_COMPUTE = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_ENDED = frozenset({"Succeeded", "Failed"})

Amounts = Mapping[str, Decimal]


def admit(registry: Registry, strategy: Strategy, obj: Object) -> None:
    """Raises `ApiError` (403) when an object that is to be created is more than its namespace may have."""
    resource, name = strategy.resource, obj["metadata"]["name"]
    for quota in _quotas(registry, obj["metadata"].get("namespace") or ""):
        if not _in_scope(quota, resource, obj):
            continue
        hard = _hard(quota)
        if lacking := _lacking(resource, obj, hard):
            raise status.refused(resource, name, f"failed quota: {quota['metadata']['name']}: must specify {lacking}")
        wanted = {each: amount for each, amount in _charge(resource, obj).items() if each in hard and amount}
        used = _used(registry, quota) if wanted else {}
        over = sorted(each for each, amount in wanted.items() if used[each] + amount > hard[each])
        if over:
            asked, had, limited = (_listed(each, over) for each in (wanted, used, hard))
            why = f"exceeded quota: {quota['metadata']['name']}, requested: {asked}, used: {had}, limited: {limited}"
            raise status.refused(resource, name, why)


def recount(registry: Registry, namespace: str) -> None:
    """Write to the status of a namespace's quotas how much is used now; to be called when something came or went."""
    for quota in _quotas(registry, namespace):
        used = _used(registry, quota)
        now = {
            "hard": dict((quota.get("spec") or {}).get("hard") or {}),
            "used": {name: quantities.shown(amount, name) for name, amount in used.items()},
        }
        if quota.get("status") != now:
            registry.store.put(QUOTAS, {**quota, "metadata": dict(quota["metadata"]), "status": now})


def _quotas(registry: Registry, namespace: str) -> list[Object]:
    if QUOTAS not in registry.strategies or not registry.store.keys(QUOTAS):
        return []
    every = [each.object for each in registry.store.items(QUOTAS)]
    return [each for each in every if each["metadata"]["namespace"] == namespace]


def _hard(quota: Object) -> Amounts:
    hard = (quota.get("spec") or {}).get("hard") or {}
    return {name: quantities.amount(text) for name, text in hard.items()}


def _used(registry: Registry, quota: Object) -> dict[str, Decimal]:
    found: Counter[str] = Counter()
    hard = _hard(quota)
    for plural in {_resource_of(name) for name in hard} & registry.strategies.keys():
        resource = registry.strategies[plural].resource
        for stored in registry.store.items(plural):
            of_namespace = stored.object["metadata"].get("namespace") == quota["metadata"]["namespace"]
            if of_namespace and _in_scope(quota, resource, stored.object):
                for name, amount in _charge(resource, stored.object).items():
                    found[name] += amount  # type: ignore[assignment]  # a Counter adds up whatever can be added
    return {name: Decimal(found[name]) for name in hard}


def _resource_of(name: str) -> str:
    if name in _COMPUTE:
        return "pods"
    return name.removeprefix("count/").partition(".")[0]


def _charge(resource: Resource, obj: Object) -> dict[str, Decimal]:
    """Return the amounts that one object counts for, by the names that quotas have for them."""
    plural = resource.plural
    found = {f"count/{plural}.{resource.group}" if resource.group else f"count/{plural}": Decimal(1)}
    if plural in _BY_NAME and not _ended(obj):
        found[plural] = Decimal(1)
    if plural == "services":
        found |= _charge_service(obj.get("spec") or {})
    if plural == "pods" and not _ended(obj):
        found |= {name: _sum(obj, *where) for name, where in _COMPUTE.items()}
    return found


def _charge_service(spec: Object) -> dict[str, Decimal]:
    ports = len(spec.get("ports") or ()) if spec.get("type") in {"NodePort", "LoadBalancer"} else 0
    balanced = spec.get("type") == "LoadBalancer"
    return {"services.nodeports": Decimal(ports), "services.loadbalancers": Decimal(int(balanced))}


def _ended(obj: Object) -> bool:
    return obj.get("kind") == "Pod" and (obj.get("status") or {}).get("phase") in _ENDED


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    for each in (pod.get("spec") or {}).get("containers") or []:
        yield each.get("name", ""), each.get("resources") or {}


def _sum(pod: Object, kind: str, what: str) -> Decimal:
    amounts = ((each.get(kind) or {}).get(what) for _, each in _containers(pod))
    return sum((quantities.amount(each) for each in amounts if each is not None), Decimal(0))


def _lacking(resource: Resource, obj: Object, hard: Amounts) -> str:
    """Return the requests and limits that a quota needs of each container and that are missing, "" if none is."""
    if resource.plural != "pods":
        return ""
    found = []
    for name in sorted(hard.keys() & _COMPUTE.keys()):
        kind, what = _COMPUTE[name]
        silent = [container for container, each in _containers(obj) if what not in (each.get(kind) or {})]
        if silent:
            found.append(f"{name} for: {','.join(silent)}")
    return "; ".join(found)


def _in_scope(quota: Object, resource: Resource, obj: Object) -> bool:
    scopes = (quota.get("spec") or {}).get("scopes") or []
    if not scopes:
        return True
    best_effort = (obj.get("status") or {}).get("qosClass") == "BestEffort"
    holds = {"BestEffort": best_effort, "NotBestEffort": not best_effort}
    return resource.plural == "pods" and all(holds.get(each, False) for each in scopes)


def _listed(amounts: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={quantities.shown(amounts[name], name)}" for name in names)
