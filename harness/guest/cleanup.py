"""`trafficdist cleanup`: removes leftovers of runs from a cluster and this machine, for example after a `kill -9`.

It reads before it writes, so a cluster without leftovers is not touched. It does not disturb a run in progress: it
waits half a minute until the Lease shows whether a run on another machine is dead.
"""

from __future__ import annotations

import time

from harness.api.client import Api
from harness.errors import DistrustError
from harness.guest import leftovers, process
from harness.guest.labels import new_run_id
from harness.guest.lease import hold, in_use, is_over, read_lease, silent
from harness.guest.lease_record import LeaseRecord, ServerClock
from harness.guest.leftovers import Say

_LOOK_SECONDS = 1.0


def cleanup(api: Api, *, run: str = "", force: bool = False, say: Say = silent) -> list[str]:
    """Remove the leftovers of a run, or of all runs. Return a line for each action.

    Touches only objects with a run's label, and nodes with a run's annotation. Raises `DistrustError` while a run is in
    progress, unless forced, and `RefusedError`.
    """
    clock = ServerClock()
    record = read_lease(api, clock)
    concerned = record is not None and run in {"", record.run}
    if record is not None and concerned and not force:
        _wait_until_over(api, record, clock, say)
    found = leftovers.find(api, run=run)
    if record is not None and not concerned:
        return leftovers.remove(api, found, say)
    if not found and record is None:
        return []
    with hold(api, new_run_id(), say=say, force=force, sweep=False):
        done = leftovers.remove(api, found, say)
    return done + ([f"the Lease of run {record.run} is removed"] if record is not None else [])


def _wait_until_over(api: Api, record: LeaseRecord, clock: ServerClock, say: Say) -> None:
    """Wait until a Lease expires. Raises `DistrustError` if it is renewed."""
    if is_over(record, clock):
        return
    if process.is_of_here(record.process):
        raise DistrustError(_refused(record, clock))
    say(f"{record.described(clock.now())}, may be alive: its Lease expires at {record.expires:%H:%M:%S} UTC")
    while not is_over(record, clock):
        time.sleep(_LOOK_SECONDS)
        seen = read_lease(api, clock)
        if seen is None:
            return
        if seen.renewed != record.renewed or seen.run != record.run:
            raise DistrustError(_refused(seen, clock))


def _refused(record: LeaseRecord, clock: ServerClock) -> str:
    return f"{in_use(record, clock)}; --force removes its objects anyway"
