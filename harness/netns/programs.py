"""Runs programs inside a netns, with their own files in /etc.

A pod's resolver is the C library of its processes, which reads only /etc/resolv.conf. So the program runs in a mount
namespace with a different file at that path. The machine's own file does not change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace
from harness.netns.process import search_path

_NO_MOUNT = 125
# Its arguments are pairs of a source file and a mount point, then "--", then the program to execute.
_LAUNCHER = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def insist(name, result):
    if result:
        print(f"{{name}}: {{os.strerror(ctypes.get_errno())}}", file=sys.stderr)
        os._exit({_NO_MOUNT})
end = sys.argv.index("--")
insist("unshare", libc.unshare(0x20000))  # CLONE_NEWNS
insist("mount /", libc.mount(None, b"/", None, 0x4000 | 0x40000, None))  # MS_REC | MS_PRIVATE
for own, real in zip(sys.argv[1:end:2], sys.argv[2:end:2]):
    insist(f"mount {{real}}", libc.mount(os.fsencode(own), os.fsencode(real), None, 0x1000, None))  # MS_BIND
os.execvp(sys.argv[end + 1], sys.argv[end + 1:])
"""


def run(
    namespace: Namespace,
    command: Sequence[str],
    *,
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end inside a netns, with `files` (texts by path) in place of the machine's.

    `environment` adds variables to those of this process. Raises `UnavailableError` if the program is not installed, or
    if files cannot be replaced.
    """
    program = shutil.which(command[0], path=search_path())
    if program is None:
        raise UnavailableError(f"{command[0]} is not installed")
    with tempfile.TemporaryDirectory(prefix="trafficdist-") as folder:
        pairs: list[str] = []
        for number, (path, text) in enumerate((files or {}).items()):
            own, real = Path(folder) / str(number), Path(path).resolve()
            own.write_text(text, encoding="utf-8")
            if not real.exists():
                raise UnavailableError(f"{path} cannot be replaced for a program: this machine has none")
            pairs += [str(own), str(real)]
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *pairs, "--"] if pairs else []
        whole = [*launcher, program, *command[1:]]
        with namespace.entered():  # a child starts in the netns of the thread that creates it
            ended = subprocess.run(  # noqa: S603  a program from a recipe or scenario
                whole,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                env={**os.environ, **(environment or {})},
            )
    if pairs and ended.returncode == _NO_MOUNT:
        raise UnavailableError(f"files cannot be replaced for a program here: {ended.stderr.strip()}")
    return ended
