"""The steps of `trafficdist proxy check`: boot two nodes with a proxy, and run the hint smoke test on them."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.backends.backend import Backend
from harness.backends.netns import NetnsBackend
from harness.errors import DistrustError, EndedError, HarnessError, StartError
from harness.eventually import set_time_scale
from harness.judging.exit_codes import ExitCode
from harness.model.limits import set_limits
from harness.model.program_log import fault_in
from harness.model.topology import grid
from harness.model.verdict_basis import mark
from harness.plugin.hint_smoke_test import FOLLOWED, NAMESPACE, SOMETHING, hint_facts
from harness.proxies.executable import ExecutableProxy
from harness.run.folder import DEFAULT_PARENT, OutputFolder, name_for_now
from harness.run.real_cluster import held
from harness.settings.implementations import of_settings
from harness.settings.settings import Settings

TWO_ZONES = grid("two_zones", {"a": 1, "b": 1})  # smallest topology in which hints have an effect

STARTS, READY, SYNCED = "the program starts", "it is ready", "all changes are applied"
INSTALLED = "it is installed"
REACHED, HINTS, CHANGES = "a Service is reached", "hints are followed", "hints that change later are followed"

_BOOT = {
    STARTS: "run the recipe's command manually; docs/proxies.md lists the placeholders",
    READY: "a check in `ready` failed: is it correct, and is `ready_seconds` long enough?",
    SYNCED: "a check in `synced` did not succeed continuously for `quiet_seconds`: is it correct?",
}
_BOOT_ON_KIND = {
    INSTALLED: "the API server must accept `kind.objects`, and the command `kind.install` must succeed",
    READY: "examine that pod on a cluster that is kept (--keep-cluster); is `kind.ready_seconds` long enough?",
    SYNCED: "pods on both nodes must be able to use a Service at its new endpoint after the endpoint has changed",
}
_SMOKE_TEST = {
    REACHED: "does the proxy watch Services and EndpointSlices (not Endpoints) in all namespaces, and do the rules of "
    "a node contain the cluster IP with both endpoints?",
    HINTS: "the proxy must read `hints.forZones` of EndpointSlices: is a feature gate disabled, or does it not watch "
    "its own Node? For a proxy that does not support hints, or uses the zones of endpoints instead, set "
    "`exempt_features: [ZoneHints]`",
    CHANGES: "only the hints of the slice change: does the proxy ignore hints when it compares endpoints?",
}
"""The conditions of the smoke test, in order, each with a suggestion for debugging."""

ENDED = "a proxy must not exit: see the end of its log"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _FailedStep:
    title: str
    error: str
    texts: Mapping[str, str]
    remedy: str
    code: ExitCode


def check(settings: Settings, say: Say) -> ExitCode:
    """Boot a cluster with the proxy, and print a line for each step. Raises `UsageError` and `UnavailableError`."""
    set_time_scale(settings.time_scale)
    set_limits(settings.limits)
    made = _made(settings, say)
    known = "the recipe is valid" if settings.proxy.file else "the proxy is installed"
    say(_line("ok", f"{known}: {settings.proxy}, mode {settings.mode} {mark(settings.judges)}".rstrip()))
    with contextlib.ExitStack() as booted:
        outcome = _boot(made, booted, settings, say)
        failed = outcome if isinstance(outcome, _FailedStep) else _smoke_test(outcome, settings, say)
    proxy = getattr(made, "proxy", None)  # only an embedded cluster has one, if its boot started the proxy
    for each in proxy.remarks() if isinstance(proxy, ExecutableProxy) else ():
        say(_line("note", each))
    if failed is None:
        return ExitCode.PASSED
    lines = failed.error.strip().splitlines()
    if failed.code is not ExitCode.DISTRUST:  # otherwise the error already contains the first error of the log
        lines += [f"{name}: {fault_in(text)}" for name, text in sorted(failed.texts.items()) if name.endswith(".log")]
    if settings.keep != "never":
        lines.append(f"evidence: {_keep(settings, failed)}")
    marked = _line("UNKNOWN" if failed.code is ExitCode.INCONCLUSIVE else "FAILED", failed.title)
    say("\n".join([marked, *(_line("", line).rstrip() for line in (*lines, f"next: {failed.remedy}"))]))
    return failed.code


def _made(settings: Settings, say: Say) -> contextlib.AbstractContextManager[Backend]:
    if settings.backend == "kind":
        return held(replace(settings, topology=TWO_ZONES), lambda text: say(_line("", text)))
    implementation = of_settings(settings)
    return NetnsBackend(TWO_ZONES, families=settings.families, implementation=implementation, release=settings.release)


def _boot(
    made: contextlib.AbstractContextManager[Backend], booted: contextlib.ExitStack, settings: Settings, say: Say
) -> Backend | _FailedStep:
    steps = _BOOT_ON_KIND if settings.backend == "kind" else _BOOT
    found: Backend | _FailedStep
    try:
        found = booted.enter_context(made)
    except (EndedError, DistrustError) as error:
        title = SYNCED
        if isinstance(error, StartError):
            title = next(iter(steps)) if error.exited else READY
        found = _FailedStep(title, str(error), error.logs, steps[title], ExitCode.DISTRUST)
    for title in steps:
        if isinstance(found, _FailedStep) and title == found.title:
            break
        say(_line("ok", title))
    return found


def _smoke_test(backend: Backend, settings: Settings, say: Say) -> _FailedStep | None:
    begun = time.monotonic()
    facts: dict[str, bool] = {}
    with contextlib.suppress(EndedError):  # `check_instruments` below raises it again
        facts = hint_facts(backend)
    holds = {REACHED: bool(facts), HINTS: facts.get(SOMETHING), CHANGES: facts.get(FOLLOWED)}
    for title, remedy in _SMOKE_TEST.items():
        if title != REACHED and "ZoneHints" in settings.exempt_features:
            say(_line("-", f"{title}: not checked, because the proxy does not claim ZoneHints"))
        elif holds[title]:
            say(_line("ok", title))
        else:
            texts = backend.evidence(NAMESPACE, since=begun)
            try:
                backend.check_instruments()
            except HarnessError as error:
                return _FailedStep(title, str(error), texts, ENDED, ExitCode.INCONCLUSIVE)
            return _FailedStep(title, "", texts, remedy, ExitCode.FAILED)
    return None


def _keep(settings: Settings, failed: _FailedStep) -> Path:
    path = Path(settings.output_dir) if settings.output_dir else Path(DEFAULT_PARENT) / "checks" / name_for_now()
    folder, place = OutputFolder(path), f"evidence/{failed.title.replace(' ', '-')}"
    folder.prepare()
    for name, text in {**failed.texts, "error.txt": failed.error}.items():
        folder.write(f"{place}/{name}", text)
    folder.finish()
    return folder.path / place


def _line(mark: str, text: str) -> str:
    return f"  {mark:<8}{text}"
