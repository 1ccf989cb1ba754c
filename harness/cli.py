"""The command `trafficdist`: a thin front end of the pytest plugin, and a cluster to look at.

Every option of `run` is the option of the same name of the plugin, made from the same table.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from harness.binaries.cli import components
from harness.doctor.cli import doctor
from harness.errors import DistrustError, HarnessError, UnavailableError, UsageError
from harness.exit_codes import MEANINGS, ExitCode
from harness.guest.cli import cleanup, of_cluster
from harness.judge_cli import judge
from harness.options import BY_NAME, OPTIONS, Option

_CODES = "\b\nExit codes:\n" + "\n".join(f"  {int(code):>2}  {meaning}" for code, meaning in MEANINGS.items())


class _Command(click.Group):
    """Ends with our exit codes, and with one line for what a person can put right."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            _fail(error, ExitCode.USAGE)
        except (DistrustError, UnavailableError) as error:
            _fail(error, ExitCode.DISTRUST)
        except HarnessError as error:
            _fail(error, ExitCode.INCONCLUSIVE)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            status = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.UsageError as error:
            error.show()
            sys.exit(ExitCode.USAGE)
        except click.exceptions.Exit as error:
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(ExitCode.INTERRUPTED)
        except Exception:  # noqa: BLE001  a defect of ours must not look like a requirement that is not met
            traceback.print_exc()
            sys.exit(ExitCode.INTERNAL_ERROR)
        sys.exit(status if isinstance(status, int) else 0)


def _fail(error: Exception, code: ExitCode) -> None:
    click.secho(f"trafficdist: {error}", fg="red", err=True)
    raise click.exceptions.Exit(int(code))


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trafficdist")
def main() -> None:
    """Certify implementations of Kubernetes topology-aware Service routing, with real packets."""


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(OPTIONS):
        command = _click_option(option)(command)
    return command


def _click_option(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{option.name}", option.key] + (["-n"] if option.name == "workers" else [])
    text = option.help + (f" [{_shown(option.default)}]" if option.default and option.kind != "flag" else "")
    if option.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=text)
    return click.option(*names, multiple=option.kind == "list", metavar=option.metavar, help=text)


def _shown(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)


@main.command(epilog=_CODES, context_settings={"show_default": False})
@_with_options
@click.option("--options-file", metavar="FILE", help="YAML file with options, by name without the dashes.")
@click.option("-v", "--verbose", count=True, help="Let pytest speak too.")
@click.option("--suite", default="conformance", hidden=True, help="A package or folder of requirements.")
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST ARGUMENTS]")
def run(options_file: str | None, verbose: int, suite: str, pytest_arguments: Sequence[str], **options: Any) -> int:
    """Run the requirements against an implementation, and write a report.

    An option may also be given as environment variable TRAFFICDIST_<OPTION>, or in an options file; the command line
    wins over the environment, and that over the file.
    """
    from harness.suite import run_pytest

    arguments = [] if options.get("backend") else _default_backend(options_file)
    for option in OPTIONS:
        arguments += _as_arguments(option, options[option.key])
    if options_file:
        arguments.append(f"--td-options-file={options_file}")
    return run_pytest([*arguments, *["-v"] * verbose, *pytest_arguments], suite=suite)


def _default_backend(options_file: str | None) -> list[str]:
    """The embedded cluster, unless environment or file name a backend."""
    from harness.options import resolve

    settings = resolve({}, options_file=options_file or "")
    return [] if settings.backend else ["--td-backend=netns"]


def _as_arguments(option: Option, value: Any) -> list[str]:
    if option.kind == "flag":
        return [f"--td-{option.name}"] if value else []
    values = value if isinstance(value, tuple) else () if value is None else (value,)
    return [f"--td-{option.name}={each}" for each in values]


@main.command(name="list")
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "yaml", "md"]), default="table", show_default=True
)
@click.option("--suite", default="conformance", hidden=True, help="A package or folder of requirements.")
def list_requirements(form: str, suite: str) -> None:
    """Print the catalogue of requirements; needs no cluster."""
    from rich.console import Console

    from harness.report import catalogue
    from harness.suite import catalogue as collect

    requirements = collect(suite)
    if form == "table":
        catalogue.print_table(requirements, Console())
        return
    written = {"json": catalogue.as_json, "yaml": catalogue.as_yaml, "md": catalogue.as_markdown}[form]
    click.echo(written(requirements))


@main.command()
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

    from harness.explain import explain_service

    explain_service(service, kubeconfig=kubeconfig, context=context, follow=follow, console=Console(highlight=False))


@main.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
def compare(reports: Sequence[str]) -> None:
    """Put several reports side by side, as a Markdown page.

    Which features work where, and which requirements have not the same verdict everywhere. A REPORT is a report.yaml,
    or the folder of a run.
    """
    from harness.report.comparison import as_markdown
    from harness.report.conformance import read_report

    click.echo(as_markdown([read_report(each) for each in reports]))


@main.command(epilog="\b\nExit codes:\n  0  no verdict changed\n  1  at least one verdict changed\n  4  wrong use")
@click.argument("old")
@click.argument("new")
@click.option("--issues", metavar="FOLDER", help="Write one Markdown file for each issue to open; title first.")
def changes(old: str, new: str, issues: str | None) -> int:
    """Say which verdicts changed from OLD to NEW: two runs, or two folders of runs, compared by name."""
    from harness.report import changes as compared
    from harness.report.conformance import read_reports
    from harness.report.folder import OutputFolder

    found = compared.changes(read_reports(old), read_reports(new))
    click.echo(compared.as_markdown(found))
    for number, issue in enumerate(compared.issues(found) if issues else ()):
        OutputFolder(Path(str(issues))).write(f"{number:02}.md", f"{issue.title}\n\n{issue.body}\n")
    return 1 if found else 0


main.add_command(cleanup)
main.add_command(components)
main.add_command(doctor)
main.add_command(judge)


@main.group()
def cluster() -> None:
    """Keep an embedded cluster running, to look at and to try things out."""


_NAME = click.option("--name", default="default", show_default=True, metavar="NAME", help="Which cluster.")


_MADE_OF = ("topology", "families", "proxy", "mode", "control-plane", "controller", "kubernetes-version",
            "feature-gates")  # fmt: skip


def _with_what_it_is_made_of(command: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(_MADE_OF):
        command = _click_option(BY_NAME[name])(command)
    return command


@cluster.command()
@_NAME
@_with_what_it_is_made_of
def up(name: str, **options: Any) -> None:
    """Boot a cluster in the background, and say how to look at it.

    What it is made of is said as for `run`; pods that are created through its API run.
    """
    from harness import cluster_commands

    click.echo(cluster_commands.up(name, **options))


@cluster.command(name="list")
def list_clusters() -> None:
    """Show the clusters that run now."""
    from harness import cluster_commands

    click.echo(cluster_commands.listing())


@cluster.command()
@_NAME
def down(name: str) -> None:
    """End a cluster; nothing of it is left."""
    from harness import cluster_commands

    click.echo(cluster_commands.down(name))


@cluster.command(name="exec", context_settings={"ignore_unknown_options": True})
@_NAME
@click.argument("place", metavar="NODE|POD")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, place: str, command: Sequence[str]) -> None:
    """Run a command in the netns of a node or a pod: `trafficdist cluster exec a1 -- ip address`."""
    from harness import cluster_commands

    cluster_commands.execute(name, place, command)
