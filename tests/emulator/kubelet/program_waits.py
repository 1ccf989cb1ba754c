"""Wait for programs in sandboxes."""

from __future__ import annotations

import select

from emulator.kubelet.sandbox import SandboxProcess


def wait(process: SandboxProcess) -> int | None:
    """Wait at most 10 seconds for a program, and return its exit code, or None if it still runs."""
    poll = select.poll()
    poll.register(process.fileno(), select.POLLIN)
    poll.poll(10_000)
    return process.poll()
