"""Allure results: labels while tests run, and at the end everything that a listener in a worker cannot know.

allure-pytest writes the results. Afterwards they are held against the books: a test that was interrupted or whose
worker died gets the verdict that all other reports show, and one that never ran gets a result too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import allure
import pytest

from harness.report.folder import OutputFolder
from harness.report.results import CaseResult, Result
from harness.requirements import Level, Requirement
from harness.settings import Settings
from harness.verdict import Verdict

STATUS: Mapping[str, str] = {
    Verdict.PASSED: "passed",
    Verdict.FAILED: "failed",
    Verdict.INCONCLUSIVE: "broken",
    Verdict.SKIPPED: "skipped",
}

_SEVERITY = {Level.MUST: "critical", Level.SHOULD: "normal", Level.MAY: "minor"}

CATEGORIES = [
    {"name": "Requirement not met", "matchedStatuses": ["failed"]},
    {"name": "Could not be told (inconclusive)", "matchedStatuses": ["broken"]},
    {"name": "Not claimed", "matchedStatuses": ["skipped"], "messageRegex": "(?s).*unsupported: .*"},
    {"name": "Cluster unsuited", "matchedStatuses": ["skipped"], "messageRegex": "(?s).*ineligible: .*"},
    {"name": "Deselected", "matchedStatuses": ["skipped"], "messageRegex": "(?s).*deselected: .*"},
    {"name": "Not available here", "matchedStatuses": ["skipped"], "messageRegex": "(?s).*unavailable: .*"},
]


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """One of a scenario's steps (arrange, converge, probe, judge); does nothing where Allure is not in use."""
    with allure.step(title):
        yield


def label(item: pytest.Item, requirement: Requirement, settings: Settings) -> None:
    """Give a test the labels that all Allure views are built from."""
    for name, values in labels(requirement, settings).items():
        item.add_marker(pytest.mark.allure_label(*values, label_type=name))
    item.add_marker(pytest.mark.allure_label(item.nodeid, label_type="case"))
    url = link(requirement)
    if url:
        item.add_marker(pytest.mark.allure_link(url, name=requirement.source, link_type="link"))


def labels(requirement: Requirement, settings: Settings) -> dict[str, tuple[str, ...]]:
    """The labels of a requirement, by Allure's names."""
    return {
        "epic": (str(requirement.profile),),
        "feature": (requirement.document,),
        "story": (requirement.sentence,),
        "severity": (_SEVERITY[requirement.level],),
        "parentSuite": (settings.backend,),
        "suite": (f"{settings.proxy} {settings.mode}",),
        "subSuite": (requirement.document,),
        "layer": (settings.backend,),
        "tag": tuple(filter(None, [str(requirement.level), *(f.name for f in requirement.features), requirement.as_])),
    }


def link(requirement: Requirement) -> str:
    """Where the document can be read: KEPs have a short address by number."""
    kind, _, number = requirement.document.partition("-")
    return f"https://kep.k8s.io/{number}" if kind == "KEP" and number.isdecimal() else ""


def title(requirement: Requirement, parameters: str, settings: Settings) -> None:
    """Set title and parameters of the running test. History follows a test by name and parameters."""
    allure.dynamic.title(_title(requirement, parameters))  # type: ignore[no-untyped-call]
    allure.dynamic.parameter("topology", settings.topology)
    allure.dynamic.parameter("mode", settings.mode)


def attach(name: str, text: str) -> None:
    """Attach one piece of evidence to the running test."""
    kind = allure.attachment_type.YAML if name.endswith(".yaml") else allure.attachment_type.TEXT
    allure.attach(text, name=name, attachment_type=kind)


def complete(folder: OutputFolder, results: Sequence[Result], settings: Settings, place: Mapping[str, Any]) -> None:
    """Make the results agree with the books, and add environment, categories and executor. Raises `DistrustError`."""
    cases = {case.nodeid: (result.requirement, case) for result in results for case in result.cases}
    seen = _correct(folder, cases)
    for nodeid, (requirement, case) in cases.items():
        if nodeid not in seen:
            _write(folder, f"{uuid.uuid4()}-result.json", _absent(requirement, case, settings))
    _write(folder, "categories.json", CATEGORIES)
    _write(folder, "executor.json", executor(os.environ))
    properties = "".join(f"{key} = {value}\n" for key, value in sorted(_properties(settings, place).items()))
    folder.write("allure-results/environment.properties", properties)


def _correct(folder: OutputFolder, cases: Mapping[str, tuple[Requirement, CaseResult]]) -> set[str]:
    """Set the status of each written result to the verdict; drop those that were cut off before they had labels."""
    seen: set[str] = set()
    cut_off = {(_full_name(nodeid), nodeid.rpartition("::")[2]) for nodeid in cases}
    for path in folder.allure.glob("*-result.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        nodeid = next((each["value"] for each in result.get("labels", ()) if each["name"] == "case"), "")
        if nodeid in cases:
            seen.add(nodeid)
            case = cases[nodeid][1]
            if result.get("status") != STATUS[case.verdict]:
                result["status"], result["statusDetails"] = STATUS[case.verdict], _details(case)
                _write(folder, path.name, result)
        elif (result.get("fullName"), result.get("name")) in cut_off or not result.get("fullName"):
            path.unlink()
    return seen


def _absent(requirement: Requirement, case: CaseResult, settings: Settings) -> dict[str, Any]:
    parameters = [
        {"name": name, "value": repr(value)}
        for name, value in (("mode", settings.mode), ("topology", settings.topology))
    ]
    full_name = _full_name(case.nodeid)
    history = "".join([full_name, *(each["value"] for each in parameters)])
    url = link(requirement)
    return {
        "uuid": str(uuid.uuid4()),
        "historyId": hashlib.md5(history.encode(), usedforsecurity=False).hexdigest(),
        "name": _title(requirement, case.parameters),
        "fullName": full_name,
        "status": STATUS[case.verdict],
        "statusDetails": _details(case),
        "stage": "finished",
        "parameters": parameters,
        "labels": [
            {"name": name, "value": value}
            for name, values in {**labels(requirement, settings), "case": (case.nodeid,)}.items()
            for value in values
        ],
        "links": [{"type": "link", "url": url, "name": requirement.source}] if url else [],
    }


def executor(environment: Mapping[str, str]) -> dict[str, str]:
    """Who ran it, for Allure's executors widget: a CI system that says so in its environment, or somebody by hand."""
    if environment.get("GITHUB_ACTIONS"):
        base = f"{environment.get('GITHUB_SERVER_URL', '')}/{environment.get('GITHUB_REPOSITORY', '')}"
        url = f"{base}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}"
        return {"name": "GitHub Actions", "type": "github", "buildName": _build(environment), "buildUrl": url}
    if environment.get("GITLAB_CI"):
        url = environment.get("CI_PIPELINE_URL", "")
        return {"name": "GitLab CI", "type": "gitlab", "buildName": environment.get("CI_JOB_NAME", ""), "buildUrl": url}
    return {"name": "by hand", "type": "local", "buildName": "trafficdist run"}


def _build(environment: Mapping[str, str]) -> str:
    return f"{environment.get('GITHUB_WORKFLOW', '')} #{environment.get('GITHUB_RUN_NUMBER', '')}"


def _title(requirement: Requirement, parameters: str) -> str:
    return f"{requirement.id}{f' [{parameters}]' if parameters else ''}: {requirement.sentence}"


def _details(case: CaseResult) -> dict[str, str]:
    message = f"{case.reason}: {case.message}" if case.verdict == Verdict.SKIPPED else case.message
    return {"message": message, "trace": case.explanation}


def _full_name(nodeid: str) -> str:
    """allure-pytest's name of a test: `package.module.Class#test`, without parameters."""
    path, *classes, test = nodeid.partition("[")[0].split("::")
    module = ".".join([*path.removesuffix(".py").split("/"), *classes])
    return f"{module}#{test}"


def _properties(settings: Settings, place: Mapping[str, Any]) -> dict[str, str]:
    servers = {f"server.{name}": version for name, version in place.get("servers", {}).items()}
    plain = ("backend", "topology", "kernel", "python")
    return {
        **{key: str(place[key]) for key in plain if key in place},
        **{key: str(version) for key, version in servers.items()},
        "ipFamilies": " ".join(place.get("ipFamilies", ())),
        "mode": settings.mode,
        "proxy": settings.proxy,
        "seed": str(settings.seed),
        "timeScale": str(settings.time_scale),
    }


def _write(folder: OutputFolder, name: str, value: Any) -> None:
    folder.write(f"allure-results/{name}", json.dumps(value, ensure_ascii=False))
