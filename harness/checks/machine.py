"""Check the process limits, network namespaces and kernel features that an embedded cluster needs on this machine."""

import contextlib
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.checks.check import Check, CheckState, Finding, unusable
from harness.errors import UnavailableError
from harness.model.cluster_options import OF_BOTH_FAMILIES
from harness.netns import kernel, process, sandbox
from harness.netns.namespace import Namespace

_FILES = 256  # a run of one requirement on the embedded cluster needs fewer
_PROCESSES = 100
_SPACE = 2_000  # megabytes; most of them are reserved for the stacks and heaps of threads, and never used
_LOOK_BELOW = 4096  # higher process limits are not checked, because counting the processes takes time


def _limits(_: object) -> str:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < _FILES:
        raise UnavailableError(
            f"a process can open only {files} files here, but a run needs {_FILES}: raise `ulimit -Hn`"
        )
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY and (megabytes := space // 1_000_000) < _SPACE:
        raise UnavailableError(
            f"a process can use only {megabytes} MB of address space here, but a run needs {_SPACE}: raise `ulimit -v`"
        )
    limit = process_limit()
    if limit is not None and limit < _LOOK_BELOW and (free := limit - _tasks()) < _PROCESSES:
        raise UnavailableError(
            f"this user can start only {max(0, free)} more processes or threads (limit: {limit}), but a run needs "
            f"{_PROCESSES}: raise `ulimit -u`"
        )
    return "enough files, address space and processes"


def process_limit() -> int | None:
    """Return the maximum number of processes and threads of this user, or None if there is no limit, as for root."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if limit == resource.RLIM_INFINITY or os.getuid() == 0 else limit


def _tasks() -> int:
    count = 0
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or is hidden
            if each.stat().st_uid == os.getuid():
                count += len(list((each / "task").iterdir()))
    return count


def _namespaces(_: object) -> str:
    sandbox.enter()
    return "this user can create them"


def _kernel(families: Sequence[str]) -> Iterator[str | Finding]:
    missing = kernel.missing()
    for feature in missing:
        text = kernel.explain([feature])
        if feature == kernel.IPV6 and tuple(families) != ("IPv6",):
            yield Finding(CheckState.LACKS, text, "--families IPv4 does not need it", features=OF_BOTH_FAMILIES)
        else:
            yield unusable(text)
    if not missing:
        yield "it has everything that nodes, pods and the reference proxy need"


def _files_of_pods(_: object) -> str:
    with contextlib.closing(Namespace.create()) as namespace:
        process.run(namespace, [sys.executable, "-c", ""], files={"/etc/resolv.conf": ""})
    return "programs in a pod can have their own /etc/resolv.conf"


LIMITS: Check[object] = Check("limits", _limits)

MACHINE: tuple[Check[Sequence[str]], ...] = (
    LIMITS,
    Check("network namespaces", _namespaces, gates=True),
    Check("kernel", _kernel),
    Check("files of pods", _files_of_pods, fault=CheckState.LACKS,
          remedy="create an /etc/resolv.conf, and let containers mount: --security-opt apparmor=unconfined",
          costs="requirements whose clients are programs with their own resolv.conf are not judged "
          "(one of profile dns)"),
)  # fmt: skip
"""The checks for --backend netns. Each check receives the list of the cluster's IP families."""
