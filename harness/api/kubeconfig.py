"""Read kubeconfig files as kubectl does, or a pod's service account. If several files set a current context, kubectl
uses the first of them, and the official client the last. Keys and certificates are stored in memory files (memfd),
because the client's temporary files would remain after `kill -9`.
"""

import os
import threading
import weakref
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import yaml
from kubernetes.config import kube_config
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import KubeConfigMerger

from harness.api.connection import Connection
from harness.errors import UsageError
from harness.model import strict_yaml
from harness.model.files import fault_of_path, is_there, shown

_ANOTHER = "; choose another file with --kubeconfig"


class Kubeconfig:
    """A context in one or several kubeconfig files, with its name and its Kubernetes namespace."""

    def __init__(self, files: str, *, context: str = "") -> None:
        """Read `files`, which are separated by ":". Some of them may be missing. Raises `UsageError`."""
        self._files = files
        merger = self._read()
        try:
            found = [each.value for each in merger.config.value["contexts"]]
            namespaces = {each["name"]: (each.get("context") or {}).get("namespace") for each in found}
            current = [each.get("current-context") for each in merger.config_files.values()]
        except (AttributeError, KeyError, TypeError):
            raise self._error(f"is not a kubeconfig{_ANOTHER}") from None
        self.context = context or next(filter(None, current), "")
        if not self.context:
            raise self._error(f"has no current context; choose one with --context: {_named(namespaces)}")
        if self.context not in namespaces:
            raise self._error(f"has no context {self.context!r}; its contexts are: {_named(namespaces)}")
        self.namespace = str(namespaces[self.context] or "default")
        self._merged = merger.config

    def client(self) -> Any:
        try:
            return _client(self._merged, self.context)
        except Exception as error:  # the client's errors have no common base class
            raise self._error(f"context {self.context} cannot be used: {error}") from error

    def connection(self) -> Connection:
        client = self.client()
        return Connection(client.rest_client.pool_manager, client.configuration.host, partial(_authentication, client))

    def _read(self) -> Any:
        for each in self._files.split(os.pathsep):
            path = os.path.expanduser(each)  # noqa: PTH111  as the client does; Path.expanduser raises for unknown users
            if fault := fault_of_path(path):
                raise self._error(f"is not a path: {fault}{_ANOTHER}")
            try:
                if is_there(path) and not isinstance(strict_yaml.read(path, what="kubeconfig"), dict | None):
                    raise UsageError(f"kubeconfig {shown(path)}: is not a kubeconfig")
            except UsageError as error:
                raise UsageError(f"{error}{_ANOTHER}") from None
        try:
            merger = KubeConfigMerger(self._files)  # type: ignore[no-untyped-call]
        except kubernetes.config.ConfigException as error:
            raise self._error(f"{error}{_ANOTHER}") from None
        except (OSError, yaml.YAMLError, ValueError) as error:  # ValueError: an invalid date, or invalid UTF-8
            said = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise self._error(f"cannot be read: {said}{_ANOTHER}") from None
        except (AttributeError, KeyError, TypeError):
            raise self._error(f"is not a kubeconfig{_ANOTHER}") from None
        if merger.config is None:
            raise self._error("no such file; choose one with --kubeconfig")
        return merger

    def _error(self, what: str) -> UsageError:
        return UsageError(f"kubeconfig {shown(self._files)}: {what}")


class InClusterConfig(Kubeconfig):
    """Access to the cluster in which this process runs as a pod, with the permissions of the pod's service account."""

    def __init__(self, folder: Path) -> None:
        """Raises `UsageError` outside a pod, and in a pod without the service account's files."""
        self._files, self.context = f"of the service account, {folder}", "in-cluster"
        self._token = folder / "token"
        self._loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
            token_filename=str(self._token), cert_filename=str(folder / "ca.crt"), try_refresh_token=False
        )
        try:
            self.namespace = (folder / "namespace").read_text(encoding="utf-8").strip() or "default"
            self._loader.load_and_set(kubernetes.client.Configuration())  # type: ignore[no-untyped-call]
        except (OSError, kubernetes.config.ConfigException) as error:
            raise self._error(str(error)) from None

    def client(self) -> Any:
        """Return the official client. It rereads the token for each request, because kubelets renew the token."""
        configuration = kubernetes.client.Configuration()
        self._loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        configuration.refresh_api_key_hook = self._renew  # type: ignore[assignment]
        return kubernetes.client.ApiClient(configuration)

    def _renew(self, configuration: Any) -> None:
        configuration.api_key["BearerToken"] = "Bearer " + self._token.read_text(encoding="utf-8").strip()


def _named(contexts: Iterable[str]) -> str:
    return ", ".join(contexts) or "none"


def _authentication(client: Any) -> dict[str, str]:
    return {each["key"]: each["value"] for each in client.configuration.auth_settings().values()}


def _client(config: Any, context: str | None = None) -> Any:
    """Return the official client for a context. Its memory files are closed when the client is garbage-collected."""
    mine: list[int] = []
    _memory.descriptors = mine
    try:
        client = kubernetes.config.new_client_from_config_dict(  # type: ignore[no-untyped-call]
            config, context=context, persist_config=False
        )
    finally:
        _memory.descriptors = []
    for each in mine:
        weakref.finalize(client, os.close, each)
    return client


class _MemoryFiles(threading.local):
    def __init__(self) -> None:
        self.descriptors: list[int] = []


def _keep_in_memory(content: str | bytes, *_: object, **__: object) -> str:
    """Write content to a new memory file, and return its path, because the official client requires paths."""
    descriptor = os.memfd_create("kubeconfig")
    os.write(descriptor, content.encode() if isinstance(content, str) else content)
    _memory.descriptors.append(descriptor)
    return f"/proc/self/fd/{descriptor}"


_memory = _MemoryFiles()
kube_config._create_temp_file_with_content = _keep_in_memory  # there is no public API for this
