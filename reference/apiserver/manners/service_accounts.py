"""ServiceAccounts, which pods name and which may ask for tokens; each new namespace has one that is called default."""

from __future__ import annotations

from reference.apiserver.kinds import columns
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.shapes import BOOLEAN, OBJECT_REFERENCE, STRING, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy


class ServiceAccounts(Strategy):
    """ServiceAccounts."""

    resource = Resource("", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", ("sa",))
    shape = of_object(
        secrets=[OBJECT_REFERENCE], imagePullSecrets=[{"name": STRING}], automountServiceAccountToken=BOOLEAN
    )

    def table(self) -> list[Column]:
        secrets = columns.number("Secrets", "How many secrets it names.", lambda obj: len(obj.get("secrets") or []))
        return [columns.NAME, secrets, columns.AGE]
