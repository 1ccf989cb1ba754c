"""Roles and their bindings, by which `reference.apiserver.manners.authorization` decides."""

from __future__ import annotations

from typing import ClassVar

from reference.apiserver.kinds import columns, errors
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, STRING, Shape, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

GROUP = "rbac.authorization.k8s.io"
_RULES: Shape = [
    {
        "verbs": [STRING],
        "apiGroups": [STRING],
        "resources": [STRING],
        "resourceNames": [STRING],
        "nonResourceURLs": [STRING],
    }
]
_BINDING: dict[str, Shape] = {
    "subjects": [{"kind": STRING, "apiGroup": STRING, "name": STRING, "namespace": STRING}],
    "roleRef": {"apiGroup": STRING, "kind": STRING, "name": STRING},
}
_SUBJECTS = ("Group", "ServiceAccount", "User")
_CREATED = columns.text("Created At", "When it was created.", lambda obj: obj["metadata"].get("creationTimestamp", ""))


def _path_segment(name: str) -> list[str]:
    """Names of roles have colons, as `system:discovery` has."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in name]


class _Roles(Strategy):
    def valid_name(self, name: str) -> list[str]:
        return _path_segment(name)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        for index, rule in enumerate(obj.get("rules") or []):
            found += _validate_rule(rule, f"rules[{index}]", namespaced=self.resource.namespaced)
        return found

    def table(self) -> list[Column]:
        return [columns.NAME, _CREATED]


class Roles(_Roles):
    """Rules for one namespace."""

    resource = Resource(GROUP, "v1", "Role", "roles", "role")
    shape = of_object(rules=_RULES)


class ClusterRoles(_Roles):
    """Rules for the cluster, or for whichever namespace they are bound in."""

    resource = Resource(GROUP, "v1", "ClusterRole", "clusterroles", "clusterrole", namespaced=False)
    shape = of_object(rules=_RULES, aggregationRule=ANY)


class _Bindings(Strategy):
    roles: ClassVar[tuple[str, ...]]

    def valid_name(self, name: str) -> list[str]:
        return _path_segment(name)

    def default(self, obj: Object) -> None:
        if isinstance(obj.get("roleRef"), dict) and not obj["roleRef"].get("apiGroup"):
            obj["roleRef"]["apiGroup"] = GROUP
        for each in obj.get("subjects") or []:
            if not each.get("apiGroup") and each.get("kind") in {"User", "Group"}:
                each["apiGroup"] = GROUP

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found, reference = super().validate(obj, features), obj.get("roleRef") or {}
        if reference.get("kind") not in self.roles:
            found.append(errors.not_supported("roleRef.kind", reference.get("kind") or "", self.roles))
        if not reference.get("name"):
            found.append(errors.required("roleRef.name"))
        for index, each in enumerate(obj.get("subjects") or []):
            found += _validate_subject(each, f"subjects[{index}]", namespaced=self.resource.namespaced)
        return found

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        if new.get("roleRef") != old.get("roleRef"):
            found.append(errors.invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return found

    def table(self) -> list[Column]:
        role = columns.text("Role", "What is bound.", lambda obj: "{kind}/{name}".format(**obj["roleRef"]))
        return [columns.NAME, role, columns.AGE, *(_subjects(each) for each in ("User", "Group", "ServiceAccount"))]


class RoleBindings(_Bindings):
    """Subjects that have a role in one namespace."""

    resource = Resource(GROUP, "v1", "RoleBinding", "rolebindings", "rolebinding")
    shape = of_object(**_BINDING)
    roles = ("Role", "ClusterRole")


class ClusterRoleBindings(_Bindings):
    """Subjects that have a role everywhere."""

    resource = Resource(
        GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", namespaced=False
    )
    shape = of_object(**_BINDING)
    roles = ("ClusterRole",)


def _subjects(kind: str) -> Column:
    def names(obj: Object) -> str:
        every = [each for each in obj.get("subjects") or [] if each.get("kind") == kind]
        return ", ".join("/".join(filter(None, (each.get("namespace"), each["name"]))) for each in every)

    return columns.text(f"{kind}s", f"Each {kind} that has it.", names, wide=True)


def _validate_rule(rule: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    found = [] if rule.get("verbs") else [errors.required(f"{path}.verbs", "verbs must contain at least one value")]
    if rule.get("nonResourceURLs"):
        if namespaced:
            said = "namespaced rules cannot apply to non-resource URLs"
            found.append(errors.invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], said))
        return found
    for name in ("apiGroups", "resources"):
        if not rule.get(name):
            said = f"resource rules must supply at least one {'api group' if name == 'apiGroups' else 'resource'}"
            found.append(errors.required(f"{path}.{name}", said))
    return found


def _validate_subject(subject: Object, path: str, *, namespaced: bool) -> list[FieldError]:
    kind, found = subject.get("kind"), []
    if not subject.get("name"):
        found.append(errors.required(f"{path}.name"))
    if kind not in _SUBJECTS:
        found.append(errors.not_supported(f"{path}.kind", kind or "", _SUBJECTS))
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        found.append(errors.required(f"{path}.namespace"))
    return found
