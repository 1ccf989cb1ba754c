"""Checks objects against the Pod Security Standards and the quotas of their namespace before they are stored."""

from __future__ import annotations

from reference.apiserver import status, writes
from reference.apiserver.kinds import Strategy
from reference.apiserver.manners import pod_security, quota
from reference.apiserver.registry import NAMESPACES, Call, Registry
from reference.client import Object

SERVICE_ACCOUNTS = "serviceaccounts"


class NamespaceAdmission:
    """The admission of a cluster with quotas, Pod Security Standards and service accounts."""

    def admit(self, registry: Registry, strategy: Strategy, obj: Object, call: Call) -> None:
        """Check an object that is to be created. Raises `ApiError` (403); adds to the warnings of `call`."""
        if strategy.resource.plural == "pods":
            _hold_to_standard(registry, strategy, obj, call)
        quota.admit(registry, strategy, obj)

    def created(self, registry: Registry, obj: Object) -> None:
        """Count a new object; a new namespace gets its default service account."""
        self.changed(registry, obj)
        if obj["kind"] == "Namespace":
            account = {"metadata": {"name": "default"}}
            writes.create(registry, SERVICE_ACCOUNTS, obj["metadata"]["name"], account, Call())

    def changed(self, registry: Registry, obj: Object) -> None:
        """Count anew what the object's namespace uses: the object was created, replaced or removed."""
        quota.recount(registry, obj["metadata"].get("namespace") or "")


def _hold_to_standard(registry: Registry, strategy: Strategy, obj: Object, call: Call) -> None:
    namespace = registry.store.get(NAMESPACES, ("", obj["metadata"]["namespace"]))
    if namespace is None:
        return
    if found := pod_security.violations(obj, pod_security.level(namespace.object, "enforce")):
        raise status.refused(strategy.resource, obj["metadata"]["name"], found.replace("violate", "violates", 1))
    if found := pod_security.violations(obj, pod_security.level(namespace.object, "warn")):
        call.warnings.append(f"would {found}")
