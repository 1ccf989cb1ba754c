"""Finds and deletes kind clusters that runs left behind, such as those that were ended by `kill -9`."""

from __future__ import annotations

from collections.abc import Callable

from harness.backends.kind.engine import Engine, find_engine
from harness.backends.kind.state import PREFIX, State, known
from harness.errors import UnavailableError

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Tells nobody."""


def remove_leftovers(run_id: str = "", *, say: Say = silent, engine: Engine | None = None) -> list[str]:
    """Delete clusters of runs that are over; the names of what was deleted. `say` hears why one stays.

    Without `run_id`: all that this user's processes made, that no process holds any more and that nobody asked to keep.
    With it: that of this run, whoever made it and even if it was to be kept, unless its process still runs. Where there
    is no engine there is nothing to delete. Raises `UnavailableError` for an engine that does not answer.
    """
    try:
        found = engine or find_engine()
    except UnavailableError:
        return []
    named = f"{PREFIX}{run_id}" if run_id else ""
    there = {each for each in found.clusters() if each.startswith(PREFIX)}
    candidates = sorted(({named} & (there | set(known()))) if named else set(known()))
    return [name for name in candidates if _remove(found, name, say, even_kept=bool(named))]


def _remove(engine: Engine, name: str, say: Say, *, even_kept: bool) -> bool:
    state = State(name)
    if not state.take():
        say(f"kind cluster {name} is in use by a process that runs; it stays")
        return False
    try:
        if state.has("kept") and not even_kept:
            say(f"kind cluster {name} was to be kept; `kind delete cluster --name {name}` deletes it")
            return False
        remove(engine, name, state)
        return True
    finally:
        state.let_go()


def remove(engine: Engine, name: str, state: State) -> None:
    """Delete a cluster, the network if it was made for it and nobody else uses it, and what is known of it.

    Node images stay: they are the engine's cache, and the next cluster needs them.
    """
    engine.remove_cluster(name)
    if state.has("network"):
        engine.remove_network()
    state.remove()
