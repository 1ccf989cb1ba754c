"""The command group `trafficdist components`. The module imports little, so that `trafficdist --help` stays fast."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from harness.commands.arguments import FOLDER
from harness.commands.cli import examples


@click.group(epilog=examples("components fetch kube-proxy 1.34", "components list"))
def components() -> None:
    """Manage real components: kube-proxy, kube-controller-manager, kube-apiserver, etcd and kind.

    `trafficdist run` looks up components in a cache by version.
    """


def _cached(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--cache",
        "folder",
        type=FOLDER,
        metavar="FOLDER",
        envvar="TRAFFICDIST_CACHE",
        show_envvar=True,
        help="Folder of the cache. [default: $XDG_CACHE_HOME/trafficdist, else ~/.cache/trafficdist]",
    )(command)


@components.command(
    epilog=examples(
        "components fetch kube-proxy 1.34",
        "components fetch kube-proxy 1.30 1.31 --from source",
        "components fetch etcd --mirror https://mirror.example/etcd",
    )
)
@click.argument("component")
@click.argument("versions", nargs=-1, metavar="[VERSION]...")
@click.option(
    "--from",
    "origin",
    type=click.Choice(["release", "source"]),
    default="release",
    show_default=True,
    help="Download official binaries, or compile them from the official Go modules.",
)
@click.option(
    "--mirror",
    "mirrors",
    multiple=True,
    metavar="URL",
    envvar="TRAFFICDIST_MIRROR",
    show_envvar=True,
    help="Download from this URL instead of https://dl.k8s.io or GitHub. Repeatable; URLs are tried in order.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=0),
    metavar="COUNT",
    default=0,
    help="Number of packages to compile in parallel. [default: one per CPU]",
)
@click.option("--again", is_flag=True, help="Fetch the component even if it is already in the cache.")
@_cached
def fetch(
    component: str,
    versions: Sequence[str],
    *,
    origin: Literal["release", "source"],
    mirrors: Sequence[str],
    jobs: int,
    again: bool,
    folder: Path | None,
) -> None:
    """Fetch one or more versions of a component, and print their paths.

    VERSION is a release like 1.34.2, or 1.34 for its latest patch release. The default is the latest version.
    """
    from harness.binaries import Cache, inventory

    names = (component, *versions)
    for each in inventory.fetch_all(names, origin=origin, cache=Cache(folder), mirrors=mirrors, jobs=jobs, again=again):
        click.echo(each.path)


@components.command(name="list", epilog=examples("components list", "components list kube-proxy --available"))
@click.argument("names", nargs=-1, metavar="[COMPONENT]...")
@click.option("--available", is_flag=True, help="List the versions on the Go module proxy, which can be compiled.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_cached
def list_components(names: Sequence[str], available: bool, form: Literal["table", "json"], folder: Path | None) -> None:
    """List components in the cache, or the available versions."""
    from harness.binaries import Cache, inventory

    click.echo(inventory.offers(names) if available else inventory.listing(Cache(folder), names, form))


@components.command(epilog=examples("components check", "components check etcd"))
@click.argument("component", default="")
@_cached
def check(component: str, folder: Path | None) -> int:
    """Check that each binary is unchanged and runs. Exits with 1 if a check fails."""
    from harness.binaries import Cache, inventory

    text, well = inventory.check(Cache(folder), component)
    click.echo(text)
    return 0 if well else 1


@components.command(epilog=examples("components path kube-proxy 1.34"))
@click.argument("component")
@click.argument("version", default="")
@_cached
def path(component: str, version: str, folder: Path | None) -> None:
    """Print the path of a binary in the cache."""
    from harness.binaries import Cache, find

    click.echo(str(find(component, version, cache=Cache(folder))))


@components.command(epilog=examples("components remove kube-proxy 1.34", "components remove --all"))
@click.argument("names", nargs=-1, metavar="[COMPONENT [VERSION]...]")
@click.option(
    "--all", "everything", is_flag=True, help="Remove all components, and files left by interrupted downloads."
)
@_cached
def remove(names: Sequence[str], everything: bool, folder: Path | None) -> None:
    """Remove some or all versions of a component from the cache."""
    from harness.binaries import Cache, inventory

    click.echo(inventory.remove(Cache(folder), names, everything=everything))
