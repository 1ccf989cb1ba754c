"""ResourceQuotas: how much of what a namespace may have; `reference.apiserver.manners.quota` keeps to it."""

from __future__ import annotations

from reference.apiserver.kinds import columns, quantities
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, OTHERS, STRING, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features


class ResourceQuotas(Strategy):
    """ResourceQuotas."""

    resource = Resource("", "v1", "ResourceQuota", "resourcequotas", "resourcequota", ("quota",), has_status=True)
    shape = of_object(
        spec={"hard": {OTHERS: ANY}, "scopes": [STRING], "scopeSelector": ANY},
        status={"hard": {OTHERS: ANY}, "used": {OTHERS: ANY}},
    )

    def default(self, obj: Object) -> None:
        hard = (obj.get("spec") or {}).get("hard") or {}
        hard.update({name: str(amount) for name, amount in hard.items()})  # a manifest may have numbers

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        hard = (obj.get("spec") or {}).get("hard") or {}
        return super().validate(obj, features) + quantities.validate(hard, "spec.hard")

    def table(self) -> list[Column]:
        requests = columns.text(
            "Request", "Used and allowed, of all but limits.", lambda obj: _shown(obj, limits=False)
        )
        limits = columns.text("Limit", "Used and allowed, of limits.", lambda obj: _shown(obj, limits=True))
        return [columns.NAME, requests, limits, columns.AGE]


def _shown(obj: Object, *, limits: bool) -> str:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    chosen = sorted(name for name in hard if name.startswith("limits.") is limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in chosen)
