"""A hostile EndpointSlice controller. Arguments: what it does, and a kubeconfig. It ignores SIGTERM."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import signal
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
HOSTILE = "\x1b]0;title\x07\x1b[2J\n::error::taken\n##[error]taken\n<script>alert(1)</script>\u202e" + "long" * 3000
EACH, SLICES_OF_EACH = 1000, 5

WHAT, KUBECONFIG, *_ = [*sys.argv[1:], "", ""]


class ApiClient:
    def __init__(self) -> None:
        config = json.loads(Path(KUBECONFIG).read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        self._context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        self._head = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._server + path, data, self._head, method=method)
        try:
            return json.load(urllib.request.urlopen(asked, context=self._context))
        except (OSError, ValueError, urllib.error.HTTPError):
            return {}

    def services(self) -> list[dict[str, Any]]:
        found = self.ask("GET", "/api/v1/services").get("items", [])
        return [each["metadata"] for each in found if each["spec"].get("selector")]


def hostile_slice(service: dict[str, Any], number: int, count: int, text: str) -> dict[str, Any]:
    """Return a slice of a Service with `count` endpoints and hostile texts."""
    endpoints = [
        {
            "addresses": [f"10.{99 + number % 100}.{each // 250}.{each % 250 + 1}"],
            "conditions": {"ready": True},
            "zone": HOSTILE[:63],
            "targetRef": {"kind": "Pod", "name": f"{number}-{each}-{HOSTILE}"[:200], "namespace": service["namespace"]},
        }
        for each in range(count)
    ]
    metadata = {
        "name": f"{service['name']}-hostile-{number}",
        "labels": {"kubernetes.io/service-name": service["name"]},
        "annotations": {"hostile": text},
    }
    return {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": metadata,
        "endpoints": endpoints, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    }  # fmt: skip


def write_endpoints() -> None:
    api = ApiClient()
    while True:
        for service in api.services():
            for number in range(SLICES_OF_EACH):
                api.ask("POST", SLICES.format(service["namespace"]), hostile_slice(service, number, EACH, HOSTILE))
        time.sleep(0.1)


def flood() -> None:
    """Write slices in four threads, and read them, endlessly."""
    numbers = itertools.count()

    def write() -> None:
        api = ApiClient()
        for number in numbers:
            slice_ = hostile_slice({"name": "flood", "namespace": "default"}, number, 10, HOSTILE * 20)
            api.ask("POST", SLICES.format("default"), slice_)
            if number % 100 == 0:
                api.ask("GET", SLICES.format("default"))

    for _ in range(4):
        threading.Thread(target=write, daemon=True).start()
    threading.Event().wait()


def spin() -> None:
    """Busy all CPUs in processes, and store nothing."""
    for _ in range(2 * (os.cpu_count() or 1)):
        if not os.fork():
            break
    while True:
        pass


def delete_nodes() -> None:
    api = ApiClient()
    while True:
        api.ask("DELETE", "/api/v1/nodes")
        serve()  # only now, so that the run finds it however busy the machine is
        time.sleep(0.5)


def serve() -> None:
    sys.stdout.write("serving\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        if WHAT != "delete_nodes":
            serve()
        globals()[WHAT]()
