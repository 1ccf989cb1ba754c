"""What stands between a valid object and the store: the Pod Security Standards and the quotas of its namespace."""

from __future__ import annotations

from reference.apiserver import quota, status
from reference.apiserver.kinds import Strategy, pod_security
from reference.apiserver.registry import NAMESPACES, Call, Registry
from reference.client import Object


def admit(registry: Registry, strategy: Strategy, obj: Object, call: Call) -> None:
    """Look at an object that is to be created. Raises `ApiError` (403); adds to the warnings of `call`."""
    if strategy.resource.plural == "pods":
        _hold_to_standard(registry, strategy, obj, call)
    quota.admit(registry, strategy, obj)


def _hold_to_standard(registry: Registry, strategy: Strategy, obj: Object, call: Call) -> None:
    namespace = registry.store.get(NAMESPACES, ("", obj["metadata"]["namespace"]))
    if namespace is None:
        return
    if found := pod_security.violations(obj, pod_security.level(namespace.object, "enforce")):
        raise status.refused(strategy.resource, obj["metadata"]["name"], found.replace("violate", "violates", 1))
    if found := pod_security.violations(obj, pod_security.level(namespace.object, "warn")):
        call.warnings.append(f"would {found}")
