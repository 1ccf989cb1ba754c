"""A pytest plugin that reports the progress of a run to Sonobuoy's worker, for `sonobuoy status`.

Nothing depends on it: after a few errors it stops, and no error reaches the run.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

import pytest

from harness.judging.outcome import DECISIVE, Outcome, outcome
from harness.judging.verdict import Verdict, combine
from harness.plugin.recorder import PROPERTY
from harness.run.plan import Plan
from harness.run.run import Run, run_of

TIMEOUT = 1.0
INTERVAL = 1.0
"""Seconds that one update may take, and between two of them."""

MOST_ERRORS = 3
"""After this many errors in a row it stops."""


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run, in the process that collects the results of all workers."""
    run, port = run_of(config), os.environ.get("SONOBUOY_PROGRESS_PORT", "")
    if run is not None and port and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SonobuoyProgress(run, port), "trafficdist_sonobuoy")


class SonobuoyProgress:
    """Counts ended cases. As with Sonobuoy's own tests, `completed` leaves out failures, and has warnings."""

    def __init__(self, run: Run, port: str) -> None:
        self._run = run
        self._url = f"http://localhost:{port}/progress"
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # never through a proxy
        self._verdicts: dict[str, Verdict] = {}
        self._said = -INTERVAL
        self._errors = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the verdict on one case, and send an update at most once per `INTERVAL`."""
        payload: Any = dict(report.user_properties).get(PROPERTY)
        if payload is None:
            return
        before = self._verdicts.get(report.nodeid, Verdict.SKIPPED)  # set-up, test and tear-down say one each
        self._verdicts[report.nodeid] = combine((before, Verdict(payload["verdict"])))
        if time.monotonic() - self._said >= INTERVAL:
            self._say(f"{payload['requirement']}: {payload['verdict']}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Send the last update, with all counts."""
        self._say("reports are written")

    def update(self, message: str) -> dict[str, Any]:
        """Return the update for the worker."""
        plan = self._run.known_plan() or Plan()
        wanted = {case.nodeid: plan.requirements[case.requirement] for case in plan.cases if case.to_run}
        ended = {nodeid: verdict for nodeid, verdict in self._verdicts.items() if nodeid in wanted}
        found = {nodeid: outcome(verdict, wanted[nodeid].level) for nodeid, verdict in ended.items()}
        decisive = {kind: [wanted[nodeid].id for nodeid, each in found.items() if each is kind] for kind in DECISIVE}
        return {
            "msg": message,
            "total": len(wanted),
            "completed": sum(each not in DECISIVE for each in found.values()),
            "failures": decisive[Outcome.FAILURE],
            "errors": decisive[Outcome.UNTOLD],
        }

    def _say(self, message: str) -> None:
        if self._errors >= MOST_ERRORS:
            return
        body = json.dumps(self.update(message)).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310  loopback
        try:
            self._open(request, timeout=TIMEOUT).close()
            self._errors = 0
        except OSError:
            self._errors += 1
        self._said = time.monotonic()
