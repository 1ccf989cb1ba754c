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
    """Explain how the traffic of a Service is routed, on any cluster. Read-only.

    Shows which component decides about hints, which endpoints each node uses, and the first safeguard that prevents
    routing to nearby endpoints. Follows released Kubernetes, unless --follow kep is given.
    """
    from rich.console import Console

    from harness.explain.service import explain_service

    told = resolve_some(options)
    told["follow"] = told["follow"] or "released"
    explain_service(service, **told, console=Console(highlight=False))
