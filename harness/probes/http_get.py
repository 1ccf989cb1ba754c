"""HTTP GET as a client of a cluster sends it: what says nothing of who is asked is told apart."""

from __future__ import annotations

from harness.errors import InconclusiveError
from harness.model.outcomes import Unknown
from harness.netns import http
from harness.netns.http import HttpAnswer
from harness.netns.namespace import Namespace
from harness.probes.probe import Probe, from_error


def http_get(place: Namespace, address: str, port: int, path: str, *, who: str) -> HttpAnswer:
    """Send a GET request from a client's netns; `who` names the client. Raises `OSError` like a connection.

    Raises `InconclusiveError` if the client has no route, port or descriptor for it.
    """
    try:
        return http.get(place, address, port, path)
    except OSError as error:
        outcome = from_error(error, Probe(place, "TCP", address, port))
        if error.errno and isinstance(outcome, Unknown):
            raise InconclusiveError(f"{who} cannot ask {address}: {outcome.why}") from error
        raise
