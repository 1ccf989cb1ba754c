"""Connects to API servers. The suite's own clusters need only a token and a CA certificate. Other kubeconfigs may
need the official client, which is an optional package.
"""

import base64
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

from harness.model.package_extras import require

if TYPE_CHECKING:
    from harness.api.kubeconfig import Kubeconfig

DEFAULT = "~/.kube/config"

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder with the token, CA certificate and namespace of a pod's service account."""


@dataclass(frozen=True, slots=True)
class Connection:
    pool: urllib3.PoolManager
    server: str
    authentication: Callable[[], dict[str, str]]  # returns the headers of the next request


def connection_of(kubeconfig: Mapping[str, Any]) -> Connection:
    """Connect to the first cluster of a kubeconfig, with its inline CA certificate and the token of the first user."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    headers = {"authorization": f"Bearer {user['token']}"} if "token" in user else {}
    ca = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
    context = ssl.create_default_context(cadata=ca or None)
    return Connection(urllib3.PoolManager(ssl_context=context), cluster["server"], lambda: headers)


def find(files: str = "", *, context: str = "") -> "Kubeconfig":
    """Find the kubeconfig as kubectl does. In a pod without one, use the pod's service account. Raises `UsageError`,
    and `UnavailableError` without the official client.
    """
    require("kubernetes", extra="kubeconfig", feature="a cluster with a kubeconfig")
    from harness.api.kubeconfig import InClusterConfig, Kubeconfig  # noqa: PLC0415  they import an optional package

    files, in_pod = files_of(files), "KUBERNETES_SERVICE_HOST" in os.environ
    if in_pod and files == DEFAULT and not Path(DEFAULT).expanduser().exists():
        return InClusterConfig(SERVICE_ACCOUNT)
    return Kubeconfig(files, context=context)


def files_of(files: str) -> str:
    """Return the files that kubectl would read with this value of --kubeconfig, separated by ":"."""
    return files or os.environ.get("KUBECONFIG", "") or DEFAULT
