"""Converts agnhost's output into outcomes of probes."""

import re
from collections.abc import Callable

from harness.api.client import Response
from harness.backends.any_cluster.pods import ClientPod
from harness.errors import UnavailableError
from harness.model.outcomes import TIMED_OUT, Observation, Reached, Refused, Unknown

UNREPORTED = Unknown("agnhost does not report the answers before the attempt that failed")

Reader = Callable[[str], Observation]  # converts the text of an answer into an outcome

_ADDRESS = re.compile(r"\[?([0-9A-Fa-f.:]+?)\]?:\d+")
_REFUSED = {
    "connection refused": "ECONNREFUSED",
    "connection reset by peer": "ECONNRESET",
    "no route to host": "EHOSTUNREACH",
    "network is unreachable": "ENETUNREACH",
    "host is down": "EHOSTDOWN",
    "machine is not on the network": "ENONET",
    "protocol not available": "ENOPROTOOPT",
    "connect: permission denied": "EACCES",
    "connect: operation not permitted": "EPERM",
}
"""Go's error messages for refused attempts, with their errno names (see `harness.probes.probe`)."""
_NOT_PERMITTED = "write: operation not permitted"
_TIMED_OUT = ("i/o timeout", "context deadline exceeded", "Client.Timeout", "connection timed out")


def address_seen(answer: str) -> Observation:
    found = _ADDRESS.fullmatch(answer.strip())
    return Reached("", found[1]) if found else Unknown(f"an unknown server answered: {answer.strip()[:60]!r}")


def from_text(error: str) -> Observation:
    if how := next((name for text, name in _REFUSED.items() if text in error), ""):
        return Refused(how)
    return TIMED_OUT if any(each in error for each in _TIMED_OUT) else Unknown(error[:200])


def connected(response: Response) -> Observation:
    """Return the outcome of `agnhost connect`, which prints nothing if it succeeds."""
    output = str(response.body.get("output", "")).strip()
    if response.code != 200 or (not output and response.body.get("error")):
        return Unknown(f"{response.code} {response.body.get('message') or response.body.get('error', '')}"[:200])
    if output == "REFUSED":
        return Refused("ECONNREFUSED")
    if output == "TIMEOUT":
        return TIMED_OUT
    return from_text(output) if output else Reached("")


def outcomes_of(response: Response, tries: int, read: Reader, client: ClientPod) -> list[Observation]:
    """Return an outcome for each attempt. Raises `UnavailableError` if a rule on the client's node blocks packets."""
    answers = list(response.body.get("responses") or ())
    errors = list(response.body.get("errors") or ())
    if any(_NOT_PERMITTED in each for each in errors):
        raise UnavailableError(
            f"rules on the node of {client.name} block its outgoing datagrams, and agnhost does not report "
            "whether they are dropped or rejected"
        )
    silent = tries - len(answers) - len(errors)
    if response.code != 200 or silent < 0 or (silent and not errors):
        why = response.body.get("message") or f"{len(answers) + len(errors)} outcomes of {tries} tries"
        return [Unknown(f"pod {client.name} could not send probes: {response.code} {why}"[:300])] * tries
    return [*map(read, answers), *map(from_text, errors), *[UNREPORTED] * silent]
