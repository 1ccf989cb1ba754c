"""Whether the nodes of a cluster ran out of what the machine grants to all: what waits in vain would not say so.

Nodes of kind share the limits of one kernel. With the last inotify instance taken, by a second cluster say, a
kube-proxy ends as soon as it has begun and is started again and again; whoever waits for it sees only that nothing
comes. Its log names the error, and so do those of kubelet and containerd.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from harness.backends.kind.checks import INSTANCES_REMEDY
from harness.backends.kind.engine import Shell
from harness.errors import InconclusiveError, UnavailableError

SAYING = "too many open files"
_SECONDS = 10.0
_LOOK = (  # the newest logs of each container that ended or runs: their names, as /var/log/pods/POD/CONTAINER/0.log
    f"find /var/log/pods -name '*.log' -mmin -10 -exec grep -lis '{SAYING}' {{}} + | head -1; "
    f"journalctl --quiet --unit kubelet --unit containerd --since -10min --output cat | grep -im1 '{SAYING}'; true"
)


def what_is_scarce(shell: Shell, nodes: Collection[str]) -> str:
    """What the logs of these nodes say of a limit of the machine, with the remedy; "" where they say nothing."""
    for node in sorted(nodes):
        with contextlib.suppress(UnavailableError):  # a node that cannot be asked
            found = shell.execute(node, "sh", "-c", _LOOK, seconds=_SECONDS).strip()
            if found:
                path = found.splitlines()[0].split("/")
                who = path[5] if len(path) == 7 else "a service"
                return f"{who} of node {node} says {SAYING!r}: inotify instances have run out; {INSTANCES_REMEDY}"
    return ""


@contextlib.contextmanager
def naming_scarcity(shell: Shell, nodes: Collection[str]) -> Iterator[None]:
    """Have errors of the block say what is scarce, if something is."""
    try:
        yield
    except (InconclusiveError, UnavailableError) as error:
        if scarce := what_is_scarce(shell, nodes):
            raise type(error)(f"{error}\nIt may be this: {scarce}") from error
        raise
