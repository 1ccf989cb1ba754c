"""The command `trafficdist cleanup`. Imports little: `trafficdist --help` must not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from harness.commands.front import examples


def of_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which cluster, with the environment variables that a run has for them."""
    context = click.option(
        "--context",
        metavar="NAME",
        default="",
        envvar="TRAFFICDIST_CONTEXT",
        help="Which context of it. [the current one]",
    )
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        default="~/.kube/config",
        envvar=["TRAFFICDIST_KUBECONFIG", "KUBECONFIG"],
        show_default=True,
    )
    return kubeconfig(context(command))


@click.command(epilog=examples("cleanup", "cleanup --context production --run 1a2b3c4d"))
@of_cluster
@click.option("--run", metavar="ID", default="", help="Only what this run left. [all runs]")
@click.option("--force", is_flag=True, help="Even if a run is under way; it will notice, and end.")
def cleanup(kubeconfig: str, context: str, run: str, force: bool) -> None:
    """Remove what runs left on a cluster, and kind clusters and containers that they left on this machine.

    Namespaces with label trafficdist.dev/run are removed, nodes with annotation trafficdist.dev/before become what they
    were, and the Lease goes. Nothing else is touched.
    """
    from harness.commands.cleanup_run import clean_up

    for line in clean_up(kubeconfig, context, run=run, force=force, say=lambda text: click.echo(text, err=True)):
        click.echo(line)
