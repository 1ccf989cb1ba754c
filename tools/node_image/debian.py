"""Build the file system of a node from Debian packages with mmdebstrap, and cache it."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from harness.binaries.cache import Cache, said_plainly
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError

_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_TAIL = 600


def packages(files: Path) -> list[str]:
    """Return the names of the packages in packages.txt."""
    lines = (files / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def file_system(names: list[str], *, suite: str, mirror: str, cache: Cache, watcher: Watcher, again: bool) -> Path:
    """Return an archive of Debian with these packages; `again` ignores the cache. Raises `UnavailableError`."""
    key = hashlib.sha256(" ".join((suite, mirror, *names, *_LEFT_OUT)).encode()).hexdigest()[:12]
    folder = cache.folder / "node-image"
    archive = folder / f"debian-{suite}-{key}.tar"
    if archive.exists() and not again:
        return archive
    mmdebstrap = shutil.which("mmdebstrap")
    if mmdebstrap is None:
        raise UnavailableError(
            "node images need mmdebstrap on the PATH; install it (on Debian and Ubuntu: apt-get install mmdebstrap)"
        )
    watcher.say(f"Debian {suite}: downloading and unpacking {len(names)} packages and their dependencies")
    partial = folder / "partial.tar"
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
    done = subprocess.run(  # noqa: S603  with arguments that we made
        [
            mmdebstrap, "--variant=minbase", f"--include={','.join(names)}",
            *(f"--dpkgopt=path-exclude={each}" for each in _LEFT_OUT),
            suite, str(partial), *([mirror] if mirror else []),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise UnavailableError(f"mmdebstrap could not make a Debian {suite}:\n{done.stderr.strip()[-_TAIL:]}")
    partial.rename(archive)
    return archive
