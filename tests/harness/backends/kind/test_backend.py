"""Tests that a kind cluster reports the crash of its proxy instead of the errors that the crash causes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.api.client import Api
from harness.api.name_translation import NameTranslation
from harness.backends.any_cluster.target import ALWAYS, ClusterTarget
from harness.backends.kind.backend import KindBackend
from harness.backends.kubeconfig import KubeconfigBackend
from harness.errors import EndedError, InconclusiveError
from harness.model.release import Component
from harness.model.topology import ONE_ZONE

SAID = "mine on a1 exited with 2; its log ends with:\nno luck"


class BackendStub:
    """A stub for the client, the barrier, the components and the proxy exits of a backend."""

    closed = asked = 0

    def __init__(self, *news: str) -> None:
        self._news = list(news)
        self.expected = 0

    def latest(self) -> str:
        return self._news.pop(0)

    def expect_news(self) -> None:
        self.expected += 1

    def close(self) -> None:
        pass


def backend(*news: str) -> tuple[KindBackend, BackendStub]:
    stub = cast("Any", BackendStub(*news))
    target = ClusterTarget("", "", "abcd1234", NameTranslation(), ONE_ZONE, ALWAYS, backend="kind")
    made = KindBackend(target, cast("Api", stub), components=stub)
    made._proxy_exits = made._barrier = stub
    return made, stub


def test_timeout_is_reported_as_the_crash_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    in_vain = InconclusiveError("waited for the proxies of all nodes")

    def settle(_: KubeconfigBackend) -> float:
        raise in_vain

    monkeypatch.setattr(KubeconfigBackend, "settle", settle)
    made, stub = backend(SAID, "")
    with pytest.raises(EndedError, match="mine on a1 exited with 2") as caught:
        made.settle()
    assert (caught.value.component, caught.value.__cause__) == (Component.PROXY, in_vain)
    assert stub.expected == 1
    with pytest.raises(InconclusiveError, match="waited for the proxies") as again:
        made.settle()
    assert again.value is in_vain


def test_crash_is_reported_though_the_proxy_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KubeconfigBackend, "settle", lambda _: 0.0)
    monkeypatch.setattr(KubeconfigBackend, "check_instruments", lambda _: None)
    made, _ = backend("", SAID, SAID)
    assert made.settle() == 0.0
    with pytest.raises(EndedError):
        made.settle()
    with pytest.raises(EndedError):
        made.check_instruments()
