"""The interface for authors of scenarios: `from trafficdist import Cluster, requirement, expect_traffic`.

`docs/own-suites.md` shows how to write a suite. Names are loaded on first use, because in an environment where
trafficdist is installed, every pytest run imports this package to load the plugin.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

TYPE_CHECKING = False  # with few imports (not even `typing`), the command handles interrupts sooner
if TYPE_CHECKING:
    from typing import Any

    from trafficdist.names import *  # noqa: F403


@cache
def _names() -> dict[str, Any]:
    from trafficdist.own_packages import find_first  # noqa: PLC0415

    find_first()
    found = vars(import_module("trafficdist.names"))
    return {name: value for name, value in found.items() if name[0].isalpha()}  # pytest adds some that begin with @


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_names())
    if name.startswith("__") or name not in (names := _names()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return names[name]


def __dir__() -> list[str]:
    return sorted(_names())
