"""Send the same requests to API servers, and reduce their responses to the parts that must be equal."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.reference.apiserver.widget_requests import WidgetRequest

_OWN = frozenset({"uid", "creationTimestamp", "resourceVersion", "managedFields", "storageVersionHash", "description"})
"""The fields that differ between two servers, or from one run to the next."""


class ServerClient:
    """A client of one server."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._url, self._token = cluster["server"], user["token"]
        self._tls = ssl.create_default_context(cadata=authority)

    def __call__(self, sent: WidgetRequest) -> tuple[int, Any, list[str]]:
        """Return the code, the body and the warnings of an answer."""
        data = None if sent.body is None else json.dumps(sent.body).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": sent.content_type,
            "Accept": sent.accept,
        }
        request = urllib.request.Request(self._url + sent.path, data, headers, method=sent.method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            with error:
                said = error.read()  # for an unknown group, kube-apiserver sends plain text
                return (
                    error.code,
                    json.loads(said) if said.startswith(b"{") else {},
                    error.headers.get_all("Warning") or [],
                )


def reduced(body: Any) -> Any:
    """Return a response without the parts that differ between servers."""
    if isinstance(body, list):
        found = [reduced(each) for each in body]
        return sorted(found) if all(isinstance(each, str) for each in found) else found
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Status" and body.get("status") == "Failure":
        causes = (body.get("details") or {}).get("causes") or ()
        return {"reason": body.get("reason"), "causes": sorted([each.get("field"), each["reason"]] for each in causes)}
    return {name: reduced(each) for name, each in body.items() if name not in _OWN and each != ""}
