"""Gather evidence from a scenario's fixtures before they are torn down.

The value of any fixture may have these optional methods. An error in one of them does not fail the run.

    evidence() -> file names and contents (str or bytes), as a mapping or as successive pairs
                                                       after a failure: rules, slices, nodes, requests, logs
    judgement() -> {"check": …, "observed": …}         after every test: the plan of its probes and the counts
    environment() -> mapping                           once: versions, nodes, feature gates
    needs() -> mapping                                 after every test: what the test needs from the cluster
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from harness.model.evidence_text import bounded, not_gathered

SECONDS = 10.0  # time limit for a fixture's evidence


@dataclass(slots=True)
class FixtureData:
    texts: dict[str, str | bytes] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    needs: dict[str, Any] = field(default_factory=dict)


def gather(fixtures: Mapping[str, Any], *, evidence: bool, environment: bool = False) -> FixtureData:
    """Gather data from the values of all fixtures. Evidence and environment are gathered only on request."""
    gathered = FixtureData()
    for name, value in sorted(fixtures.items()):
        if isinstance(value, type) or name == "request":
            continue
        if evidence:
            gathered.texts |= _texts(value, name)
        judgement = _ask(value, "judgement", name, gathered)
        gathered.check |= judgement.get("check", {})
        gathered.observed |= judgement.get("observed", {})
        gathered.needs |= _ask(value, "needs", name, gathered)
        if environment:
            gathered.environment |= _ask(value, "environment", name, gathered)
    return gathered


def _texts(value: Any, fixture: str) -> dict[str, str | bytes]:
    asked = getattr(value, "evidence", None) or _explained(value)
    if not callable(asked):
        return {}
    found: dict[str, str | bytes] = {}
    missing = f"no-evidence-{fixture}.txt"

    def gather() -> None:
        try:
            said = asked()
            for name, text in said.items() if isinstance(said, Mapping) else said:
                found[str(name)] = text if isinstance(text, bytes) else bounded(str(text))
        except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
            found[missing] = not_gathered(error)

    gathering = threading.Thread(target=gather, name=f"evidence-{fixture}", daemon=True)
    gathering.start()
    with contextlib.suppress(pytest.fail.Exception):  # the time limit of the scenario, which is not a verdict
        gathering.join(SECONDS)
    texts = dict(found)
    if gathering.is_alive():
        texts[missing] = f"the remaining evidence was not ready within {SECONDS:g} s"
    return texts


def _explained(value: Any) -> Callable[[], Iterator[tuple[str, str | bytes]]] | None:
    from harness.scenario.record import ScenarioRecord  # noqa: PLC0415  only tests with a cluster need it

    record = getattr(value, "record", None)
    if not isinstance(record, ScenarioRecord):
        return None
    from harness.scenario.evidence import explain_failure  # noqa: PLC0415

    return partial(explain_failure, value, record)


def _ask(value: Any, method: str, fixture: str, gathered: FixtureData) -> dict[str, Any]:
    asked = getattr(value, method, None)
    if not callable(asked):
        return {}
    try:
        return dict(asked())
    except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
        gathered.texts[f"no-{method}-{fixture}.txt"] = not_gathered(error)
        return {}
