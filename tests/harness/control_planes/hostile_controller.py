"""A hostile EndpointSlice controller. Arguments: what it does, and a kubeconfig. It ignores SIGTERM."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

WHAT, KUBECONFIG = sys.argv[1:] or ["", ""]


class Api:
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


def delete_nodes() -> None:
    api = Api()
    while True:
        api.ask("DELETE", "/api/v1/nodes")
        time.sleep(0.5)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write("serving\n")
        sys.stdout.flush()
        globals()[WHAT]()
