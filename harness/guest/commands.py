"""What `trafficdist cleanup` does, but for the words of its options."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from harness.api import Api, RefusedError
from harness.errors import DistrustError, InconclusiveError
from harness.guest import trouble
from harness.guest.cleanup import cleanup
from harness.guest.leftovers import Say
from harness.guest.marks import checked_run_id
from harness.guest.preflight import reach
from harness.kubeconfig import Kubeconfig

_KIND = "harness.backends.kind"
_NOTHING = "nothing was left"


def clean_up(kubeconfig: str, context: str, *, run: str, force: bool, say: Say) -> list[str]:
    """What was removed, a line each. Raises `UsageError`, `UnavailableError`, `DistrustError`."""
    if run:
        checked_run_id(run)
    done = [] if run else _kind_clusters()
    if done and not Path(kubeconfig.split(":", maxsplit=1)[0]).expanduser().exists():
        return done  # the cluster was one of these
    found = reach(kubeconfig, context, rules=())
    api = Api(Kubeconfig(kubeconfig, context=context))
    try:
        done += cleanup(api, run=run, force=force, say=say)
    except (RefusedError, InconclusiveError) as error:
        raise DistrustError(trouble.of(error, server=found.server)) from error
    finally:
        api.close()
    return done or [_NOTHING]


def _kind_clusters() -> list[str]:
    """Removes kind clusters that runs left on this machine."""
    if importlib.util.find_spec(_KIND) is None:
        return []
    remove = getattr(importlib.import_module(_KIND), "remove_leftovers", None)
    return list(cast("Callable[[], Sequence[str]]", remove)()) if remove is not None else []
