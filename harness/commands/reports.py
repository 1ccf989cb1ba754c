"""The commands for runs that have ended: `trafficdist judge`, `verify`, `merge`, `report` and `compare`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.commands.arguments import FOLDER, PLACE, SUITE, with_options
from harness.commands.cli import examples
from harness.errors import UsageError
from harness.model.escaping import for_line
from harness.settings.options import BY_NAME, resolve_some

if TYPE_CHECKING:
    from harness.report.verification import Refusal

_JUDGE_CODES = """\b
Exit codes, of the verdicts that are derived:
   0  every selected MUST is met; a SHOULD that is not met is a warning
   1  at least one MUST is not met, or with --warnings-as-errors a SHOULD
   4  RUN is not a history, or one of its lines was changed or removed
   5  no requirement was selected
  10  nothing failed, but a MUST is inconclusive
  11  nothing failed, but a claimed MUST did not run
  12  a verdict or message differs from what the run stated, or the results of the run cannot be trusted"""

_EXAMPLES = examples(
    "judge latest",
    "judge trafficdist-results/2026-11-21T095204.718590Z --format json",
    "judge shelf/run.jsonl.xz",
    codes=_JUDGE_CODES,
)


@click.command(epilog=_EXAMPLES)
@click.argument("run", type=PLACE, metavar="RUN")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@with_options([BY_NAME["warnings-as-errors"]])
def judge(run: str, form: str, **options: Any) -> int:
    """Judge a run again from its history alone. Needs no cluster, root or network.

    RUN is the folder of a run, its run.jsonl (or .xz), or "latest". The verdict and message of each requirement are
    derived from the recorded observations, and compared with the history and with report.yaml in the same folder.
    Results without observations (skips, exceptions) are accepted as recorded, and counted separately.
    """
    from harness.report.rejudging import show

    return show(run, form, strict=resolve_some(options)["warnings_as_errors"])


def _repository(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", value):
        raise UsageError(f"--repo {value[:100]!r}: expected OWNER/NAME, for example acme/acme-proxy")
    return value


@click.command(epilog=examples("verify latest", "verify reports/1.37/kubernetes-kube-proxy/1.37.2-nftables"))
@click.argument("folder", type=PLACE, metavar="FOLDER")
@click.option(
    "--repo",
    metavar="OWNER/NAME",
    default="",
    callback=_repository,
    help="GitHub repository whose workflow made FOLDER's attestation.jsonl. [default: the implementation's own]",
)
@SUITE
def verify(folder: str, repo: str, suite: str) -> int:
    """Verify that the report in FOLDER follows from the history of its run.

    Derives each verdict again. Also checks the schema, the history's chain of digests, the digests of all files, the
    catalogue (no requirement missing or duplicate), messages, statistics, profiles, times, the identity of the
    implementation, and that the run can be certified. Needs the version of trafficdist that executed the run, but
    no cluster, root or network. If gh is installed, an attestation by GitHub is checked. If the report is refused,
    prints the reasons and exits with 13. Exits with 4 if FOLDER is not the folder of a run.
    """
    from harness.plugin.suite import rehearsed
    from harness.report.rejudging import place_of
    from harness.report.verification import CHECKS, attested, verify

    place = place_of(folder).parent
    if not (place / "report.yaml").exists():
        raise UsageError(f"{place}: has no report.yaml; expected the folder of a run that has ended")
    refused = verify(place, *rehearsed(suite))
    unattested, attestation = attested(place, repo) if not any(each.check == "schema" for each in refused) else ([], "")
    if code := tell(place, [*refused, *unattested]):
        return code
    if attestation:
        click.echo(f"attestation: {for_line(attestation)}")
    click.secho(f"The report in {place} follows from its run: {', '.join(CHECKS)}.", fg="green")
    return 0


def tell(place: object, refused: "Sequence[Refusal]") -> int:
    """Print why a report is refused, and return the exit code, which is 0 for an accepted report."""
    from harness.judging.exit_codes import ExitCode

    if not refused:
        return 0
    for each in refused:
        click.secho(for_line(str(each)), fg="red")
    code = int(ExitCode.UNVERIFIED)
    reasons = f"{len(refused)} reasons" if len(refused) > 1 else "one reason"
    click.secho(f"The report in {for_line(str(place))} is refused: {reasons} (exit code {code}).", bold=True)
    return code


@click.command(epilog=examples("merge shards/*", "merge shards/* --output-dir whole"))
@click.argument("folders", nargs=-1, required=True, type=FOLDER, metavar="FOLDER...")
@with_options([BY_NAME["output-dir"]])
@SUITE
def merge(folders: Sequence[Path], output_dir: str | None, suite: str) -> int:
    """Merge the reports of all parts of a run into one report, which can be certified.

    Each FOLDER is the folder of a run with --shard. All parts must have the same suite, seed, options, implementation
    and cluster, and together contain all selected requirements. Needs no cluster, root or network.

    Exits with 13 if the parts are refused, and otherwise with the exit code of the whole run.
    """
    from harness.plugin.suite import catalogue
    from harness.report import merging
    from harness.report.rejudging import show
    from harness.run.folder import default_path

    out = Path(output_dir).resolve() if output_dir else default_path()
    for each in folders:
        if each == out or not (each / "report.yaml").exists():
            raise UsageError(f"{each}: expected the folder of a run that has ended, other than --output-dir {out}")
    shards, refused = merging.read(folders, catalogue(suite))
    if code := tell(", ".join(map(str, folders)), refused):
        return code
    run = merging.merge(shards, out)
    return show(str(out), "text", strict=run.settings.warnings_as_errors)


@click.command(
    epilog=examples(
        "report latest",
        "report reports/some-run --output page.html",
        "report latest --markdown >> $GITHUB_STEP_SUMMARY",
    )
)
@click.argument("run", type=PLACE, metavar="RUN")
@click.option(
    "--output",
    metavar="FILE",
    type=PLACE,
    help="Write the page to this file.  [default: report.html in the folder of RUN]",
)
@click.option(
    "--markdown", is_flag=True, help="Print a summary for a pull request, with failures first, instead of the page."
)
def report(run: str, output: str | None, *, markdown: bool) -> None:
    """Write the page of an earlier run again: report.html, a single file with diagrams that needs no network.

    RUN is the folder of a run with its report.yaml and history, or "latest". The summary in Markdown has maps that
    GitHub renders as diagrams.
    """
    if markdown and output:
        raise click.UsageError("--markdown prints a summary, and cannot be combined with --output")
    from harness.plugin.suite import catalogue
    from harness.report.page.rewrite import read_run, write

    if markdown:
        from harness.report.markdown import as_markdown

        found = read_run(run, catalogue())
        click.echo(as_markdown(found.report, found.results, found.judged.stories), nl=False)
        return
    click.echo(write(run, catalogue(), Path(output) if output else None))


_COMPARE_CODES = """\b
Exit codes:
  0  with --changes: no verdict changed
  1  with --changes: at least one verdict changed
  4  the arguments are invalid"""


@click.command(
    epilog=examples(
        "compare nftables/report.yaml iptables/report.yaml",
        "compare results/1.3*/",
        "compare --changes yesterday/ today/",
        "compare --issues issues/ yesterday/ today/",
        codes=_COMPARE_CODES,
    )
)
@click.argument("reports", nargs=-1, required=True, type=PLACE, metavar="REPORT...")
@click.option("--changes", is_flag=True, help="List the verdicts that changed from the first to the second REPORT.")
@click.option(
    "--issues",
    metavar="FOLDER",
    type=PLACE,
    help="Like --changes, but also write a Markdown file for each issue to open; its first line is the title.",
)
def compare(reports: Sequence[str], *, changes: bool, issues: str | None) -> int:
    """Compare reports side by side, as a Markdown page.

    Shows which features each implementation supports, and the requirements whose verdicts differ. A REPORT is a
    report.yaml file or the folder of a run. If `trafficdist verify` refuses a report, the page shows the first reason.

    --changes compares two REPORTs, which may also be folders with several runs; runs are matched by name. A
    removed requirement is a change. A new requirement is listed, and is a change only if it is not met.
    """
    if changes or issues:
        if len(reports) != 2:
            raise click.UsageError(f"--changes and --issues need two reports, not {len(reports)}")
        return _changes(reports[0], reports[1], issues)
    from harness.report.comparison import as_markdown
    from harness.report.conformance import read_report

    read = [read_report(each) for each in reports]
    click.echo(as_markdown(read, _why_refused(reports)))
    return 0


def _changes(old: str, new: str, issues: str | None) -> int:
    from harness.report import changes
    from harness.report.conformance import read_reports
    from harness.run.folder import OutputFolder

    before, after = read_reports(old), read_reports(new)
    found = changes.changes(before, after)
    places = [str(Path(place) / name) for place, read in ((old, before), (new, after)) for name in read]
    refused = [(place, why) for place, why in zip(places, _why_refused(places), strict=True) if why]
    click.echo(changes.as_markdown(found, changes.new_ones(before, after), refused))
    if excluded := changes.not_compared(before, after):
        click.echo(f"\nRequirements that are not compared, because options of one run excluded them: {excluded}.")
    for number, issue in enumerate(changes.issues(found) if issues else ()):
        OutputFolder(Path(str(issues))).write(f"{number:02}.md", f"{issue.title}\n\n{issue.body}\n")
    return 1 if found else 0


def _why_refused(places: Sequence[str]) -> list[str]:
    from harness.plugin.suite import catalogue
    from harness.report.verification import verify

    requirements = catalogue()
    folders = [Path(each) if Path(each).is_dir() else Path(each).parent for each in places]
    refused = [verify(each, requirements) for each in folders]
    return [str(each[0]) if each else "" for each in refused]
