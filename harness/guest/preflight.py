"""What is asked of somebody's cluster before a run begins: can it be reached, as whom, and may they do what is needed.

All of it has a deadline of its own: names that do not resolve, packets that are dropped without a word, and programs
that fetch credentials each have their own idea of how long to wait, and their sum may be minutes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.api.client import Api
from harness.api.kubeconfig import find
from harness.errors import DistrustError, InconclusiveError, UnavailableError, UsageError
from harness.guest import errors, permissions
from harness.guest.lease_record import ServerClock
from harness.guest.permissions import RULES, Rule

DEADLINE = 20.0
"""Seconds in which all has been asked, or the cluster is said not to answer. Not scaled: a person waits for it."""

_REQUEST_SECONDS = 8.0
_BACK_SECONDS = 10.0  # in which an API server that goes away for a moment is back

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reached:
    """An API server that answers: its URL, what it says of its version, as whom, and what they may not do."""

    server: str
    version: dict[str, Any]
    user: str
    denied: tuple[permissions.Denied, ...]
    clock: ServerClock


def preflight(
    kubeconfig: str, context: str = "", *, rules: Sequence[Rule] = RULES, within: float = DEADLINE
) -> Reached:
    """Ask, and come back within so many seconds whatever happens.

    Raises `UnavailableError` (exit code 12) with one line: what is wrong, and the remedy; `UsageError` (exit code 4)
    for a kubeconfig that is not as it should be. Rules whose lack costs something but not everything are in the answer.
    """
    found = reach(kubeconfig, context, rules=rules, within=within)
    needed = [str(each) for each in found.denied if not each.rule.without]
    if needed:
        more = f", and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise UnavailableError(
            f"{found.server}: {found.user} {needed[0]}{more}; let a cluster administrator apply {errors.MANIFEST}, "
            "or use another context; `trafficdist doctor` lists all"
        )
    return found


def reach(kubeconfig: str, context: str = "", *, rules: Sequence[Rule] = RULES, within: float = DEADLINE) -> Reached:
    """The same, with all the rules that are not granted in the answer.

    Raises `UnavailableError`, and `UsageError` for a kubeconfig that is not as it should be.
    """
    asked = {"server": f"kubeconfig {kubeconfig}"}

    def ask() -> Reached:
        api = Api(find(kubeconfig, context=context), timeout=_REQUEST_SECONDS)
        try:
            asked["server"] = api.server
            return _ask(api, rules)
        finally:
            api.close()

    try:
        return _in_time(ask, within=within, describe=lambda: asked["server"])
    except (UnavailableError, UsageError):
        raise
    except InconclusiveError as error:
        raise UnavailableError(errors.of(error, server=asked["server"])) from error
    except DistrustError as error:
        raise UnavailableError(str(error)) from error


def lost(kubeconfig: str, context: str = "", *, within: float = _BACK_SECONDS) -> str:
    """Why the cluster of a run is out of reach by now, in one line; "" when the API server answers this user."""
    deadline = time.monotonic() + within
    while True:
        try:
            reach(kubeconfig, context, rules=(), within=_REQUEST_SECONDS)
        except (UnavailableError, UsageError) as error:
            if errors.LOG_IN in str(error) or time.monotonic() >= deadline:
                return str(error)
            time.sleep(0.2)
        else:
            return ""


def _ask(api: Api, rules: Sequence[Rule]) -> Reached:
    clock = ServerClock()
    answer = clock.saw(api.request("GET", "/version"))
    if answer.code >= 400:
        if "kind" not in answer.body and answer.code not in {401, 403}:
            raise UnavailableError(_no_api_server(api.server, f"{answer.code}"))
        raise UnavailableError(f"{api.server}: {errors.of_answer(answer, doing='say its version')}")
    if "gitVersion" not in answer.body:
        raise UnavailableError(_no_api_server(api.server, "no version"))
    return Reached(api.server, answer.body, _user(api), tuple(permissions.denied(api, rules)), clock)


def _no_api_server(server: str, said: str) -> str:
    return (
        f"{server}: something answers GET /version with {said}, but no Kubernetes API server: is `server:` of the "
        "kubeconfig right, or does a proxy (HTTPS_PROXY) answer for it?"
    )


def _user(api: Api) -> str:
    """The user as the API server sees it; servers before 1.28 do not say."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    if answer.code == 401:
        raise UnavailableError(f"{api.server}: {errors.of_answer(answer)}")
    info = (answer.body.get("status") or {}).get("userInfo") or {} if answer.code < 400 else {}
    return f"user {info['username']}" if "username" in info else "the user of this context"


def _in_time(work: Callable[[], T], *, within: float, describe: Callable[[], str]) -> T:
    """Run `work` in a thread, and leave it alone when it takes too long: nothing can end a lookup of a name."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001  it is raised where it was asked for
            errors.append(error)

    thread = threading.Thread(target=run, name="preflight", daemon=True)
    thread.start()
    thread.join(within)
    if errors:
        raise errors[0]
    if not results:
        raise UnavailableError(
            f"{describe()}: no answer within {within:g} s (a name that does not resolve, packets that are dropped, or "
            "a program that fetches credentials): is the cluster up, and is this the right context (--context)?"
        )
    return results[0]
