"""The API as scenarios see it, where the cluster's nodes and zones have other names than those of the topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.api.client import Api, Response
from harness.api.kubeconfig import Kubeconfig
from harness.backends.any_cluster.names import Names

TIMEOUT = 15.0  # seconds: who waits for a cluster that has gone is told so within 30


class TranslatingApi(Api):
    """Sends and gives back objects in the words of the topology."""

    def __init__(self, kubeconfig: Kubeconfig | Mapping[str, Any], names: Names, **options: Any) -> None:
        """The options are those of `Api`."""
        super().__init__(kubeconfig, timeout=TIMEOUT, **options)
        self._names = names

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Response:
        """As `Api.request`."""
        if self._names.trivial:
            return super().request(method, path, body, **options)
        answer = super().request(method, self._names.path(path), self._names.outgoing(body), **options)
        return Response(answer.code, self._names.incoming(answer.body), answer.warnings, answer.date)
