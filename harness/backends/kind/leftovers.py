"""Finds and deletes leftover kind clusters of ended runs, for example after `kill -9`."""

from pathlib import Path

from harness.backends.containers.engine import ContainerEngine, find_engine
from harness.backends.kind.checks import find_kind
from harness.backends.kind.cluster_folder import PREFIX, ClusterFolder, known
from harness.errors import UnavailableError
from harness.guest.lease import silent
from harness.guest.leftovers import Say
from harness.netns import process

_DELETE_SECONDS = 120.0


def remove_leftovers(run_id: str = "", *, say: Say = silent) -> list[str]:
    """Delete clusters of ended runs, and return their names. Without `run_id`, clusters marked as kept remain. `say`
    receives the reason if a cluster is not deleted. Raises `UnavailableError` if the engine does not answer.
    """
    try:
        found = find_engine()
    except UnavailableError:
        return []
    named = f"{PREFIX}{run_id}" if run_id else ""
    there = {each for each in found.clusters() if each.startswith(PREFIX)}
    candidates = sorted(({named} & (there | set(known()))) if named else set(known()))
    return [name for name in candidates if _remove(found, name, say, even_kept=bool(named))]


def _remove(engine: ContainerEngine, name: str, say: Say, *, even_kept: bool) -> bool:
    state = ClusterFolder(name)
    if not state.take():
        say(f"kind cluster {name} is in use by a running process and is not deleted")
        return False
    try:
        if state.kept.exists() and not even_kept:
            say(f"kind cluster {name} is marked as kept; `kind delete cluster --name {name}` deletes it")
            return False
        remove(engine, name, state)
        return True
    finally:
        state.let_go()


def remove(engine: ContainerEngine, name: str, state: ClusterFolder) -> None:
    """Delete a cluster and its folder, but not node images or kind's network. Raises `StartError`."""
    command: list[str | Path] = [find_kind()[0], "delete", "cluster", "--name", name, "--kubeconfig", state.kubeconfig]
    process.start("kind", command, log=state.log, environment=engine.environment()).finish(_DELETE_SECONDS)
    state.remove()
