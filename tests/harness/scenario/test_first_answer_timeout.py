"""Tests that first answers are judged with the full timeout. A short timeout would miss answers on a busy machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.errors import InconclusiveError
from harness.judging.conclusion import UnmetError
from harness.judging.history import History
from harness.model.outcomes import TIMED_OUT, Observation
from harness.model.topology import ONE_ZONE
from harness.probes.loop import Probe
from harness.scenario.cluster import Cluster
from harness.scenario.concurrent_traffic import ExpectedTraffic, expect_concurrent_first_answers
from harness.scenario.service import endpoint


@pytest.mark.parametrize("answers", [True, False], ids=["an answer that comes late", "no answer"])
def test_missing_first_answer_does_not_fail_an_implementation_that_answers(
    tmp_path: Path, netns_allowed: None, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    def glance(_self: NetnsBackend, probes: Sequence[Probe]) -> list[Observation]:
        return [TIMED_OUT] * len(probes)

    monkeypatch.setattr(NetnsBackend, "glance", glance)
    with (
        NetnsBackend(ONE_ZONE, implementation=reference()) as backend,
        History(tmp_path / "run.jsonl") as history,
    ):
        cluster = Cluster(backend, "first", history=history, test="test", converges_within=0.2)
        labels = {} if answers else {"service.kubernetes.io/service-proxy-name": "another"}
        service = cluster.create_service(labels=labels)
        (pod,) = cluster.run_servers(on=["a1"])
        cluster.publish(service, [endpoint(pod)])
        with pytest.raises(InconclusiveError if answers else UnmetError, match="got no answer"):
            expect_concurrent_first_answers(cluster, [ExpectedTraffic("first", service, {"a1": {pod}})])
        cluster.close()
