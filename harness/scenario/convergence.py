"""Wait until components have processed a change, and record how long they took.

No KEP specifies how soon a component must process a change. So a check waits for the time that the implementation
claims, or up to `harness.eventually.FAR`, and then judges the last value.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from harness import eventually
from harness.errors import InconclusiveError
from harness.run_delay import RUN_DELAY
from harness.scenario.cluster import Cluster
from harness.scenario.record import ObservedValue

V = TypeVar("V")

STAYS = 0.5  # seconds (times the time scale) for which a value must stay unchanged after all components have settled
QUIET = 0.1  # seconds (times the time scale) that `recheck` waits after the last check


def wait_for_value(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    every: float = 0.005,
    kept: float = 0.0,
) -> V:
    """Call `look` until its value is as expected or the time is up. Return the last value, even if it is wrong.

    `every` is the pause between two calls in seconds. `kept` seconds are added to the limit, for cached values.
    """
    cluster.backend.restored.await_pods()  # exclude the time that kubelets need
    begin = wrong_at = time.monotonic()
    looked_at = begin

    def timed() -> V:
        nonlocal looked_at
        looked_at = time.monotonic()
        return look()

    def right(seen: V) -> bool:
        nonlocal wrong_at
        if is_right(seen):
            return True
        wrong_at = looked_at
        return False

    within = patience(cluster) + kept
    seen = eventually.last_value(timed, right, within=within, every=every, describe=what)
    if is_right(seen):
        cluster.took(what, time.monotonic() - begin)
        if cluster.converges_within and (doubt := delayed(begin, wrong_at, within)):
            said = f"{what} became as expected within {limit(cluster)}"
            cluster.expect_equal(said, expected=True, observed=False, unknown=doubt)
    return seen


def wait_for_stable_value(
    cluster: Cluster,
    what: str,
    look: Callable[[], V],
    is_right: Callable[[V], bool],
    *,
    shown: Callable[[V], Any] = str,
) -> V:
    """Wait as `wait_for_value` does, and check that the value stays as expected until all components have settled.

    The first expected value proves little: it may date from before the change. `shown` converts the value to JSON.
    """
    begin = time.monotonic()
    while True:
        seen = wait_for_value(cluster, what, look, is_right)
        if not is_right(seen):
            return seen
        with contextlib.suppress(InconclusiveError):  # continue even if components do not settle
            cluster.settle()
        seen = look()
        if is_right(seen):

            def look_again(seen: V = seen) -> Any:
                now = look()
                return shown(seen if is_right(now) else now)

            cluster.record.sightings[what] = ObservedValue(time.monotonic(), _changes(cluster), shown(seen), look_again)
            return seen
        if eventually.is_over(begin, patience(cluster)):
            return seen


def value_after_wait(what: str, look: Callable[[], V], is_right: Callable[[V], bool]) -> V:
    """Call `look` repeatedly for `STAYS` seconds, or until the value is wrong. Return the last value."""
    return eventually.last_value(look, lambda seen: not is_right(seen), within=STAYS, every=STAYS / 4, describe=what)


def patience(cluster: Cluster) -> float:
    """Return the time limit for a change in seconds, not yet multiplied by the time scale."""
    return cluster.converges_within or eventually.FAR


def limit(cluster: Cluster) -> str:
    return f"{'the declared ' if cluster.converges_within else ''}{patience(cluster):g} s"


def delayed(begin: float, until: float, within: float) -> str:
    """Return the reason if a change took over `within` s only because programs could not run, or "". Times are in s."""
    seconds, most, lost = until - begin, within * eventually.time_scale(), RUN_DELAY.lost(begin, until)
    if seconds <= most or seconds - lost > most:
        return ""
    return f"it was wrong for {seconds:.3f} s. {eventually.could_not_run(lost, begin)}"


def recheck(cluster: Cluster, quiet: float = QUIET) -> None:
    """Expect checked values to stay unchanged for `quiet` seconds (times the time scale) after the last check.

    A controller may first write the expected value, and a moment later a wrong one. Waiting after each check would slow
    down every step, so all checks since the last change share one wait at the end. The plugin calls this function
    after each test. Raises `AssertionError` with the earlier and the later value.
    """
    changes = _changes(cluster)
    unchanged = {what: each for what, each in cluster.record.sightings.items() if each.changes == changes}
    if not unchanged:
        return
    since = max(each.at for each in unchanged.values())
    until = since + quiet * max(1.0, eventually.time_scale())  # faults do not appear sooner on a fast machine
    time.sleep(max(0.0, until - time.monotonic()))  # the quiet time itself
    with contextlib.suppress(InconclusiveError):  # settle first, as all other checks of written objects do
        cluster.settle()
    for what, each in unchanged.items():
        cluster.expect_equal(f"{what}, left alone", expected=each.value, observed=each.look_again())


def _changes(cluster: Cluster) -> tuple[int, int]:
    return cluster.api.writes, cluster.backend.changes
