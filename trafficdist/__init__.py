"""The interface for authors of scenarios: `from trafficdist import Cluster, requirement, expect_traffic`.

`docs/own-suites.md` shows how to write a suite. Names are loaded on first use, because every pytest run imports this
package for its plugin in an environment where trafficdist is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trafficdist.own_packages import find_first

if TYPE_CHECKING:
    from trafficdist.names import *  # noqa: F403


def _names() -> Any:
    find_first()
    return import_module("trafficdist.names")


def __getattr__(name: str) -> Any:
    if name != "__all__" and (name.startswith("__") or name not in _names().__all__):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_names(), name)


def __dir__() -> list[str]:
    return list(_names().__all__)
