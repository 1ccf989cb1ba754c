"""ServiceAccounts."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class ServiceAccounts(Strategy):
    resource = Resource("", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", ("sa",))
