"""The command `trafficdist explain`."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from harness.commands.arguments import with_options
from harness.commands.cleanup import of_cluster
from harness.commands.cli import examples, tell
from harness.errors import UsageError
from harness.settings.options import BY_NAME, resolve_some

if TYPE_CHECKING:
    from explain.diagnosis import Diagnosis
    from explain.overview import Overview

_EXAMPLES = examples(
    "explain web                            in the namespace of the current context",
    "explain shop/web --context production",
    "explain --all                          one line for each Service that requests topology-aware routing",
    "explain --all --record here            save the objects, without Secrets, to explain them elsewhere",
    "explain shop/web --from here",
    "explain --from before --diff after       the Services that two dumps route differently",
    "explain shop/web --probe                         with connections from a pod in each zone",
    "explain shop/web --if scale=6 --if trafficDistribution=PreferSameZone",
)


@click.command(epilog=_EXAMPLES)
@click.argument("service", metavar="[[NAMESPACE/]SERVICE]", required=False, default="")
@of_cluster
@with_options([BY_NAME["follow"], BY_NAME["image-registry"]])
@click.option("--all", "every", is_flag=True, help="Explain all Services that request topology, in a table.")
@click.option("--namespace", metavar="NAME", default="", help="With --all, explain only Services in this namespace.")
@click.option(
    "--from", "source", metavar="PATH", default="",
    help="Read a recording, kubectl's output (JSON or YAML), a dump folder, or - (stdin), instead of a cluster.",
)  # fmt: skip
@click.option(
    "--diff", "other", metavar="PATH", default="",
    help="Compare with another dump, and show the Services whose routing differs. Cannot be combined with --if.",
)  # fmt: skip
@click.option("--record", metavar="DIR", default="", help="Save the objects in a folder that --from can read.")
@click.option(
    "--format", "-o", "form", type=click.Choice(["text", "json", "md", "html"]), default="text",
    help="Format of the output; md and html require --all.",
)  # fmt: skip
@click.option(
    "--if", "assumed", metavar="KEY=VALUE", multiple=True,
    help="Predict the effect of a change: KEY is trafficDistribution, internalTrafficPolicy, annotation "
    "(topology-mode), scale (pods), without-zone or version. Repeatable. With --all, only version=1.N is allowed.",
)  # fmt: skip
@click.option(
    "--clients", metavar="SPREAD", default="nodes",
    help="With --if, spread clients over nodes equally (nodes), by CPU (cpu), or by zone (a=5,b=3). [default: nodes]",
)  # fmt: skip
@click.option(
    "--probe", is_flag=True,
    help="Also connect to the Service from a client pod in each zone, and compare with the prediction. Creates a "
    "namespace, a Lease and pods, and deletes them at the end.",
)  # fmt: skip
@click.option(
    "--fail-on", "threshold", type=click.Choice(["crossing", "failing", "never"]), default="crossing",
    help="When to exit with code 1: crossing (a Service does not get what it requests on some node), failing "
    "(connections fail), or never. [default: crossing]",
)  # fmt: skip
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    *,
    service: str,
    every: bool,
    namespace: str,
    source: str,
    other: str,
    record: str,
    form: str,
    assumed: tuple[str, ...],
    clients: str,
    probe: bool,
    threshold: str,
    **options: Any,
) -> None:
    """Explain why connections to a Service stay in their zone or leave it, on any cluster.

    Read-only, except with --probe.

    Prints the result, then each cause with its evidence, nodes and fix (docs/explain.md describes each cause), then
    the endpoints that each node uses. Predicts the behaviour of released Kubernetes, unless --follow kep is given.

    The exit code is 1 if a Service does not get what it requests on some node (with --if: after the change).
    """
    from explain.service import Source, explain_all, explain_diff, explain_if, explain_service
    from harness.commands.console import console as made

    every = every or bool(other and not service)
    upgrade = assumed[0].partition("=")[2] if every and assumed and assumed[0].startswith("version=") else ""
    if every and assumed and (len(assumed) > 1 or not upgrade):
        raise UsageError("explain --all: --if accepts only version=…; other assumptions need one Service")
    if (other and (service or assumed)) or ((other or upgrade) and form in {"md", "html"}):
        raise UsageError("explain --diff: expected --from, and no Service, no --if, and no --format md or html")
    if every == bool(service):
        raise UsageError("explain: expected one Service, like shop/web, or --all")
    if service and (namespace or form in {"md", "html"}):
        raise UsageError(f"explain {service}: --namespace and --format md or html need --all")
    if probe and (every or assumed or source):
        raise UsageError("explain --probe: expected one Service of a running cluster, without --all, --if and --from")
    told = resolve_some(options)
    registry = told.pop("image_registry")
    told["follow"] = told["follow"] or "released"
    read, console = Source(**told, folder=source, record=record), made()
    found: Overview | Diagnosis
    if other or upgrade:
        differ = explain_diff(namespace, read, other, version=upgrade, form=form, console=console)
        worse = {"crossing": bool(differ), "failing": any(each.failing for each in differ), "never": False}
        ctx.exit(int(worse[threshold]))
    if every:
        found = explain_all(namespace, read, form=form, console=console)
    elif assumed:
        found = explain_if(assumed, clients, service, read, form=form, console=console)
    else:
        asking = None
        if probe:
            from explain.clients import ask

            asking = partial(ask, kubeconfig=read.kubeconfig, context=read.context, registry=registry, say=tell)
        found = explain_service(service, read, form=form, console=console, ask=asking)
    met = {"crossing": not found.wanting, "failing": not found.failing, "never": True}[threshold]
    ctx.exit(0 if met else 1)
