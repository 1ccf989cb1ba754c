"""Detects that the nodes of a cluster ran out of inotify instances: otherwise only a timeout would be reported.

Kind nodes share the limits of one kernel. When the last inotify instance is taken, for example by a second cluster,
each new kube-proxy crashes again and again, and a wait for it times out. The logs of kube-proxy, kubelet and
containerd contain the error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.checks import INSTANCES_REMEDY
from harness.errors import InconclusiveError, UnavailableError

SAYING = "too many open files"
_SECONDS = 10.0
_LOOK = (  # prints the path of a recent log with the error, /var/log/pods/POD/CONTAINER/0.log, or a line of the journal
    f"find /var/log/pods -name '*.log' -mmin -10 -exec grep -lis '{SAYING}' {{}} + | head -1; "
    f"journalctl --quiet --unit kubelet --unit containerd --since -10min --output cat | grep -im1 '{SAYING}'; true"
)


def exhausted_limit(shell: ContainerEngine, nodes: Collection[str]) -> str:
    """Return a sentence with the remedy if the logs of these nodes name an exhausted limit of the machine, else ""."""
    for node in sorted(nodes):
        with contextlib.suppress(UnavailableError):  # the node does not answer
            found = shell.execute(node, "sh", "-c", _LOOK, seconds=_SECONDS).strip()
            if found:
                path = found.splitlines()[0].split("/")
                who = path[5] if len(path) == 7 else "a service"
                return f"{who} of node {node} says {SAYING!r}: inotify instances have run out; {INSTANCES_REMEDY}"
    return ""


@contextlib.contextmanager
def naming_exhausted_limit(shell: ContainerEngine, nodes: Collection[str]) -> Iterator[None]:
    """Add the exhausted limit, if any, to errors of the block."""
    try:
        yield
    except (InconclusiveError, UnavailableError) as error:
        if scarce := exhausted_limit(shell, nodes):
            raise type(error)(f"{error}\nPossible cause: {scarce}") from error
        raise
