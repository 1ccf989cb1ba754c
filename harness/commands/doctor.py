"""The command `trafficdist doctor`. Imports little: `trafficdist --help` must not wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.commands.from_options import SUITE
from harness.commands.front import examples


@click.command(epilog=examples("doctor", "doctor --context production --try", "doctor --backend netns"))
@click.option(
    "--backend",
    type=click.Choice(["kubeconfig", "netns", "kind"]),
    default="kubeconfig",
    show_default=True,
    envvar="TRAFFICDIST_BACKEND",
    help="For which kind of run.",
)
@click.option("--kubeconfig", metavar="FILE", help="[$KUBECONFIG, ~/.kube/config, or in a pod its service account]")
@click.option("--context", metavar="NAME", help="Which context of it. [the current one]")
@click.option("--topology", help="A name, or like a=2,b=2,c=1. [three_zones]")
@click.option("--allow-disruptive", is_flag=True, help="For a run that may change nodes, and puts them back.")
@click.option("--image-registry", metavar="REGISTRY", help="Where the nodes get the test image from.")
@click.option("--try", "try_pods", is_flag=True, help="Run a pod on each node, and remove it: is the image there?")
@click.option("--feature-gates", metavar="GATES", multiple=True, help="Those of the API server, if it does not say.")
@click.option("--profile", metavar="PROFILE", multiple=True, help="Whose requirements count. [as in a run]")
@click.option("--supported-features", metavar="FEATURES", multiple=True, help="Extended features that count too.")
@SUITE
@click.option("-v", "--verbose", is_flag=True, help="Name every requirement that is not judged.")
def doctor(
    *,
    backend: str,
    kubeconfig: str | None,
    context: str | None,
    topology: str | None,
    allow_disruptive: bool,
    image_registry: str | None,
    try_pods: bool,
    feature_gates: Sequence[str],
    profile: Sequence[str],
    supported_features: Sequence[str],
    suite: str,
    verbose: bool,
) -> int:
    """Say before a run what a cluster, or this machine, lacks for it, what that costs, and the remedy.

    Ends with 0 when all is well, 11 when something lacks, 12 when no run is possible. Nothing is written to the
    cluster, unless --try is given. Costs are counted in the requirements that `trafficdist run` would judge, whose
    environment variables TRAFFICDIST_<OPTION> count here too.
    """
    from rich.console import Console

    from harness.commands.doctor_run import diagnose

    options = {
        "backend": backend,
        "kubeconfig": kubeconfig,
        "context": context,
        "topology": topology,
        "allow-disruptive": allow_disruptive or None,
        "image-registry": image_registry,
        "feature-gates": feature_gates,
        "profile": profile,
        "supported-features": supported_features,
    }
    return diagnose(
        options,
        try_pods=try_pods,
        suite=suite,
        verbose=verbose,
        console=Console(highlight=False),
        say=lambda text: click.echo(text, err=True),
    )
