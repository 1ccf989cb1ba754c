"""What `trafficdist cleanup` does, but for the words of its options."""

from __future__ import annotations

from pathlib import Path

from harness.api.client import Api, RefusedError
from harness.api.kubeconfig import find
from harness.backends.kind.leftovers import remove_leftovers
from harness.backends.kind.state import known
from harness.control_planes import containers
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.guest import errors
from harness.guest.cleanup import cleanup
from harness.guest.labels import checked_run_id
from harness.guest.leftovers import Say
from harness.guest.preflight import reach

_NOTHING = "nothing was left"


def clean_up(kubeconfig: str, context: str, *, run: str, force: bool, say: Say) -> list[str]:
    """What was removed, a line each. Raises `UsageError`, `UnavailableError`, `DistrustError`."""
    if run:
        checked_run_id(run)
    done = [*_kind_clusters(run, say), *(f"container {each} is removed" for each in containers.remove_leftovers(run))]
    if done and not Path(kubeconfig.partition(":")[0]).expanduser().exists():
        return done  # the cluster was one of these
    found = reach(kubeconfig, context, rules=())
    api = Api(find(kubeconfig, context=context))
    try:
        done += cleanup(api, run=run, force=force, say=say)
    except (RefusedError, InconclusiveError) as error:
        raise DistrustError(errors.of(error, server=found.server)) from error
    finally:
        api.close()
    return done or [_NOTHING]


def _kind_clusters(run: str, say: Say) -> list[str]:
    """Removes kind clusters that runs left on this machine. An engine that does not answer is only told of."""
    try:
        return [f"kind cluster {name} is deleted" for name in remove_leftovers(run, say=say)]
    except UnavailableError as error:
        if known():
            say(f"kind clusters are not looked for: {str(error).partition(chr(10))[0]}")
        return []
