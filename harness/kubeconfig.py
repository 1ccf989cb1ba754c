"""Kubeconfig files as kubectl reads them: a list of them is one, and paths in a file start from its folder.

Reading and merging is the official client's. It differs from kubectl in one point, which is mended here: where several
files name a current context, kubectl takes that of the first, the client that of the last, even when it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kubernetes.config
import yaml
from kubernetes.config.kube_config import KubeConfigMerger

from harness.errors import UsageError


class Kubeconfig:
    """One context of one or several kubeconfig files: its name, and the Kubernetes namespace that it is about."""

    def __init__(self, files: str, *, context: str = "") -> None:
        """Read `files`, separated by ":" as in $KUBECONFIG; those that are missing are passed over, unless all are.

        Without `context` it is the current one. Raises `UsageError` that names the files, and what is wrong.
        """
        self._files = files
        merger = self._read()
        try:
            found = [each.value for each in merger.config.value["contexts"]]
            namespaces = {each["name"]: (each.get("context") or {}).get("namespace") for each in found}
            current = [each.get("current-context") for each in merger.config_files.values()]
        except (AttributeError, KeyError, TypeError):
            raise self._error("is no kubeconfig") from None
        self.context = context or next(filter(None, current), "")
        if not self.context:
            raise self._error(f"has no current context; choose one with --context: {_named(namespaces)}")
        if self.context not in namespaces:
            raise self._error(f"there is no context {self.context!r}; there are {_named(namespaces)}")
        self.namespace = str(namespaces[self.context] or "default")
        self._merged = merger.config

    def client(self) -> Any:
        """The official client of the context's API server, with its credentials. Raises `UsageError`."""
        try:
            return kubernetes.config.new_client_from_config_dict(  # type: ignore[no-untyped-call]
                self._merged, context=self.context, persist_config=False
            )
        except Exception as error:  # the client's own errors have no common base
            raise self._error(f"context {self.context} cannot be used: {error}") from error

    def _read(self) -> Any:
        try:
            merger = KubeConfigMerger(self._files)  # type: ignore[no-untyped-call]
        except kubernetes.config.ConfigException as error:
            raise self._error(str(error)) from None
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise self._error(f"cannot be read: {said}; name another one with --kubeconfig") from None
        except (AttributeError, KeyError, TypeError):
            raise self._error("is no kubeconfig") from None
        if merger.config is None:
            raise self._error("no such file; name one with --kubeconfig")
        return merger

    def _error(self, what: str) -> UsageError:
        return UsageError(f"kubeconfig {self._files}: {what}")


def _named(contexts: Iterable[str]) -> str:
    return ", ".join(contexts) or "none"
