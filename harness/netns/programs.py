"""Runs programs inside a netns, with files of /etc of their own.

A pod's resolver is the C library of its processes, which reads /etc/resolv.conf and no other place. So a program gets a
mount namespace in which that file is another one; the machine's file stays as it is, for everybody else.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import UnavailableError
from harness.netns.namespace import Namespace

# Pairs of a file and where it is put, then "--", then the program.
_SCRIPT = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 125; shift 2; done; shift; exec "$@"'
_NO_MOUNT = 125


def run(
    namespace: Namespace, command: Sequence[str], *, files: Mapping[str, str] | None = None, timeout: float = 10.0
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end inside a netns; `files` are texts by path, which it sees in place of the machine's.

    Raises `UnavailableError` for a program that is not installed, and where no file can be put in another's place.
    """
    require(command[0], *(("unshare", "mount", "sh") if files else ()))
    with tempfile.TemporaryDirectory(prefix="trafficdist-") as folder:
        pairs: list[str] = []
        for number, (path, text) in enumerate((files or {}).items()):
            own, real = Path(folder) / str(number), Path(path).resolve()
            own.write_text(text, encoding="utf-8")
            if not real.exists():
                raise UnavailableError(f"{path} cannot be replaced for one program: this machine has none")
            pairs += [str(own), str(real)]
        whole = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", *pairs, "--", *command] if pairs else [*command]
        with namespace.entered():  # a child is born in the netns of the thread that makes it
            ended = subprocess.run(whole, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603
    if pairs and (ended.returncode == _NO_MOUNT or ended.stderr.startswith("unshare:")):
        raise UnavailableError(f"no file can be replaced for one program here: {ended.stderr.strip()}")
    return ended


def require(*programs: str) -> None:
    """Raises `UnavailableError` that names the first of these programs that is not installed."""
    for each in programs:
        if shutil.which(each) is None:
            raise UnavailableError(f"{each} is not installed")
