"""Write one Allure result per case. Allure counts results with the same `testCaseId` and parameters as retries."""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import allure

from harness.judging.results import CaseResult, Outcome, Result
from harness.judging.verdict import SkipReason
from harness.model.escaping import for_line, for_terminal, for_viewer
from harness.model.requirements import Level, Requirement
from harness.model.times import thousandths
from harness.report import causes
from harness.report.causes import CommonCause
from harness.report.outcomes import SHOWN
from harness.report.reactions import Numbers, as_csv
from harness.run.folder import OutputFolder
from harness.settings.settings import Settings

_SEVERITY = {Level.MUST: "critical", Level.SHOULD: "normal", Level.MAY: "minor"}

_TYPES = {f".{each.extension}": str(each.mime_type) for each in allure.attachment_type}


def write(
    folder: OutputFolder,
    results: Sequence[Result],
    settings: Settings,
    place: Mapping[str, Any],
    transitions: Numbers,
    *,
    found: Sequence[CommonCause],
) -> None:
    """Write the results, environment, executor and configuration for Allure. Raises `DistrustError`."""
    for each in (folder.path / "allure-results").glob("*-result.json"):  # from an earlier attempt in this run
        each.unlink()
    headlines = causes.headlines(found)
    for result in (each for each in results if not each.left_out):
        for case in result.cases:  # including cases that options excluded, without which the requirement would look met
            changes = transitions.get((case.requirement, case.parameters), ())
            attachments = [*_evidence(folder, case), *case.attachments, *_table(folder, changes)]
            cause = headlines.get(case.requirement, "")
            whole = {**_result(result, case, settings, cause), "attachments": attachments}
            _write(folder, f"allure-results/{whole['uuid']}-result.json", whole)
    properties = "".join(
        f"{for_line(key)} = {for_line(value)}\n" for key, value in sorted(_properties(settings, place).items())
    )
    folder.write("allure-results/environment.properties", properties)
    _write(folder, "allure-results/executor.json", executor(os.environ))
    _write(folder, "allurerc.json", CONFIGURATION)


def _result(result: Result, case: CaseResult, settings: Settings, cause: str) -> dict[str, Any]:
    requirement = result.requirement
    name = f"{requirement.id}[{case.parameters}]" if case.parameters else requirement.id
    parameters = _parameters(case, settings)
    start = round(case.start * 1000)
    times = {"start": start, "stop": start + round(thousandths(case.duration) * 1000)}
    url = link(requirement)
    return {
        "uuid": str(uuid.uuid4()),
        "testCaseId": _digest(name),
        "historyId": _digest(name, *parameters.values()),
        "fullName": name,
        "name": f"{name}: {requirement.sentence}",
        "titlePath": [requirement.document, requirement.section],
        "status": SHOWN[result.outcome_of(case)].allure,
        "statusDetails": {
            "message": result.message_of(case),
            "trace": f"Cause: {cause}\n\n{case.explanation}" if cause else case.explanation,
        },
        "stage": "finished",
        **(times if case.start else {}),
        "parameters": [{"name": key, "value": value} for key, value in parameters.items()],
        "labels": [*_labels(requirement, case, settings), *([{"name": "cause", "value": cause}] if cause else [])],
        "links": [{"type": "link", "url": url, "name": requirement.source}] if url else [],
        "steps": case.steps,
    }


def _parameters(case: CaseResult, settings: Settings) -> dict[str, str]:
    """Return the parameters that distinguish results of one requirement, if several runs share an Allure report."""
    own = {"case": case.parameters} if case.parameters else {}
    return {
        **own,
        "backend": settings.backend,
        "proxy": str(settings.proxy),
        "mode": settings.mode,
        "topology": settings.topology.name,
    }


def _digest(*texts: str) -> str:
    return hashlib.md5("\0".join(texts).encode(), usedforsecurity=False).hexdigest()


def _labels(requirement: Requirement, case: CaseResult, settings: Settings) -> list[dict[str, str]]:
    tags = [requirement.level, *(feature.name for feature in requirement.features), requirement.as_]
    return [
        {"name": name, "value": str(value)}
        for name, value in (
            ("epic", requirement.profile),
            ("feature", requirement.document),
            ("story", requirement.sentence),
            ("severity", _SEVERITY[requirement.level]),
            ("parentSuite", requirement.document),
            ("suite", requirement.section),
            ("subSuite", requirement.slug),
            ("requirement", requirement.id),
            ("layer", settings.backend),
            ("framework", "pytest"),
            ("thread", case.worker),
            *(("tag", tag) for tag in tags),
        )
        if value
    ]


def link(requirement: Requirement) -> str:
    kep = re.search(r"KEP-(\d+)", requirement.source)
    return f"https://kep.k8s.io/{kep[1]}" if kep else ""


def _evidence(folder: OutputFolder, case: CaseResult) -> list[dict[str, str]]:
    """Copy the evidence into Allure's folder, because Allure reads no other folder, and return the attachments."""
    found = []
    for path in map(PurePath, case.evidence):
        source = f"{uuid.uuid4()}-attachment{path.suffix}"
        folder.copy(str(path), f"allure-results/{source}")
        found.append({"name": path.name, "source": source, "type": _TYPES.get(path.suffix, "text/plain")})
    return found


def _table(folder: OutputFolder, changes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Write the measurements of steady traffic as CSV, which Allure shows as a table, and return the attachment."""
    if not changes:
        return []
    source = f"{uuid.uuid4()}-attachment.csv"
    folder.write(f"allure-results/{source}", for_terminal(as_csv(changes)))
    return [{"name": "transitions.csv", "source": source, "type": _TYPES[".csv"]}]


def _category(name: str, status: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "matchers": {"statuses": [status], **({"message": message} if message else {})}}


_SKIPPED = {
    SkipReason.UNSUPPORTED: "Not claimed",
    SkipReason.INELIGIBLE: "Cluster not suited",
    SkipReason.DESELECTED: "Deselected",
    SkipReason.UNAVAILABLE: "Not available here",
}

# Allure 3 reads categories only from this file.
CONFIGURATION = {
    "name": "trafficdist",
    "output": "allure-report",
    "plugins": {"awesome": {"options": {"reportName": "trafficdist", "singleFile": True}}},
    "categories": [
        *(
            _category(shown.category, shown.allure, f"^{outcome}, " if shown.allure == "unknown" else "")
            for outcome, shown in SHOWN.items()
            if shown.category
        ),
        *(_category(name, SHOWN[Outcome.NOT_RUN].allure, f"^{reason}: ") for reason, name in _SKIPPED.items()),
    ],
}


def executor(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the executor for Allure's widget: the CI system named by environment variables, or a manual run."""
    if environment.get("GITHUB_ACTIONS"):
        base = f"{environment.get('GITHUB_SERVER_URL', '')}/{environment.get('GITHUB_REPOSITORY', '')}"
        url = f"{base}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}"
        build = f"{environment.get('GITHUB_WORKFLOW', '')} #{environment.get('GITHUB_RUN_NUMBER', '')}"
        return {"name": "GitHub Actions", "type": "github", "buildName": build, "buildUrl": url}
    if environment.get("GITLAB_CI"):
        url = environment.get("CI_PIPELINE_URL", "")
        return {"name": "GitLab CI", "type": "gitlab", "buildName": environment.get("CI_JOB_NAME", ""), "buildUrl": url}
    return {"name": "manual run", "type": "local", "buildName": "trafficdist run"}


def _properties(settings: Settings, place: Mapping[str, Any]) -> dict[str, str]:
    servers = {f"server.{name}": version for name, version in place.get("servers", {}).items()}
    plain = ("backend", "topology", "kernel", "python")
    return {
        **{key: str(place[key]) for key in plain if key in place},
        **{key: str(version) for key, version in servers.items()},
        "ipFamilies": " ".join(place.get("ipFamilies", ())),
        "judges": settings.judges,
        "mode": settings.mode,
        "proxy": str(settings.proxy),
        "seed": str(settings.seed),
        "timeScale": str(settings.time_scale),
    }


def _write(folder: OutputFolder, name: str, value: Any) -> None:
    folder.write(name, json.dumps(for_viewer(value), ensure_ascii=False))
