"""Merge the reports of all shards of a run, which different machines wrote, into one report of the whole run.

The merged history has the records of all shards. The report is derived from it by the code that a run uses, so
`trafficdist verify` accepts it like the report of a run on one machine.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.judging.history import RecordedHistory
from harness.judging.judge import judge
from harness.judging.results import Case, Result
from harness.judging.verdict import Verdict
from harness.model.files import files_in
from harness.model.requirements import Requirement
from harness.report.conformance import describe, read_report
from harness.report.environment import catalogue_digest, suite_revision
from harness.report.verification import CHECKS, CheckedReport, Refusal, checked
from harness.report.writer import write_reports
from harness.run.folder import ALLURE, OutputFolder
from harness.run.plan import Plan
from harness.run.run import Run
from harness.run.sharding import other_shard

_MAY_DIFFER = {"shard", "output_dir", "workers", "keep", "kubeconfig", "context", "given", "kernel", "python", "cpus"}
"""The options and facts about the environment that may differ between shards."""


@dataclass(frozen=True)
class Shard:
    name: str  # such as "2/5", or "" for a run without --shard
    checked: CheckedReport
    run: Run
    results: Mapping[str, Result]

    def common(self) -> dict[str, Any]:
        """Return the values that must be the same in all shards, by name."""
        options, report = self.run.settings.to_json(), self.checked.report
        # A run that creates clusters lists the nodes of the first one.
        hidden = _MAY_DIFFER | ({"nodes"} if self.run.settings.backend != "kubeconfig" else set())
        return {
            "the number of parts": self.name.partition("/")[2],
            **{f"suite.{name}": value for name, value in report["suite"].items()},
            **{f"--{name.replace('_', '-')}": value for name, value in options.items() if name not in hidden},
            **{f"environment.{name}": each for name, each in report["environment"].items() if name not in hidden},
        }

    def place_of(self, name: str) -> str:
        """Return the shard that runs a requirement, or why no shard runs it."""
        if (result := self.results.get(name)) is None:
            return "not collected"
        if any(each.worker or each.never_began or each.verdict != Verdict.SKIPPED for each in result.cases):
            return self.name
        return other_shard(result.worst.message) or f"{result.reason}: {result.worst.message}"

    def records(self, owners: Mapping[str, "Shard"]) -> Iterator[dict[str, Any]]:
        """Yield the records for the merged history, without those about the whole shard. Workers get unique names."""
        for each in self.checked.recorded.records[1:]:
            closes = each["kind"] in ("run", "not-run", "end") or not each.get("phase", "call")
            if not closes and owners.get(each.get("test", ""), self) is self:
                yield {**each, "worker": f"{self.name}-{each['worker']}"} if each.get("worker") else each


def read(folders: Sequence[Path], catalogue: Sequence[Requirement]) -> tuple[list[Shard], list[Refusal]]:
    """Return the shards in these folders, in order, and the reasons why they cannot be merged."""
    shards, found = list[Shard](), list[Refusal]()
    for folder in folders:
        try:
            report = checked(folder, read_report(str(folder)), catalogue)
            told = next(each["facts"] for each in report.recorded.records if each["kind"] == "run")
            if "shard" not in told:
                raise UsageError("it is not a part of a run: expected a run with --shard NUMBER/COUNT")
            run, results = Run.in_worker(told["shard"], ""), {each.requirement.id: each for each in report.results}
            shards.append(Shard(run.settings.shard, report, run, results))
        except (AttributeError, LookupError, StopIteration, TypeError, ValueError, UsageError) as error:
            found.append(Refusal("history", f"{folder}: {error}"))
        else:
            found += [Refusal(name, f"{folder}: {text}") for name, text in _faults(report)]
    shards.sort(key=lambda each: int(each.name.partition("/")[0]))
    return shards, found or list(_why_not(shards))


def _faults(run: CheckedReport) -> Iterator[tuple[str, str]]:
    yield from ((check, text) for check in ("artifacts", "times") for text in CHECKS[check](run))
    if any(run.report.get(name) != value for name, value in run.judged.report.items()):
        yield "identity", "report.yaml differs from the facts in the history"
    installed = {"catalogueDigest": catalogue_digest(run.catalogue.values()), "revision": suite_revision()}
    if any(run.report["suite"].get(name, value) != value for name, value in installed.items()):
        yield "suite", "its suite is not the installed one: install the release, or use the commit, that made the run"


def _why_not(shards: Sequence[Shard]) -> Iterator[Refusal]:
    """Yield why these shards are not the parts of one run."""
    first, known = shards[0].common(), dict[str, Path]()
    for each in shards:
        folder = each.checked.folder
        if (same := known.setdefault(each.name, folder)) is not folder:
            yield Refusal("shards", f"{same} and {folder} are both shard {each.name}: give each part once")
        for name, value in each.common().items():
            if (other := first.get(name, value)) != value:
                places = f"{json.dumps(other)} in {shards[0].checked.folder}, but {json.dumps(value)} in {folder}"
                yield Refusal("parts", f"{name} is {places}: all parts need the same value")
    count = int(shards[0].name.partition("/")[2])
    if missing := {f"{number}/{count}" for number in range(1, count + 1)} - known.keys():
        yield Refusal("shards", f"shard {', '.join(sorted(missing))} is missing: give the folders of all {count} parts")
    for name in sorted({name for each in shards for name in each.results}):
        told = {each.place_of(name): each.checked.folder for each in shards}
        if len(told) > 1:
            said = "; ".join(f"{json.dumps(place)} according to {folder}" for place, folder in told.items())
            yield Refusal("selection", f"{name} is in different shards: {said}: all parts need the same selection")
            return


def merge(shards: Sequence[Shard], out: Path) -> Run:
    """Write the merged report to a folder. `shards` are all shards of a run, in order. Return the whole run."""
    by_name, first = {each.name: each for each in shards}, shards[0]
    owners = {name: by_name.get(first.place_of(name), first) for name in sorted(first.results)}
    results = [owner.results[name] for name, owner in owners.items()]
    records = [record for each in shards for record in each.records(owners)]
    histories = [each.checked.recorded.records for each in shards]
    walls = min(each[0]["wall"] for each in histories), max(each[-1]["wall"] for each in histories)
    workers = [f"{each.name}-{worker}" for each in shards for worker in each.checked.recorded.records[0]["merged"]]
    recorded = RecordedHistory(tuple(records), complete=True, workers=tuple(workers), walls=walls)
    run, reports = _whole(shards, results, out), [each.checked.report for each in shards]
    about = describe(run, results, walls[1] - walls[0])
    about["run"]["shards"] = {each.name: each.checked.report["run"]["durationSeconds"] for each in shards}
    about |= {"suite": reports[0]["suite"], "date": max(each["date"] for each in reports)}
    run.folder.prepare()
    try:
        for folder in (each.checked.folder for each in shards):  # attachments of steps are not in the history
            for path in [*files_in(folder / "evidence"), *(folder / ALLURE).glob("*-attachment*")]:
                run.folder.write(str(path.relative_to(folder)), path.read_bytes())
        write_reports(run, results, judge(records, out), recorded, about)
        run.folder.finish()
    finally:
        run.folder.abandon()
    return run


def _whole(shards: Sequence[Shard], results: Sequence[Result], out: Path) -> Run:
    environments = [each.checked.report["environment"] for each in shards]
    machines = {name: ", ".join(sorted({each[name] for each in environments})) for name in ("kernel", "python")}
    runs, judged = [each.checked.report["run"] for each in shards], [each.checked.judged for each in shards]
    cases = [(each.requirement.id, case) for each in results for case in each.cases if case.left_out]
    return replace(
        shards[0].run,
        settings=replace(shards[0].run.settings, shard="", output_dir=str(out)),
        folder=OutputFolder(out),
        plan=Plan(dict(shards[0].checked.catalogue), [Case("", name, "", c.reason, c.message) for name, c in cases]),
        start=datetime.fromisoformat(min(each["startTime"] for each in runs)),
        environment={name: value for place in reversed(environments) for name, value in place.items()} | machines,
        distrust=list(dict.fromkeys(why for each in judged for why in each.distrust)),
        retries=sum(each["retries"] for each in runs),
        interrupted=any(each.interrupted for each in judged),
        missing=list(dict.fromkeys(why for each in runs for why in each.get("missing", ()))),
    )
