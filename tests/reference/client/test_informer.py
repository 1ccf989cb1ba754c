"""The informer's notifications after the API server was unavailable."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.client.informer import Informer


class _Log(list[Event]):
    def since(self) -> Sequence[tuple[str, str]]:
        """Return the type and name of each notification since the last call."""
        seen = [(each.type, each.object.get("metadata", {}).get("name", "")) for each in self]
        self.clear()
        return seen


def _config_map(name: str, value: str = "") -> Object:
    return {"metadata": {"name": name}, "data": {"value": value}}


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer()
    server.create("configmaps", "default", _config_map("one"))
    return server


@pytest.fixture
def log() -> _Log:
    return _Log()


def test_subscriber_is_told_what_is_there_and_what_comes(server: ApiServer, log: _Log) -> None:
    Informer(server).subscribe(["configmaps"], log.append)
    server.create("configmaps", "default", _config_map("two"))
    assert log.since() == [("ADDED", "one"), ("SYNCED", ""), ("ADDED", "two")]


def test_events_stop_while_the_server_is_away(server: ApiServer, log: _Log) -> None:
    informer = Informer(server)
    informer.subscribe(["configmaps"], log.append)
    informer.disconnect()
    log.since()
    server.create("configmaps", "default", _config_map("two"))
    assert log.since() == []


def test_subscriber_is_told_just_what_it_missed(server: ApiServer, log: _Log) -> None:
    server.create("configmaps", "default", _config_map("same"))
    server.create("configmaps", "default", _config_map("changed"))
    informer = Informer(server)
    informer.subscribe(["configmaps"], log.append)
    informer.disconnect()
    log.since()
    server.delete("configmaps", "default", "one")
    server.create("configmaps", "default", _config_map("new"))
    changed = server.get("configmaps", "default", "changed")
    server.update("configmaps", "default", {**changed, "data": {"value": "other"}})
    informer.connect(server)
    assert log.since() == [("MODIFIED", "changed"), ("ADDED", "new"), ("DELETED", "one"), ("SYNCED", "")]


def test_changes_are_watched_again_after_a_return(server: ApiServer, log: _Log) -> None:
    informer = Informer(server)
    informer.subscribe(["configmaps"], log.append)
    informer.disconnect()
    informer.connect(server)
    log.since()
    server.delete("configmaps", "default", "one")
    assert log.since() == [("DELETED", "one")]


def test_calls_fail_as_connections_do_while_the_server_is_away(server: ApiServer) -> None:
    informer = Informer(server)
    informer.disconnect()
    with pytest.raises(ConnectionRefusedError, match="away"):
        informer.get("configmaps", "default", "one")
    informer.connect(server)
    assert informer.get("configmaps", "default", "one")["metadata"]["name"] == "one"


def test_subscription_made_while_the_server_is_away_begins_with_its_return(server: ApiServer, log: _Log) -> None:
    informer = Informer()
    informer.subscribe(["configmaps"], log.append)
    assert log.since() == []
    informer.connect(server)
    assert log.since() == [("ADDED", "one"), ("SYNCED", "")]


def test_closed_subscription_hears_nothing_of_a_return(server: ApiServer, log: _Log) -> None:
    informer = Informer(server)
    watch = informer.subscribe(["configmaps"], log.append)
    watch.close()
    log.since()
    informer.disconnect()
    informer.connect(server)
    server.delete("configmaps", "default", "one")
    assert log.since() == []
