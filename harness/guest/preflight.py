"""Checks before a run that a cluster is reachable, that it accepts the user, and which permissions are missing. One
deadline covers all checks, because the time limits of name lookups and credential plugins add up to minutes.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from harness import eventually
from harness.api.client import Api, RefusedError
from harness.api.connection import find
from harness.errors import DistrustError, InconclusiveError, UnavailableError, UsageError
from harness.guest import errors, permissions
from harness.guest.lease_record import ServerClock
from harness.guest.permissions import RULES, Rule
from harness.run_delay import RUN_DELAY

DEADLINE = 20.0
"""The time limit in seconds for all checks. It is not scaled, because a person waits for the result."""

_REQUEST_SECONDS = 8.0
_BACK_SECONDS = 10.0  # seconds within which an API server that did not answer must answer again


class CredentialsError(UnavailableError):
    """The API server does not accept the credentials, so a retry cannot help."""


@dataclass(frozen=True, slots=True)
class ReachedServer:
    server: str
    version: dict[str, Any]
    user: str
    denied: tuple[permissions.DeniedRule, ...]
    clock: ServerClock


def preflight(
    kubeconfig: str, context: str = "", *, rules: Sequence[Rule] = RULES, within: float = DEADLINE
) -> ReachedServer:
    """Check the cluster for at most `within` seconds. `denied` in the result lists missing optional permissions. Raises
    `UnavailableError` with the problem and its fix in one line, and `UsageError` for a wrong kubeconfig.
    """
    found = reach(kubeconfig, context, rules=rules, within=within)
    needed = [str(each) for each in found.denied if not each.rule.without]
    if needed:
        more = f", and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise UnavailableError(
            f"{found.server}: {found.user} {needed[0]}{more}; let a cluster administrator apply {errors.MANIFEST}, "
            "or use another context; `trafficdist doctor` lists all missing permissions"
        )
    return found


def reach(
    kubeconfig: str, context: str = "", *, rules: Sequence[Rule] = RULES, within: float = DEADLINE
) -> ReachedServer:
    """Check the cluster and all rules. Raises `UnavailableError`, or `UsageError` for a wrong kubeconfig."""
    asked = {"server": f"kubeconfig {kubeconfig}"}

    def ask() -> ReachedServer:
        with contextlib.closing(Api(find(kubeconfig, context=context), timeout=_REQUEST_SECONDS)) as api:
            asked["server"] = api.server
            return _ask(api, rules)

    try:
        return _in_time(ask, within=within, describe=lambda: asked["server"])
    except (UnavailableError, UsageError):
        raise
    except (RefusedError, InconclusiveError) as error:
        kind = CredentialsError if errors.is_of_credentials(error) else UnavailableError
        where = f"{asked['server']}: " if isinstance(error, RefusedError) else ""
        raise kind(where + errors.of(error, server=asked["server"])) from error
    except DistrustError as error:
        raise UnavailableError(str(error)) from error


def lost(kubeconfig: str, context: str = "", *, within: float = _BACK_SECONDS) -> str:
    """Return why the run's cluster is unreachable, or "". Periods without CPU time do not count as waiting time."""
    begin = time.monotonic()
    with RUN_DELAY.watched():
        while True:
            try:
                reach(kubeconfig, context, rules=(), within=_REQUEST_SECONDS)
            except CredentialsError as error:
                return str(error)
            except (UnavailableError, UsageError) as error:
                passed = time.monotonic() - begin
                if passed >= min(within + RUN_DELAY.lost(begin), within * eventually.MOST):
                    return str(error)
                time.sleep(0.2)
            else:
                return ""


def _ask(api: Api, rules: Sequence[Rule]) -> ReachedServer:
    clock = ServerClock()
    answer = clock.saw(api.request("GET", "/version"))
    if answer.code >= 400:
        if "kind" not in answer.body and answer.code not in {401, 403}:
            raise UnavailableError(_no_api_server(api.server, f"{answer.code}"))
        raise RefusedError("GET", "/version", answer)
    if "gitVersion" not in answer.body:
        raise UnavailableError(_no_api_server(api.server, "no version"))
    return ReachedServer(api.server, answer.body, _user(api), tuple(permissions.denied(api, rules)), clock)


def _no_api_server(server: str, text: str) -> str:
    return (
        f"{server}: a server that is not a Kubernetes API server answers GET /version with {text}: is `server:` of the "
        "kubeconfig correct, or does a proxy (HTTPS_PROXY) answer for it?"
    )


def _user(api: Api) -> str:
    """Return the user as the API server sees it. Servers before 1.28 do not report users."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = api.request("POST", path, review)
    if answer.code == 401:
        raise RefusedError("POST", path, answer)
    info = (answer.body.get("status") or {}).get("userInfo") or {} if answer.code < 400 else {}
    return f"user {info['username']}" if "username" in info else "the user of this context"


def _in_time(work: Callable[[], ReachedServer], *, within: float, describe: Callable[[], str]) -> ReachedServer:
    """Run `work` in a thread, and abandon it at the deadline, because a name lookup cannot be cancelled."""
    result: Future[ReachedServer] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001  it is raised in the caller's thread
            result.set_exception(error)

    threading.Thread(target=run, name="preflight", daemon=True).start()
    wait([result], timeout=within)
    if not result.done():
        raise UnavailableError(
            f"{describe()}: no response within {within:g} s (possible causes: an unresolvable name, lost packets, or "
            "a slow program that fetches credentials); is the cluster up, and is this the right context (--context)?"
        )
    return result.result()
