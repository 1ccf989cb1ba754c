"""Build the conformance report from verdicts, and validate the report against its schema.

The fields up to `succeededProvisionalTests` have the same names and order as in Gateway API reports.
"""

import datetime
import functools
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

import jsonschema
import yaml

from harness.errors import DistrustError, UsageError
from harness.judging.results import Outcome, Result, count, left_out, rests_on, slowest_convergence
from harness.model import strict_yaml
from harness.model.escaping import for_json, is_plain
from harness.model.files import MEGABYTE, fault_of_path, shown
from harness.model.requirements import Level, Profile, Requirement
from harness.model.times import thousandths
from harness.report import environment as env
from harness.report.causes import CommonCause
from harness.report.outcomes import SHOWN, UNMET
from harness.run.plan import Plan, claimed, not_certifiable
from harness.run.run import Run

API_VERSION = "trafficdist.dev/v1alpha1"
SEALS = "folder"
"""The value of `seals` if the report lists every file in its folder. Older reports lack it and list fewer files."""

_LONGEST = 300  # maximum number of characters of the validator's error
MOST_BYTES = 16 * MEGABYTE  # size limit of a report; a report of the whole suite has about 250 kB


def build(
    about: Mapping[str, Any],
    results: Sequence[Result],
    found: Sequence[CommonCause] = (),
    transitions: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the report of a run, with an empty list of files. `about` is the result of `describe`."""
    values = {
        **about,
        "apiVersion": API_VERSION,
        "kind": "ConformanceReport",
        "profiles": profiles(results, about["features"]),
        "succeededProvisionalTests": [],
        "tests": [test_values(result) for result in results if not result.left_out],
        "causes": [each.to_json() for each in found],
        "transitions": list(transitions),
        "seals": SEALS,
        "artifacts": [],
    }
    names = [name for name in schema()["properties"] if name in schema()["required"] or values.get(name)]
    return {name: values[name] for name in names}


def describe(run: Run, results: Sequence[Result], duration: float) -> dict[str, Any]:
    """Return the values that describe the whole run, for the report and the history. `duration` is in seconds."""
    settings, plan = run.settings, run.known_plan() or Plan()
    place = env.environment(settings, run.known_environment())
    reported_version = place["servers"].get("apiserver", "unknown")
    channel = "alpha-gates" if any(place["featureGates"].values()) else "stable"
    return {
        "date": _time(datetime.datetime.now(datetime.UTC)),
        "kubernetesVersion": reported_version,
        "kubernetesChannel": channel if reported_version != "unknown" else "unknown",
        "mode": settings.mode,
        "judges": settings.judges,
        "implementation": env.implementation(settings),
        "suite": env.suite_of(run.suite, plan.requirements.values(), _revision(run)),
        "environment": place,
        "run": _run(run, plan, duration, results),
        "features": [{"name": each.name, "declared": claimed(each, settings)} for each in plan.features()],
    }


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _PlainDumper(_DUMPER):  # type: ignore[misc]
    """A YAML dumper that writes repeated values without anchors and quotes strings with control characters."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain(text) else '"')


_PlainDumper.add_representer(str, _text)


def as_yaml(report: dict[str, Any]) -> str:
    """Return the report as YAML. Raises `DistrustError` if the report does not match its schema."""
    check(report)
    return for_json(yaml.dump(report, Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True))


def check(report: Any) -> None:
    """Validate a report against the schema. Raises `DistrustError` with the path of an invalid field."""
    validator = jsonschema.Draft202012Validator(schema())
    error = jsonschema.exceptions.best_match(validator.iter_errors(report))
    if error is not None:
        said = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
        raise DistrustError(f"the report does not match its schema: {error.json_path}: {said}")


def read_report(place: str) -> dict[str, Any]:
    """Read a report file, or the report in a run's folder. Raises `UsageError` with the file and the key."""
    path = Path(place) / "report.yaml" if Path(place).is_dir() else Path(place)
    report = strict_yaml.read(path, what="report", most=MOST_BYTES)
    try:
        check(report)
    except DistrustError as error:
        raise UsageError(f"report {shown(path)}: {error}") from None
    for key, time in (("date", report["date"]), ("run.startTime", report["run"]["startTime"])):
        try:
            datetime.datetime.fromisoformat(time)
        except ValueError as error:
            raise UsageError(f"report {shown(path)}: key {key}: {time!r} is not a time: {error}") from None
    for key, name in (("tests", "id"), ("features", "name"), ("profiles", "name"), ("artifacts", "path")):
        times = Counter(each[name] for each in report[key])
        twice = next((each for each, number in times.items() if number > 1), None)
        if twice is not None:
            raise UsageError(f"report {shown(path)}: key {key}: {name} {twice[:100]!r} occurs twice")
    for each in report["artifacts"]:
        if not is_inside(each["path"]):
            raise UsageError(
                f"report {shown(path)}: key artifacts: {each['path'][:100]!r} is outside the report's folder"
            )
    return dict(report)


def is_inside(path: str) -> bool:
    """Return whether the path of an artifact is inside the report's folder. No file is accessed."""
    parts = PurePath(path)
    return not (parts.is_absolute() or ".." in parts.parts or "\\" in path or fault_of_path(path))


def with_levels(catalogue: Sequence[Requirement], report: Mapping[str, Any]) -> dict[str, Requirement]:
    """Return the requirements of a catalogue by id, with the levels that follow from the claims of a report."""
    declared = {each["name"] for each in report["features"] if each["declared"]}
    return {each.id: each.bound(lambda feature: feature.name in declared) for each in catalogue}


def read_reports(place: str) -> dict[str, dict[str, Any]]:
    """Return a mapping from run name ("" for a single run) to the report in a folder of runs. Raises `UsageError`."""
    if not Path(place).is_dir() or (Path(place) / "report.yaml").exists():
        return {"": read_report(place)}
    found = {path.parent.name: read_report(str(path)) for path in sorted(Path(place).glob("*/report.yaml"))}
    if not found:
        raise UsageError(f"{place}: no report.yaml in this folder or its subfolders")
    return found


@functools.cache
def schema() -> dict[str, Any]:
    text = resources.files("harness.report").joinpath("schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def profiles(results: Sequence[Result], features: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an entry for each profile with a selected requirement. `features` is the report's list of features."""
    declared = {each["name"] for each in features if each["declared"]}
    found = []
    for profile in sorted(Profile, key=lambda each: each.upper()):
        mine = [result for result in results if result.requirement.profile == profile]
        if all(result.left_out for result in mine):
            continue
        core, extended = (_level([each for each in mine if each.requirement.core is core]) for core in (True, False))
        if extended:
            extended |= _features(mine, declared)
        levels = {name: level for name, level in (("core", core), ("extended", extended)) if level}
        if levels:
            found.append({"name": profile.upper(), "summary": _summary(levels), **levels})
    return found


def _level(results: Sequence[Result]) -> dict[str, Any]:
    """Return the statistics of claimed requirements, and a result: "partial" if a MUST has no definite verdict."""
    counted = [result for result in results if result.reason != "unsupported"]
    if not counted:
        return {}
    numbers = count(counted)
    unproven = numbers[Outcome.INCONCLUSIVE] or any(
        each.requirement.level is Level.MUST and each.outcome is Outcome.NOT_RUN for each in counted
    )
    level: dict[str, Any] = {
        "result": "failure" if numbers[Outcome.FAILURE] else "partial" if unproven else "success",
        "restsOn": rests_on(counted),
        "statistics": {
            SHOWN[outcome].statistic: numbers[outcome]
            for outcome in _COUNTED
            if SHOWN[outcome].always or numbers[outcome]
        },
    }
    for outcome in _COUNTED:
        ids = sorted(each.requirement.id for each in counted if each.outcome is outcome)
        if SHOWN[outcome].ids and ids:
            level[SHOWN[outcome].ids] = ids
    return level


_COUNTED = (Outcome.MET, Outcome.NOT_RUN, *UNMET)  # outcomes in the order of Gateway API's reports


def _features(results: Sequence[Result], declared: Collection[str]) -> dict[str, list[str]]:
    names = sorted({each.name for result in results for each in result.requirement.named if not each.core})
    return {
        "supportedFeatures": [each for each in names if each in declared],
        "unsupportedFeatures": [each for each in names if each not in declared],
    }


def _summary(levels: dict[str, dict[str, Any]]) -> str:
    words = {"success": "succeeded", "partial": "partially succeeded", "failure": "failed"}
    said = [f"{name.capitalize()} tests {words[each['result']]} ({each['restsOn']})." for name, each in levels.items()]
    return " ".join(said)


def _run(run: Run, plan: Plan, duration: float, results: Sequence[Result]) -> dict[str, Any]:
    reasons, slowest = certifiable_reasons(run, plan), slowest_convergence(results)
    return {
        "seed": run.settings.seed,
        "startTime": _time(run.start),
        "durationSeconds": thousandths(duration),
        "arguments": env.without_secrets(run.arguments),
        "timeScale": run.settings.time_scale,
        "retries": run.retries,
        **_present(
            convergesWithin=run.settings.converges_within,
            slowestConvergence={"seconds": slowest[0], "test": slowest[1]} if slowest else {},
            junitWarnings=run.settings.junit_warnings.removeprefix("skipped"),  # omitted by default
            interrupted=run.interrupted,
            shard=run.settings.shard,
            quick=plan.quick.reported() if plan.quick else {},
            deselected=left_out(results),
            missing=list(run.missing),
        ),
        "certifiable": not reasons,
        **_present(certifiableReasons=reasons),
    }


def _revision(run: Run) -> str:
    return run.decorate("the revision of the suite", env.suite_revision, "")


def certifiable_reasons(run: Run, plan: Plan) -> list[str]:
    """Return the reasons known so far why the run cannot be certified, or []."""
    reasons = not_certifiable(run.settings, plan, whole_suite=run.whole_suite, retries=run.retries)
    if _revision(run).endswith("-dirty"):
        reasons.append("the suite is a checkout with uncommitted changes")
    if run.interrupted:
        reasons.append("the run was interrupted")
    return reasons + [f"the suite does not trust itself: {why}" for why in run.distrust]


def test_values(result: Result) -> dict[str, Any]:
    requirement, worst = result.requirement, result.worst
    test: dict[str, Any] = {
        "id": requirement.id,
        **_present(**{"as": requirement.as_}),
        "level": str(requirement.level),
        "profile": requirement.profile.upper(),
        "features": sorted(feature.name for feature in requirement.features),
        "verdict": str(result.verdict),
        "reason": str(result.reason),
        "message": worst.message,
        "durationSeconds": thousandths(result.duration),
    }
    test |= _present(check=worst.check, observed=worst.observed, draw=worst.draw, failsWith=worst.fails_with)
    test |= _present(rerun=worst.rerun)
    test["evidence"] = sorted({path for case in result.cases for path in case.evidence})
    if result.parametrized:
        test["cases"] = [
            {
                "parameters": case.parameters or "-",
                "verdict": str(case.verdict),
                "durationSeconds": thousandths(case.duration),
                **_present(reason=str(case.reason), message=case.message, check=case.check, observed=case.observed),
            }
            for case in sorted(result.cases, key=lambda case: case.parameters)
        ]
    return test


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _time(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
