"""Binaries in the folder that KUBEBUILDER_ASSETS names, as envtest's setup leaves it.

Each is run once to learn its version, and again when the file changes.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from harness.binaries.cache import Entry
from harness.binaries.component import Binary, version_of
from harness.binaries.versions import Version

ENVIRONMENT = "KUBEBUILDER_ASSETS"


def folder() -> Path | None:
    """Return the folder, if the environment names one."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named).expanduser().absolute() if named else None


def entry(component: Binary) -> Entry | None:
    """Return the component in the folder, None if it is not there. Raises `UnavailableError` without a version."""
    place = folder()
    binary = place / component.name if place else None
    if binary is None or not binary.is_file():
        return None
    status = binary.stat()
    return Entry(component.name, _version(component, binary, status.st_mtime_ns, status.st_size), binary)


@cache
def _version(component: Binary, binary: Path, changed: int, size: int) -> Version:  # noqa: ARG001  the cache's key
    return version_of(component, binary)
