"""Events."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class Events(Strategy):
    resource = Resource("", "v1", "Event", "events", "event", ("ev",))
