"""The commands of `trafficdist cluster`, for embedded clusters that run in the background."""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from harness.commands.arguments import GroupedCommand, completing, with_options
from harness.commands.cli import examples
from harness.settings.options import BY_NAME

_MADE_OF = ("proxy", "mode", "control-plane", "controller", "kubernetes-version", "feature-gates", "mutant",
            "topology", "families")  # fmt: skip


def _running() -> Iterable[str]:
    from emulator import cluster_state

    return [each.name for each in cluster_state.running()]


_CLUSTERS = completing(_running)

_NAME = click.option(
    "--name",
    default="default",
    show_default=True,
    metavar="NAME",
    shell_complete=_CLUSTERS,
    help="Name of the cluster.",
)


@click.group(
    epilog=examples("cluster up", "cluster exec a1 -- ip route", "cluster kubeconfig > kubeconfig", "cluster down")
)
def cluster() -> None:
    """Manage embedded clusters that run in the background, for inspection and experiments."""


@cluster.command(
    cls=GroupedCommand,
    epilog=examples(
        "cluster up --topology a=2,b=2,c=1",
        "cluster up --name old --kubernetes-version 1.31",
        "cluster up --control-plane binaries:1.37 --proxy kube-proxy --mode iptables",
    ),
)
@with_options([BY_NAME[name] for name in _MADE_OF])
@click.option("--name", default="default", show_default=True, metavar="NAME", help="Name of the new cluster.")
def up(name: str, **options: Any) -> None:
    """Start a cluster in the background, and print instructions for its use.

    Select its components with the same options as for `run`. The cluster runs pods that are created through its API.
    With --control-plane binaries:VERSION, it also runs kube-scheduler and all controllers that need no cloud provider.
    """
    from emulator import cluster_control

    click.echo(cluster_control.up(name, **options))


@cluster.command(name="list", epilog=examples("cluster list"))
def list_clusters() -> None:
    """List running clusters and the paths of their kubeconfigs."""
    from emulator import cluster_control

    click.echo(cluster_control.listing())


@cluster.command(epilog=examples("cluster down", "cluster down --name old"))
@_NAME
def down(name: str) -> None:
    """Stop a cluster and remove all its resources. Also succeeds if no such cluster is running."""
    from emulator import cluster_control

    click.echo(cluster_control.down(name))


@cluster.command(
    epilog=examples("cluster kubeconfig > kubeconfig", "cluster kubeconfig old", "cluster kubeconfig --path")
)
@click.argument("name", default="default", metavar="[NAME]", shell_complete=_CLUSTERS)
@click.option("--path", is_flag=True, help="Print the path of the kubeconfig instead of its content.")
def kubeconfig(name: str, path: bool) -> None:
    """Print the kubeconfig of a cluster.

    `export KUBECONFIG=$(trafficdist cluster kubeconfig --path)` makes kubectl use it.
    """
    from emulator import cluster_control

    where = cluster_control.kubeconfig(name)
    click.echo(where if path else where.read_text(encoding="utf-8").rstrip())


def _places(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    def places() -> Iterable[str]:
        from emulator import cluster_state

        cluster = cluster_state.load(context.params.get("name") or "default")
        return cluster.places if cluster else ()

    return completing(places)(context, parameter, incomplete)


@cluster.command(
    name="exec",
    context_settings={"ignore_unknown_options": True},
    epilog=examples("cluster exec a1 -- ip address", "cluster exec web-b1 -- curl -s http://10.96.1.1/hostname"),
)
@_NAME
@click.argument("place", metavar="NODE|POD", shell_complete=_places)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, place: str, command: Sequence[str]) -> None:
    """Run a command in the network namespace of a node, a pod, or the external client (`external`)."""
    from emulator import cluster_control

    cluster_control.execute(name, place, command)
