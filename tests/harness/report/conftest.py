"""Fixtures for a browser, and for the run of a small suite that looks like a released suite. Tests forge this run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.judging.statistics import Rates
from harness.model.requirements import Requirement
from harness.plugin import pytest_plugin
from harness.plugin.suite import catalogue
from harness.report import environment, verification
from harness.scenario.rehearsal import ExpectedRecords
from tests.harness.report.browser import BrowserPage, browser
from tests.harness.report.forged_run import ForgedRun
from tests.harness.report.npm import installed

JUDGED = """
from harness.errors import UnavailableError
from harness.judging.conclusion import raise_for
from harness.model.outcomes import TIMED_OUT, Reached
from harness.judging.statistics import Rates
from harness.judging.verdict import AnyOf, Verdict
from harness.scenario.record import ScenarioRecord

class Watch:
    def __init__(self, history):
        self._history = history
        self._record = ScenarioRecord("t")

    def judgement(self):
        return self._record.as_json()

    def steady(self, *seen):
        made = self._history.window("", {"a1": AnyOf(frozenset({"a1"}))}, Rates(0.5, 0.1), of=("web", "cluster-ip"))
        self._record.windows.append(("TCP, through changes", made, ()))
        made.observe_flow("a1", [(number * 0.004, each) for number, each in enumerate(seen)])
        made.judge()

    def window(self, *seen):
        made = self._history.window("", {"a1": {"a1"}}, Rates(0.5, 0.1))
        self._record.windows.append(("TCP", made, ()))
        self._record.measured[f"measured {len(self._record.measured) + 1}. gap"] = {"seconds": 0.25}
        self._record.slowest = 1.5
        made.observe("a1", list(seen))
        judgement = made.judge()
        if judgement.verdict is not Verdict.PASSED:
            raise_for(judgement, judgement.message)

@pytest.fixture
def watch(history):
    return Watch(history)

@must("KEP-2/holds")
def test_holds(watch):
    watch.window(*[Reached("a1")] * 8)
    watch.window(*[Reached("a1")] * 9)

@must("KEP-2/changes")
def test_changes(watch):
    watch.steady(*[Reached("a1")] * 20)

@must("KEP-2/turns-out-unavailable")
def test_turns_out_unavailable(watch):
    watch.window(*[Reached("a1")] * 8)
    raise UnavailableError("the answer of the client does not tell")

@must("KEP-2/leaks")
def test_leaks(watch):
    watch.window(*[Reached("a1")] * 7, TIMED_OUT)

@must("KEP-2/breaks-off")
def test_breaks_off(watch, request):
    request.addfinalizer(lambda: watch.window(*[Reached("a1")] * 7, TIMED_OUT))
    watch.window(*[Reached("a1")] * 8)

@must("KEP-2/not-claimed", Feature("Other", Profile.SERVICE_PROXY, False, "Other."))
def test_not_claimed():
    pass

@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@must("KEP-2/each-family", EXTENDED)
def test_each_family(watch, family):
    watch.window(*[Reached("a1")] * 8)
"""
FORESEEN = {("KEP-2/holds", ""): ExpectedRecords([({"a1": frozenset({"a1"})}, Rates(0.5, 0.1))] * 2)}
OPTIONS = ("organization=o", "project=p", "version=1.0", "supported-features=PreferSameNode")


AXE = "4.10.3"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core, which is installed once into the cache."""
    return installed("axe-core", AXE, "axe-core/axe.min.js", what="axe-core").read_text(encoding="utf-8")


@dataclass
class OriginalRun:
    """The run that the tests copy and change."""

    folder: Path | None = None
    requirements: Sequence[Requirement] = field(default_factory=list)

    @property
    def suite(self) -> Path:
        """Return the test module of the suite that ran."""
        assert self.folder is not None
        return self.folder.with_name("test_sample.py")


@pytest.fixture(scope="session")
def kept() -> OriginalRun:
    return OriginalRun()


@pytest.fixture
def forged(
    kept: OriginalRun,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> ForgedRun:
    """Return a copy of the run. It looks like a run of a released suite, whose windows need few probes."""
    monkeypatch.setattr(verification, "LAXEST", Rates(0.5, 0.1))
    if kept.folder is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(environment, "suite_revision", lambda: "")
            patch.setattr(environment, "_version_of", lambda _: "1.0")
            patch.setattr(pytest_plugin, "_is_whole_suite", lambda _: True)
            run = request.getfixturevalue("certify")(
                "unavailable", extra=JUDGED, options=tuple(f"--td-{each}" for each in OPTIONS)
            )
        kept.folder = Path(shutil.copytree(run.folder, tmp_path_factory.mktemp("kept") / "run"))
        shutil.copy(run.folder.parent / "test_sample.py", kept.suite)
        kept.requirements = catalogue(str(kept.suite))
    folder = Path(shutil.copytree(kept.folder, tmp_path / "run"))
    report = yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
    lines = (folder / "run.jsonl").read_bytes().splitlines(keepends=True)
    return ForgedRun(folder, report, lines, kept.requirements, lambda _: FORESEEN)


@pytest.fixture
def publishable(forged: ForgedRun) -> ForgedRun:
    """Return a run that looks like one of a released suite, on a cluster with a known version."""

    def told(record: dict[str, Any]) -> dict[str, Any]:
        if about := record.get("facts", {}).get("report"):
            about["kubernetesVersion"] = "v1.37"
        return record

    forged.report["kubernetesVersion"] = "v1.37"
    forged.rewrite(told)
    forged.make_page()
    assert forged.checks() == []
    return forged
