"""A pytest plugin that reports the progress of a run to Sonobuoy's worker, for `sonobuoy status`.

No other part depends on this plugin. It stops after several errors, and errors do not affect the run.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

import pytest

from harness.judging.outcome import DECISIVE, Outcome
from harness.plugin.ledger import Ledger
from harness.run.plan import Plan
from harness.run.run import Run, run_of

TIMEOUT = 1.0
INTERVAL = 1.0
"""The time limit for one update, and the interval between two updates, in seconds."""

MOST_ERRORS = 3
"""The number of consecutive errors after which the plugin stops."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in the controller, which has the results of all workers."""
    run, ledger = run_of(config), config.pluginmanager.getplugin("trafficdist_ledger")
    port = os.environ.get("SONOBUOY_PROGRESS_PORT", "")
    if run is not None and ledger is not None and port:
        config.pluginmanager.register(SonobuoyProgress(run, ledger, port), "trafficdist_sonobuoy")


class SonobuoyProgress:
    """Counter of ended cases. As in Sonobuoy's own tests, `completed` includes warnings, but not failures."""

    def __init__(self, run: Run, ledger: Ledger, port: str) -> None:
        self._run, self._ledger = run, ledger
        self._url = f"http://localhost:{port}/progress"
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # never through an HTTP proxy
        self._last = -INTERVAL
        self._errors = 0

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Send an update, at most once per `INTERVAL`."""
        if time.monotonic() - self._last >= INTERVAL:
            self._send(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Send the last update, with all counts."""
        self._send("reports are written")

    def update(self, message: str) -> dict[str, Any]:
        """Return the update as Sonobuoy's worker expects it."""
        plan = self._run.known_plan() or Plan()
        wanted = {case.nodeid for case in plan.cases if case.to_run}
        cases = [(each, case) for each in self._ledger.results() for case in each.cases if case.nodeid in wanted]
        ended = [(result.requirement.id, result.outcome_of(case)) for result, case in cases if not case.never_began]
        decisive = {kind: [name for name, outcome in ended if outcome is kind] for kind in DECISIVE}
        return {
            "msg": message,
            "total": len(cases),
            "completed": sum(outcome not in DECISIVE for _, outcome in ended),
            "failures": decisive[Outcome.FAILURE],
            "errors": decisive[Outcome.INCONCLUSIVE],
        }

    def _send(self, message: str) -> None:
        if self._errors >= MOST_ERRORS:
            return
        body = json.dumps(self.update(message)).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310  loopback
        try:
            self._open(request, timeout=TIMEOUT).close()
            self._errors = 0
        except OSError:
            self._errors += 1
        self._last = time.monotonic()
