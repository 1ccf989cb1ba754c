"""The events that a reconnecting client delivers during and after an outage of the API server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.client.reconnecting_client import ReconnectingClient


class _EventLog(list[Event]):
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
def log() -> _EventLog:
    return _EventLog()


def test_subscriber_receives_existing_objects_and_changes(server: ApiServer, log: _EventLog) -> None:
    ReconnectingClient(server).subscribe(["configmaps"], log.append)
    server.create("configmaps", "default", _config_map("two"))
    assert log.since() == [("ADDED", "one"), ("SYNCED", ""), ("ADDED", "two")]


def test_events_stop_while_the_server_is_down(server: ApiServer, log: _EventLog) -> None:
    client = ReconnectingClient(server)
    client.subscribe(["configmaps"], log.append)
    client.disconnect()
    log.since()
    server.create("configmaps", "default", _config_map("two"))
    assert log.since() == []


def test_subscriber_receives_only_missed_events(server: ApiServer, log: _EventLog) -> None:
    server.create("configmaps", "default", _config_map("same"))
    server.create("configmaps", "default", _config_map("changed"))
    client = ReconnectingClient(server)
    client.subscribe(["configmaps"], log.append)
    client.disconnect()
    log.since()
    server.delete("configmaps", "default", "one")
    server.create("configmaps", "default", _config_map("new"))
    changed = server.get("configmaps", "default", "changed")
    server.update("configmaps", "default", {**changed, "data": {"value": "other"}})
    client.connect(server)
    assert log.since() == [("MODIFIED", "changed"), ("ADDED", "new"), ("DELETED", "one"), ("SYNCED", "")]


def test_watch_resumes_after_the_server_returns(server: ApiServer, log: _EventLog) -> None:
    client = ReconnectingClient(server)
    client.subscribe(["configmaps"], log.append)
    client.disconnect()
    client.connect(server)
    log.since()
    server.delete("configmaps", "default", "one")
    assert log.since() == [("DELETED", "one")]


def test_calls_fail_with_connection_errors_while_the_server_is_down(server: ApiServer) -> None:
    client = ReconnectingClient(server)
    client.disconnect()
    with pytest.raises(ConnectionRefusedError, match="not available"):
        client.get("configmaps", "default", "one")
    client.connect(server)
    assert client.get("configmaps", "default", "one")["metadata"]["name"] == "one"


def test_subscription_made_while_the_server_is_down_starts_on_its_return(server: ApiServer, log: _EventLog) -> None:
    client = ReconnectingClient()
    client.subscribe(["configmaps"], log.append)
    assert log.since() == []
    client.connect(server)
    assert log.since() == [("ADDED", "one"), ("SYNCED", "")]


def test_closed_subscription_receives_nothing_after_the_return(server: ApiServer, log: _EventLog) -> None:
    client = ReconnectingClient(server)
    watch = client.subscribe(["configmaps"], log.append)
    watch.close()
    log.since()
    client.disconnect()
    client.connect(server)
    server.delete("configmaps", "default", "one")
    assert log.since() == []
