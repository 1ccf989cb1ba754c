"""The health of a proxy, which depends on its pending changes and on its Node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference.features import Features
from reference.proxy.health import Health


class FakeClock:
    """A clock that a test advances."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def made(clock: FakeClock, version: int = 34) -> Health:
    return Health(Features((1, version)), clock=clock)


def ask(health: Health, path: str = "/healthz") -> tuple[int, dict[str, Any]]:
    code, _, body = health.answer(path)
    return code, json.loads(body) if code != 404 else {}


def node(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a1", **fields.pop("metadata", {})}, **fields}


TAINTED = node(spec={"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]})
DELETED = node(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})


def test_idle_proxy_is_healthy_and_up_to_date(clock: FakeClock) -> None:
    health = made(clock)
    clock.now += 1_000

    code, body = ask(health)

    assert (code, body["nodeEligible"]) == (200, True)
    assert body["lastUpdated"] == body["currentTime"] == "1970-01-01T00:33:20+00:00"


def test_change_may_wait_at_most_for_the_timeout(clock: FakeClock) -> None:
    health = made(clock)
    health.queued()
    clock.now += 59
    health.queued()
    assert ask(health, "/livez")[0] == 200

    clock.now += 1

    code, body = ask(health, "/livez")
    assert (code, body["lastUpdated"], body["currentTime"][14:19]) == (503, "1970-01-01T00:16:40+00:00", "17:40")
    assert ask(health)[0] == 503


def test_a_change_that_is_in_the_kernel_no_longer_waits(clock: FakeClock) -> None:
    health = made(clock)
    health.queued()
    health.queued()
    clock.now += 59
    health.updated(1)
    clock.now += 59
    late = ask(health)[0]

    health.updated(1)
    clock.now += 1_000

    assert (late, ask(health)[0]) == (200, 200)


@pytest.mark.parametrize("obj", [TAINTED, DELETED])
def test_node_being_deleted_gets_no_traffic_and_its_proxy_is_live(clock: FakeClock, obj: dict[str, Any]) -> None:
    health = made(clock)
    health.node(obj, deleted=False)

    code, body = ask(health)

    assert (code, body["nodeEligible"]) == (503, False)
    assert ask(health, "/livez")[0] == 200
    assert "nodeEligible" not in ask(health, "/livez")[1]


def test_deleted_node_counts_as_being_deleted_until_it_is_created_again(clock: FakeClock) -> None:
    health = made(clock)
    health.node(node(), deleted=True)
    gone = ask(health)[0]

    health.node(node(), deleted=False)

    assert (gone, ask(health)[0]) == (503, 200)


def test_releases_before_1_30_do_not_look_at_the_node(clock: FakeClock) -> None:
    health = made(clock, 29)
    health.node(TAINTED, deleted=False)

    assert ask(health)[0] == 200
    assert ask(health)[1]["nodeEligible"] is True


def test_releases_before_1_28_have_no_livez(clock: FakeClock) -> None:
    health = made(clock, 27)

    assert ask(health, "/livez")[0] == 404
    assert ask(health)[1].keys() == {"lastUpdated", "currentTime"}


def test_answers_are_counted_by_code(clock: FakeClock) -> None:
    health = made(clock)
    ask(health)
    health.node(TAINTED, deleted=False)
    ask(health)
    ask(health, "/livez")

    assert health.codes == {"healthz": {200: 1, 503: 1}, "livez": {200: 1, 503: 0}}
