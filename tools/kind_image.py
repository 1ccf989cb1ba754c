"""The command `trafficdist kind-image`."""

from collections.abc import Sequence
from pathlib import Path

import click

from harness.commands.arguments import FOLDER
from harness.commands.cli import examples, tell


@click.command(
    name="kind-image",
    epilog=examples("kind-image 1.34", "kind-image 1.34 --also 1.33", "run --backend kind --kind-image NAME"),
)
@click.argument("version", default="")
@click.option(
    "--also",
    multiple=True,
    metavar="VERSION",
    help="Include the components of another release, for scenarios that upgrade or downgrade to it. Repeatable.",
)
@click.option("--suite", default="bookworm", show_default=True, metavar="RELEASE", help="Debian release for the nodes.")
@click.option("--mirror", default="", metavar="URL", help="Mirror for Debian's packages. [default: mmdebstrap's]")
@click.option("--again", is_flag=True, help="Download Debian's packages again, with today's updates.")
@click.option(
    "--jobs", type=click.IntRange(min=0), default=0, metavar="COUNT",
    help="Number of packages to compile in parallel. [default: one per CPU]",
)  # fmt: skip
@click.option(
    "--cached", is_flag=True, help="Do not build: print the image's name if the engine has it, else exit with 12."
)
@click.option(
    "--runtime",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="For machines without CAP_SYS_RESOURCE: write an OCI runtime that does not need it to this path, and print "
    "how to start an engine with this runtime.",
)
@click.option(
    "--cache", "folder", type=FOLDER, metavar="FOLDER", envvar="TRAFFICDIST_CACHE", show_envvar=True,
    help="Folder of the cache. [default: $XDG_CACHE_HOME/trafficdist, else ~/.cache/trafficdist]",
)  # fmt: skip
def kind_image(
    version: str,
    *,
    also: Sequence[str],
    suite: str,
    mirror: str,
    again: bool,
    jobs: int,
    cached: bool,
    runtime: Path | None,
    folder: Path | None,
) -> None:
    """Build a node image for kind without an image registry, and print its name.

    The image is built from Debian packages and Go modules, and loaded into the container engine: see
    docs/kind-image.md. VERSION is a Kubernetes release like 1.34.2, or 1.34 for its latest patch release. The
    default is the latest release.
    """
    from rich.console import Console

    from harness.binaries.cache import Cache
    from harness.binaries.progress import TerminalProgress
    from harness.binaries.versions import parse_wanted
    from tools.node_image import build
    from tools.node_image.collect import ImageRecipe

    recipe = ImageRecipe(parse_wanted(version), tuple(map(parse_wanted, also)), suite, mirror, again)
    if runtime is not None:
        tell(build.put_runtime(runtime))
    if cached:
        click.echo(build.find_image(recipe.kubernetes))
        return
    with TerminalProgress(Console(stderr=True)) as terminal:
        click.echo(build.make(recipe, cache=Cache(folder), watcher=terminal, jobs=jobs))
