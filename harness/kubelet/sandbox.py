"""The sandbox of one container: real programs of this machine in a pod's netns, which can change nothing outside.

A program has mounts, process ids, a host name and IPC of its own. Of this machine's files it sees programs, libraries
and /etc, all of them read-only; /tmp, /run and the like are its own. It has no capabilities, and all ends with `close`,
or when this process does in whatever way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.netns.namespace import Namespace


class NoProgramError(Exception):
    """There is no such program in the sandbox, or it cannot be run; the text is a container runtime's."""


class SandboxProcess:
    """A program that was started in a sandbox. Thread-safe."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the program has ended, for `poll` and `select`."""
        raise NotImplementedError

    def poll(self) -> int | None:
        """Return its exit code, 128 and its number for a signal, 137 if the sandbox has ended; None while it runs."""
        raise NotImplementedError

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it has ended, `seconds` at most, and return what `poll` does."""
        raise NotImplementedError

    def signal(self, number: int) -> None:
        """Send it a signal. Nothing happens if it has ended."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it: one that still runs is killed. Idempotent."""
        raise NotImplementedError


class Sandbox:
    """The sandbox of one container, from its start to its end. It is made when the first program is started."""

    def __init__(self, namespace: Namespace, *, hostname: str, files: Mapping[str, str] | None = None) -> None:
        """Programs run in the netns `namespace`, and see `files` (texts by path) in place of this machine's."""
        raise NotImplementedError

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        tty: bool = False,
        folder: str = "/",
    ) -> SandboxProcess:
        """Start a program with these descriptors, which the caller keeps (and closes), in a session of its own.

        Where `tty` is true, `stdin` is a terminal (the end of a pty that is for programs), which becomes its
        controlling one. `env` is its whole environment; a program without a slash is looked for in its PATH.
        Raises `NoProgramError`, and `UnavailableError` where no sandbox can be made here.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End all that runs in it. Idempotent."""
        raise NotImplementedError
