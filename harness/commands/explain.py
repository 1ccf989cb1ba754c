"""The command `trafficdist explain`."""

from __future__ import annotations

from typing import Literal

import click

from harness.commands.cleanup import of_cluster
from harness.commands.front import examples

_EXAMPLES = examples(
    "explain web                            in the namespace of the current context",
    "explain shop/web --context production",
    "explain shop/web --follow kep",
)


@click.command(epilog=_EXAMPLES)
@click.argument("service", metavar="[NAMESPACE/]SERVICE")
@of_cluster
@click.option(
    "--follow",
    type=click.Choice(["released", "kep"]),
    default="released",
    show_default=True,
    help="Whose rules the annotation's heuristic goes by.",
)
def explain(service: str, kubeconfig: str, context: str, follow: Literal["released", "kep"]) -> None:
    """Say why the traffic of a Service goes where it goes, on any cluster; only reads.

    Who decides about hints, which endpoints each node uses, and the first safeguard that keeps traffic from being near.
    """
    from rich.console import Console

    from harness.explain.service import explain_service

    explain_service(service, kubeconfig=kubeconfig, context=context, follow=follow, console=Console(highlight=False))
