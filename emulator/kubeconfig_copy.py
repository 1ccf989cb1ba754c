"""Copy the kubeconfig of a background cluster to a file that the user chooses.

The copy is a separate file. kind instead merges into kubectl's default file and so changes the current cluster of every
shell. A file with other clusters is left unchanged.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from harness.errors import UsageError
from harness.model import strict_yaml
from harness.model.files import fault_of_path

CONTEXT = "trafficdist"
"""The name of the context, and of the cluster, in kubeconfigs of embedded clusters."""

_NOTE = "kubeconfig-copy"  # this file in a cluster's folder contains the path of the copy


def check(path: Path) -> None:
    """Check that `path` can be written: the file must be missing or an earlier copy. Raises `UsageError`."""
    if fault := fault_of_path(str(path)):
        raise UsageError(f"--kubeconfig {str(path)[:100]!r}: is not a path: {fault}")
    if not path.parent.is_dir():
        raise UsageError(f"--kubeconfig {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--kubeconfig {path}: folder {path.parent} is not writable")
    if path.is_dir():
        raise UsageError(f"--kubeconfig {path}: is a folder; name a file in it")
    if os.path.lexists(path) and not _is_ours(path):
        raise UsageError(
            f"--kubeconfig {path}: exists, and does not contain only an embedded cluster; name another file"
        )


def write(path: Path, source: Path, folder: Path) -> None:
    """Copy `source` to `path`, readable only by its owner, and record `path` in the cluster's `folder`.

    Raises `UsageError` if `path` cannot be written.
    """
    text = source.read_text(encoding="utf-8")
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--kubeconfig {path}: cannot be written: {error.strerror}; name another file") from error
    (folder / _NOTE).write_text(str(path.absolute()), encoding="utf-8")


def remove(folder: Path) -> None:
    """Remove the copy of the cluster with this folder, unless the copy was changed."""
    with contextlib.suppress(OSError):
        path = Path((folder / _NOTE).read_text(encoding="utf-8"))
        if path.read_bytes() == (folder / "kubeconfig").read_bytes():
            path.unlink()


def _is_ours(path: Path) -> bool:
    try:
        found = strict_yaml.read(path, what="kubeconfig")
        return [each["name"] for each in found["clusters"]] == [CONTEXT]
    except (UsageError, KeyError, TypeError):
        return False
