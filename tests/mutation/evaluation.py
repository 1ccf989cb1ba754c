"""Run the requirements of a profile on a mutation in a separate process, until a requirement kills the mutation.

A fork server has loaded the suite but not the reference, and the process is forked from it. An alarm ends the process
when a requirement takes too long, even if its parent has exited.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from harness import eventually
from harness.backends.implementation import reference
from harness.judging.history import History
from harness.netns import sandbox
from tests.conformance import kill_checks, mutant_trials
from tests.conformance.mutant_trials import MutantTrial, SwitchableBackend, fewer_probes, time_scaled
from tests.machine_load import crowding
from tests.mutation.patched_import import instead

TRIAL_SECONDS = 120
"""Longer runs count as hung, with more time on a busy machine. The slowest requirement takes 22 s."""
MOST_INCONCLUSIVE = 6
"""The maximum number of consecutive inconclusive requirements. After that, the cluster counts as broken."""
MEMORY = 8 * 2**30
"""Limit of the address space in bytes. A cluster uses less than one tenth of this limit."""

KILLED, BROKE, HUNG, GIVEN_UP = "killed", "broke", "hung", "given up"
"""Results of dead mutants: killed by a requirement, broken at import or boot, hung, or repeatedly inconclusive."""
SURVIVED, INCONCLUSIVE = "survived", "inconclusive"
"""Results of survivors: all requirements passed, or some requirements were inconclusive."""
ENDS = {KILLED, BROKE, HUNG, GIVEN_UP, SURVIVED, INCONCLUSIVE}


@dataclass(slots=True)
class MutantResult:
    """The result of a mutant: the requirement that killed it, and the requirements that were inconclusive before."""

    end: str
    by: str = ""
    text: str = ""
    tried: int = 0
    seconds: float = 0.0
    inconclusive: dict[str, str] = field(default_factory=dict)


Reading = tuple[str, str]
"""A requirement, and the reading of the KEPs ("kep" or "released") that the cluster follows."""

_STOPPED = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL}
"""Exit codes of a process that another program killed, which say nothing about the mutant."""

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def judge(module: str, text: str, requirements: Sequence[Reading]) -> MutantResult:
    """Run the requirements in this order against a mutant, the changed source of a module. Return the result."""
    begin, at, tried = time.monotonic(), "", 0
    result: MutantResult | None = None
    receiver, sender = FORKS.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = FORKS.Process(target=_in_child, args=(sender, folder, module, text, requirements))
        process.start()
        sender.close()
        try:
            while result is None:
                match receiver.recv():
                    case str(at):
                        tried += 1
                    case dict(values):
                        result = MutantResult(**values)
        except EOFError:  # the process exited without a report
            process.join()
            if process.exitcode in _STOPPED:
                raise RuntimeError(f"the trial was ended by signal {-process.exitcode}") from None
            end = HUNG if process.exitcode == -signal.SIGALRM else BROKE
            result = MutantResult(end, text=f"exit code {process.exitcode}")
        except BaseException:
            process.kill()
            raise
        finally:
            process.join()
    result.by, result.tried = result.by or at, tried
    result.seconds = round(time.monotonic() - begin, 1)
    return result


def _in_child(sender: Connection, folder: str, module: str, text: str, requirements: Sequence[Reading]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    signal.alarm(int(TRIAL_SECONDS * crowding()))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads of mutants print tracebacks
    with ExitStack() as stack:
        try:
            instead(module, text)
            cluster = stack.enter_context(booted(Path(folder)))
        except Exception as error:  # noqa: BLE001  any error ends the mutant
            result = MutantResult(BROKE, text=_first(f"{type(error).__name__}: {error}"))
        else:
            result = _run(cluster, requirements, sender)
        sender.send(asdict(result))
        os._exit(0)  # a mutant may be unable to stop; the kernel releases all resources


@contextmanager
def booted(folder: Path) -> Iterator[MutantTrial]:
    """Yield a cluster that uses the reference as this process has imported it, with short time limits."""
    sandbox.enter()
    mutant_trials.DECLARED, eventually.FAR = kill_checks.DECLARED, kill_checks.FAR
    with (
        closing(History(folder / "history.jsonl")) as history,
        SwitchableBackend(implementation=reference()) as backend,
        fewer_probes(),
        time_scaled(kill_checks.SHORT),
    ):
        yield MutantTrial(backend, history)


def _run(cluster: MutantTrial, requirements: Iterable[Reading], sender: Connection) -> MutantResult:
    inconclusive: dict[str, str] = {}
    silent = 0
    for each, reading in requirements:
        signal.alarm(int(TRIAL_SECONDS * crowding()))
        sender.send(each)
        is_judged, text = _trial(cluster, each, reading)
        if text:
            with time_scaled(1.0):  # repeat with normal limits: the machine may be slow, but a fault persists
                is_judged, text = _trial(cluster, each, reading)
        if is_judged:
            return MutantResult(KILLED, each, _first(text), inconclusive=inconclusive)
        silent = silent + 1 if text else 0
        if text:
            inconclusive[each] = _first(text)
        if silent == MOST_INCONCLUSIVE:
            return MutantResult(GIVEN_UP, each, _first(text), inconclusive=inconclusive)
    return MutantResult(INCONCLUSIVE if inconclusive else SURVIVED, inconclusive=inconclusive)


def _trial(cluster: MutantTrial, requirement: str, reading: str) -> tuple[bool, str]:
    """Return whether a requirement detected the mutant's fault, and the failure message, or ""."""
    try:
        text = cluster.failure(requirement, reading)
    except Exception as error:  # noqa: BLE001  any other error is not a verdict
        return False, f"{type(error).__name__}: {error}"
    return kill_checks.is_about(text), text


def _first(text: str) -> str:
    return text.partition("\n")[0][:300]
