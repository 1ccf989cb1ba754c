"""The command `trafficdist cleanup`. The module imports little, so that `trafficdist --help` stays fast."""

from pathlib import Path
from typing import Any

import click

from harness.commands.arguments import with_options
from harness.commands.cli import examples, tell
from harness.errors import DistrustError, InconclusiveError, UnavailableError
from harness.model.escaping import for_terminal
from harness.model.package_extras import require
from harness.settings.options import BY_NAME, resolve_some

of_cluster = with_options([BY_NAME["kubeconfig"], BY_NAME["context"]])


@click.command(epilog=examples("cleanup", "cleanup --context production --run 1a2b3c4d"))
@of_cluster
@click.option("--run", metavar="ID", default="", help="Remove only what this run left behind. [default: all runs]")
@click.option("--force", is_flag=True, help="Clean up even if a run is active; that run will stop.")
def cleanup(run: str, force: bool, **options: Any) -> None:
    """Remove objects that runs left on a cluster, and kind clusters and containers that runs left on this machine.

    On the cluster, removes the Lease, and the namespaces and Nodes with the label trafficdist.dev/run, and restores
    nodes with the annotation trafficdist.dev/before. Changes nothing else there.
    """
    for line in _clean_up(**resolve_some(options), run=run, force=force):
        click.echo(for_terminal(line))


def _clean_up(kubeconfig: str, context: str, *, run: str, force: bool) -> list[str]:
    from harness.api.client import Api, RefusedError
    from harness.api.connection import files_of, find
    from harness.guest import errors
    from harness.guest.labels import checked_run_id
    from harness.guest.lease import cleanup
    from harness.guest.preflight import reach

    if run:
        checked_run_id(run)
    named = Path(files_of(kubeconfig).partition(":")[0]).expanduser()
    if kubeconfig and named.exists():
        find(kubeconfig, context=context)  # report a bad kubeconfig before anything is removed
    done = [*_kind_clusters(run), *_containers(run)]
    if done and not named.exists():
        return done  # the cluster was removed above
    found = reach(kubeconfig, context, rules=())
    api = Api(find(kubeconfig, context=context))
    try:
        done += cleanup(api, run=run, force=force, say=tell)
    except (RefusedError, InconclusiveError) as error:
        raise DistrustError(errors.of(error, server=found.server)) from error
    finally:
        api.close()
    return done or ["nothing was left"]


def _containers(run: str) -> list[str]:
    try:
        require("docker", "testcontainers", extra="containers", feature="removing containers")
    except UnavailableError:
        return []
    from harness.control_planes.containers import remove_leftovers

    return [f"container {each} is removed" for each in remove_leftovers(run)]


def _kind_clusters(run: str) -> list[str]:
    from harness.backends.kind.cluster_folder import known
    from harness.backends.kind.leftovers import remove_leftovers

    try:
        return [f"kind cluster {name} is deleted" for name in remove_leftovers(run, say=tell)]
    except UnavailableError as error:
        if known():
            tell(f"cannot list kind clusters: {str(error).partition(chr(10))[0]}")
        return []
