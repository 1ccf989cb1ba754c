"""The command `trafficdist explain`."""

from __future__ import annotations

from typing import Any

import click

from harness.commands.cleanup import of_cluster
from harness.commands.from_options import with_options
from harness.commands.front import examples
from harness.settings.options import BY_NAME, resolve_some

_EXAMPLES = examples(
    "explain web                            in the namespace of the current context",
    "explain shop/web --context production",
    "explain shop/web --follow kep",
)


@click.command(epilog=_EXAMPLES)
@click.argument("service", metavar="[NAMESPACE/]SERVICE")
@of_cluster
@with_options([BY_NAME["follow"]])
def explain(service: str, **options: Any) -> None:
    """Say why the traffic of a Service goes where it goes, on any cluster; only reads.

    Who decides about hints, which endpoints each node uses, and the first safeguard that keeps traffic from being near.
    Without --follow that is what was released, not the text of the KEPs.
    """
    from rich.console import Console

    from harness.explain.service import explain_service

    told = {"follow": "released"} | {key: value for key, value in resolve_some(options).items() if value}
    explain_service(service, **told, console=Console(highlight=False))
