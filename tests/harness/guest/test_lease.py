"""Tests that only one run at a time uses a cluster, and that a killed run does not block the next one."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from harness.api.client import Api, path_of
from harness.errors import DistrustError
from harness.eventually import eventually
from harness.guest import lease_record
from harness.guest.labels import LEASE, NAMESPACE, RUN_LABEL, checked_run_id, new_run_id, run_labels
from harness.guest.lease import hold
from harness.guest.lease_record import LeaseRecord, lease_record_of

ELSEWHERE = "0000-boot/1 4711 12"


def claimed(api: Api, run: str, *, seconds_ago: float = 0.0, process: str = ELSEWHERE) -> None:
    """Create the Lease and the namespace of another run."""
    when = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    api.create("namespaces", "", {"metadata": {"name": NAMESPACE, "labels": run_labels(run)}})
    api.create("leases", NAMESPACE, LeaseRecord(run, "alice@laptop pid 4711", when, when, process=process).lease())


def namespaces(api: Api) -> set[str]:
    return {each["metadata"]["name"] for each in api.list("namespaces")}


def test_nothing_is_left_of_a_run_that_has_ended(api: Api) -> None:
    before = namespaces(api)
    with hold(api, "aaaaaaaa"):
        assert lease_record_of(api.get("leases", NAMESPACE, LEASE)).run == "aaaaaaaa"
        api.create("namespaces", "", {"metadata": {"name": "td-1", "labels": run_labels("aaaaaaaa")}})
    assert namespaces(api) == before


def test_nothing_is_left_of_a_run_that_was_interrupted(api: Api) -> None:
    def interrupted() -> None:
        with hold(api, "aaaaaaaa"):
            api.create("namespaces", "", {"metadata": {"name": "td-1", "labels": run_labels("aaaaaaaa")}})
            raise KeyboardInterrupt

    before = namespaces(api)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert namespaces(api) == before


def test_cluster_about_to_be_deleted_is_not_cleaned_up(api: Api) -> None:
    before = namespaces(api)
    with hold(api, "aaaaaaaa", ends=True):
        assert lease_record_of(api.get("leases", NAMESPACE, LEASE)).run == "aaaaaaaa"
    assert namespaces(api) == before | {NAMESPACE}


def test_second_run_is_refused_with_the_holder_in_one_line(api: Api) -> None:
    with (
        hold(api, "aaaaaaaa"),
        pytest.raises(DistrustError, match=rf"run aaaaaaaa of {lease_record.identity()}, since 20.*wait") as refused,
        hold(api, "bbbbbbbb"),
    ):
        pytest.fail("both runs hold the Lease")
    assert "\n" not in str(refused.value)


def test_expired_lease_is_taken_over_and_leftovers_are_removed(api: Api) -> None:
    claimed(api, "dead0000", seconds_ago=31)
    api.create("namespaces", "", {"metadata": {"name": "td-dead0000-main-1", "labels": run_labels("dead0000")}})
    said: list[str] = []
    with hold(api, "bbbbbbbb", say=said.append):
        assert "td-dead0000-main-1" not in namespaces(api)
        assert api.get("namespaces", "", NAMESPACE)["metadata"]["labels"][RUN_LABEL] == "bbbbbbbb"
    assert "alice@laptop pid 4711" in said[0]
    assert said[1] == "removing leftovers of an earlier run: 1 namespace"
    assert NAMESPACE not in namespaces(api)


def test_a_run_killed_on_this_machine_is_known_to_be_dead_at_once(api: Api) -> None:
    script = "from harness.guest import lease_record; print(lease_record.process_name())"
    dead = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    claimed(api, "dead0000", process=dead.stdout.strip())
    with hold(api, "bbbbbbbb"):
        assert lease_record_of(api.get("leases", NAMESPACE, LEASE)).run == "bbbbbbbb"


def test_a_live_process_of_this_machine_is_not_dead() -> None:
    assert not lease_record.has_ended(lease_record.process_name())
    assert not lease_record.has_ended(ELSEWHERE)


def test_a_lease_is_renewed(api: Api) -> None:
    with hold(api, "aaaaaaaa", every=0.02):
        first = lease_record_of(api.get("leases", NAMESPACE, LEASE)).renewed
        eventually(
            lambda: lease_record_of(api.get("leases", NAMESPACE, LEASE)).renewed > first, within=5, describe="a renewal"
        )


def test_a_run_notices_that_its_lease_was_taken(api: Api) -> None:
    with hold(api, "aaaaaaaa", every=0.02) as first, hold(api, "bbbbbbbb", force=True):
        eventually(lambda: first.lost, describe="the first run to notice")
        with pytest.raises(DistrustError, match="another run took over the cluster: run bbbbbbbb"):
            first.check()
    assert NAMESPACE not in namespaces(api)


def test_namespace_created_by_a_user_is_preserved(api: Api) -> None:
    api.create("namespaces", "", {"metadata": {"name": NAMESPACE}})
    with hold(api, "aaaaaaaa"):
        pass
    assert NAMESPACE in namespaces(api)
    assert api.request("GET", path_of("leases", NAMESPACE, LEASE)).code == 404


def test_run_ids_are_eight_letters_and_digits() -> None:
    assert checked_run_id(new_run_id()) != new_run_id()


def test_lease_round_trip() -> None:
    now = datetime(2026, 11, 21, 11, 0, 0, 123456, tzinfo=UTC)
    later = now + timedelta(seconds=5)
    record = LeaseRecord("aaaaaaaa", "alice@laptop pid 1", now, later, process=ELSEWHERE, version="7")
    assert lease_record_of(record.lease()) == record
