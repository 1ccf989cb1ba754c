"""Record tests in the process that runs them: plan them at collection, judge each phase, and gather evidence."""

import contextlib
import fcntl
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import pytest

from harness import threads
from harness.errors import DistrustError, InconclusiveError, UsageError
from harness.judging.conclusion import first_line
from harness.judging.exit_codes import ExitCode
from harness.judging.history import History
from harness.judging.judge import described
from harness.judging.results import Case, CaseResult
from harness.judging.verdict import SkipReason, Verdict
from harness.model import needs
from harness.model.abilities import Ability
from harness.model.escaping import for_line
from harness.model.evidence_text import bounded
from harness.model.needs import Needs
from harness.model.neutral_output import neutral
from harness.model.requirements import Requirement
from harness.plugin import judging, time_limit
from harness.plugin.evidence import gather
from harness.plugin.shrinking import Shrinker
from harness.report import rerun
from harness.run import durations, plan, quick_selection, random_values, sharding
from harness.run.plan import Plan
from harness.run.resource_shortage import shortage
from harness.run.run import Run
from harness.run.signals import hear_controller_alone
from harness.variation.axes import PLAIN

DISTRUST = "trafficdist_distrust"
"""The user property of a test report that states why the suite does not trust its own instruments."""

MISSING = "trafficdist_missing"
"""The user property of a test report that names a missing part of the run's report, and why it is missing."""

DISRUPTIVE = frozenset(
    {
        Ability.RESTART_API_SERVER,
        Ability.RESTART_CONTROLLER,
        Ability.RESTART_PROXY,
        Ability.CHANGE_RELEASE,
        Ability.CHANGE_NODES,
        Ability.REPORT_NODES,
        Ability.CREATE_NODES,
        Ability.STOP_NODES,
        Ability.CONTROLLER_METRICS,
        Ability.PROXY_METRICS,
        Ability.UNDISTURBED,
    }
)
"""Abilities whose use disturbs other workers on a real cluster, or is disturbed by them (metrics count all traffic)."""


class Recorder:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._plan = Plan()
        self._deselected: list[pytest.Item] = []
        self._lost = ""
        self._failed = False  # whether the current test failed in its call phase
        self._shrinker = Shrinker(run)
        self._running = False  # whether a test is running
        self._start = self._seconds = 0.0  # start and elapsed time of the current test

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Plan the tests. Workers raise no usage errors, because xdist's main process sets the exit code."""
        try:
            self._make_plan([*items, *self._deselected])
            allowed = {each.id: each for item, each in owned(items) if not self._why_not(item, each)[0]}
            if self._run.settings.quick:
                self._plan.quick = quick_selection.choose(allowed.values(), self._plan.seconds, self._run.settings)
            if shard := self._run.settings.shard:
                self._plan.shards = sharding.divide({each: self._plan.seconds[each] for each in allowed}, shard)
        except UsageError as error:
            self._plan = Plan(error=str(error))
            items[:] = []
            if not self._run.worker:
                raise pytest.UsageError(str(error)) from error
        items.sort(key=self._order)
        left_out = [item for item, requirement in owned(items) if not self._prepare(item, requirement).begins]
        if left_out:
            items[:] = [item for item in items if item not in set(left_out)]
            config.hook.pytest_deselected(items=left_out)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        planned = {case.nodeid for case in self._plan.cases}
        self._deselected.extend(item for item in items if item.nodeid not in planned)

    def pytest_collection_finish(self) -> None:
        self._plan.cases.extend(
            Case(item.nodeid, requirement.id, parameters_of(item), SkipReason.DESELECTED, plan.BY_PYTEST)
            for item, requirement in owned(self._deselected)
        )
        self._run.leave_plan(self._plan)
        if self._run.worker:  # not earlier: Python may turn an interrupt in an import into a RuntimeError
            hear_controller_alone()

    def _make_plan(self, items: Sequence[pytest.Item]) -> None:
        for item, requirement in owned(items):
            bound = requirement.bound(lambda feature: plan.claimed(feature, self._run.settings))
            item.add_marker(pytest.mark.requirement(bound), append=False)  # takes precedence
        found = owned(items)
        twice = plan.duplicates([(requirement.id, item.nodeid.partition("[")[0]) for item, requirement in found])
        if twice:
            raise UsageError(f"several tests have the same requirement id: {', '.join(twice)}")
        self._plan = Plan({requirement.id: requirement for _, requirement in found})
        cases = Counter(requirement.id for _, requirement in found)
        self._plan.seconds = {
            each.id: durations.estimate(each, self._needs(item), cases=cases[each.id], declared=_declared(item))
            for item, each in found
        }
        self._plan.draws = random_values.draws_of(
            self._plan.requirements.values(),
            self._run.settings,
            needs={each.id: self._needs(item) for item, each in found},
            seconds={each: seconds / cases[each] for each, seconds in self._plan.seconds.items()},
        )
        plan.check_names(self._run.settings, self._plan.requirements.values())
        self._check_generation(items)

    def _check_generation(self, items: Sequence[pytest.Item]) -> None:
        asked = self._run.settings.generation
        if asked is None:
            return
        found = [marker for item in items if (marker := item.get_closest_marker("generates")) is not None]
        if not found:
            raise UsageError("--generate, --replay: the suite has no test that generates scenarios")
        for check in {marker.args[0] for marker in found}:
            check(asked)

    def _order(self, item: pytest.Item) -> tuple[Any, ...]:
        """Return a sort key that, in a worker, groups tests by cluster (each must boot) and puts long tests first."""
        requirement = requirement_of(item)
        expensive = random_values.expensive_values(self._plan, requirement) if self._run.worker else ("", "")
        if requirement is None:
            return False, False, expensive, 0.0, True
        length = self._plan.seconds.get(requirement.id, 0.0) if self._run.worker else 0.0
        kind, _, number = requirement.document.partition("-")
        return requirement.last, self._disrupts(item), expensive, -length, False, kind, int(number or 0)

    def _disrupts(self, item: pytest.Item) -> bool:
        return bool(self._run.target) and not DISRUPTIVE.isdisjoint(self._needs(item).abilities)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        with contextlib.ExitStack() as held:
            if self._run.target:
                lock = held.enter_context((self._run.folder.parts / "turn.lock").open("a"))
                fcntl.flock(lock, fcntl.LOCK_EX if self._disrupts(item) else fcntl.LOCK_SH)
            self._failed, self._running = False, True
            ended = yield
            self._running = False
            if self._failed and not item.session.shouldfail:
                self._shrink(item, nextitem)
            return ended

    def _shrink(self, item: pytest.Item, following: pytest.Item | None) -> None:
        requirement = requirement_of(item)
        draw = self._plan.draw_of(requirement.id) if requirement is not None else PLAIN
        if requirement is None or draw == PLAIN:
            return
        smallest = self._shrinker.shrink(item, draw, following)
        if smallest is not None:
            facts = {"test": requirement.id, "parameters": parameters_of(item), "draw": str(smallest)}
            self._written(lambda history: history.write("shrunk", **facts))

    def _needs(self, item: pytest.Item) -> Needs:
        requirement = requirement_of(item)
        if requirement is None:
            return Needs()
        return needs.table_for(item.path.parent).get(requirement.id, Needs())

    def _why_not(self, item: pytest.Item, requirement: Requirement) -> tuple[str, str]:
        reason, thing = plan.reason_to_skip(requirement, self._run.settings)
        if self._run.settings.generation and item.get_closest_marker("generates") is None:
            reason, thing = SkipReason.DESELECTED, "--generate and --replay run other scenarios"
        if not reason:
            reason, thing = plan.what_cannot_show(requirement, self._run.lacking)
        if not reason and self._run.target:
            reason, thing = plan.what_is_lacking(self._needs(item), self._run.offered)
        if not reason and self._plan.quick and requirement.id not in self._plan.quick.ids:
            reason, thing = SkipReason.DESELECTED, "not chosen by --quick"
        shard = self._plan.shards.get(requirement.id, "")
        if not reason and shard and shard != self._run.settings.shard:
            reason, thing = SkipReason.DESELECTED, f"{sharding.ELSEWHERE}{shard}"
        return reason, thing

    def _prepare(self, item: pytest.Item, requirement: Requirement) -> Case:
        reason, thing = self._why_not(item, requirement)
        case = Case(item.nodeid, requirement.id, parameters_of(item), reason, thing)
        self._plan.cases.append(case)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"{reason}: {thing}"), append=False)
        return case

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        random.seed(f"{self._run.settings.seed} {item.nodeid}")  # the same in every order and every worker
        with judging.translated("set-up"), self._limited(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        with judging.called(getattr(item, "funcargs", {}), self._limited(item)):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        with judging.translated("teardown"), self._limited(item):
            return (yield)

    def _limited(self, item: pytest.Item) -> contextlib.AbstractContextManager[None]:
        return time_limit.limited(time_limit.limit_of(item), self._end_worker)

    def _end_worker(self, why: str) -> None:
        """End this worker, which cannot continue with other tests. xdist starts another one."""
        if self._run.worker:
            with contextlib.suppress(DistrustError):
                self._run.folder.leave_part(f"lost-{self._run.worker}", why)
            os._exit(1)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Unregister pytest-timeout, which may raise errors in pytest's own code. Its options and markers remain."""
        if session.config.pluginmanager.hasplugin("timeout"):
            session.config.pluginmanager.unregister(name="timeout")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Judge the phase, and gather evidence of a failure immediately, before the teardown."""
        report = yield
        requirement = requirement_of(item)
        error = call.excinfo.value if call.excinfo else None
        distrust = judging.sentence(error) if isinstance(error, DistrustError) else _ended() or self._loss(error)
        if ended := judging.end_of(error):
            self._run.leave_end(ended.component, str(ended))
        if requirement is not None:
            cases = enumerate(self._plan.cases_of(requirement.id))
            number, case = next(each for each in cases if each[1].nodeid == item.nodeid)
            result = judging.judge(report, error, case)
            result.draw = self._plan.draws.get(requirement.id, "")
            self._failed = self._failed or (report.when == "call" and result.verdict == Verdict.FAILED)
            judging.end_with(result, rerun.again(self._run.settings, case, arguments=self._run.arguments))
            if report.when == "call" or result.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE):
                prefix, logs = "teardown-" if report.when == "teardown" else "", judging.logs_of(error)
                what = f"evidence of {result.requirement}"
                self._run.decorate(what, lambda: self._witness(item, result, prefix, logs), None)
                report.user_properties += [(MISSING, each) for each in self._run.missing]
            # The plan's skipped cases are recorded at the end of the run.
            if case.to_run and (report.when == "call" or result.verdict != Verdict.PASSED):
                phase, ended_by = judging.PHASES[str(report.when)], judging.judgement_of(error)
                facts = {"ended_by": ended_by, "number": number, **described(requirement, result)}
                told = result.requirement, phase, Verdict(result.verdict), result.message
                distrust = self._written(lambda history: history.verdict(*told, **facts)) or distrust
            distrust = self._time(report, requirement, item) or distrust
            if distrust:
                report.user_properties = [*report.user_properties, (DISTRUST, distrust)]
        if distrust:
            item.session.shouldfail = distrust
        return report

    def _time(self, report: pytest.TestReport, requirement: Requirement, item: pytest.Item) -> str:
        if report.when == "setup":
            self._start, self._seconds = report.start, 0.0
        self._seconds += report.duration
        if report.when != "teardown":
            return ""
        facts = {"test": requirement.id, "parameters": parameters_of(item)}
        return self._written(lambda history: history.write("took", **facts, seconds=self._seconds, start=self._start))

    def _written(self, write: Callable[[History], None]) -> str:
        try:
            write(self._run.history)
        except (OSError, UsageError) as failure:
            return f"the history cannot be written: {shortage(failure) or failure}"
        return ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the history of a worker. Without workers, the history ends before the reports are written."""
        if self._run.worker:
            with contextlib.suppress(OSError):  # a full disk: the controller notices the missing end
                self._run.close_history()

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Exit if a worker cannot continue. Otherwise xdist would report an internal error, and end the run."""
        told = judging.why_it_stopped(excinfo.value) if self._run.worker else ""
        if told:
            os.write(2, f"error: worker {self._run.worker}: {neutral(for_line(told))}\n".encode())
            os._exit(ExitCode.DISTRUST)
        if self._running:
            self._end_worker(f"internal error: {type(excinfo.value).__name__}: {first_line(str(excinfo.value))}")

    def _loss(self, error: BaseException | None) -> str:
        """Return why the real cluster is unreachable, or "". Check the cluster only after an `InconclusiveError`."""
        if self._run.target and not self._lost and isinstance(error, InconclusiveError):
            from harness.guest.preflight import lost  # noqa: PLC0415  only runs on a real cluster need it

            self._lost = lost(self._run.target["kubeconfig"], self._run.target["context"])
        return self._lost

    def _witness(self, item: pytest.Item, result: CaseResult, prefix: str, logs: Mapping[str, str]) -> None:
        keep, failed = self._run.settings.keep, result.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE)
        wanted = keep == "always" or (keep == "failed" and failed)
        gathered = gather(getattr(item, "funcargs", {}), evidence=wanted, environment=not self._run.environment)
        result.check, result.observed = _plain(gathered.check), _plain(gathered.observed)
        result.needs = gathered.needs
        if gathered.environment:
            self._run.leave_environment(gathered.environment)
        if keep != "never":
            gathered.texts |= {name: bounded(text) for name, text in logs.items()}
        if result.explanation and keep != "never":
            gathered.texts["explanation.txt"] = result.explanation
        folder = f"evidence/{result.requirement}"
        if result.parameters:
            folder += f"/{_file_name(result.parameters)}"
        for name, text in sorted(gathered.texts.items()):
            path = f"{folder}/{prefix}{_file_name(name)}"
            self._run.folder.write(path, text)
            result.evidence.append(path)


def owned(items: Iterable[pytest.Item]) -> list[tuple[pytest.Item, Requirement]]:
    return [(item, found) for item in items if (found := requirement_of(item)) is not None]


def requirement_of(item: pytest.Item) -> Requirement | None:
    marker = item.get_closest_marker("requirement")
    if marker is None:
        return None
    if not marker.args or not isinstance(marker.args[0], Requirement):
        raise pytest.UsageError(f"{item.nodeid}: use @requirement from trafficdist, not pytest.mark.requirement")
    return marker.args[0]


def _declared(item: pytest.Item) -> float:
    marker = item.get_closest_marker("takes")
    return float(marker.args[0]) if marker is not None else 0.0


def parameters_of(item: pytest.Item) -> str:
    return item.callspec.id if hasattr(item, "callspec") else ""


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value as it would be read from JSON, so that the report equals the history."""
    return dict(json.loads(json.dumps(value, default=str)))


def _ended() -> str:
    """Return the error of a thread of the embedded cluster that ended unexpectedly, or "" if all threads run."""
    try:
        threads.require()
    except DistrustError as error:
        return str(error)
    return ""


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text).lstrip(".") or "_"
