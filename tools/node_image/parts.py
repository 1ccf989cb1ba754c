"""The programs of a node image that are not components. They are compiled and stored in the component cache.

Each program comes from its own published module, or is a substitute in this project with the same name. Substitutes are
necessary because kind publishes no module of kindnetd, and because Kubernetes implements `pause` in C.
"""

import hashlib
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.binaries.cache import Cache, Origin
from harness.binaries.component import KUBERNETES_MODULE, Binary
from harness.binaries.versions import Version, Wanted
from harness.binaries.watching import Watcher
from harness.model.files import sha256_of
from tools.compiling import source
from tools.compiling.go import Go

_CRI_VERSION = Version(1, 34, 0)  # works with containerd 1.6 and newer, and any Kubernetes
_UNASKED = re.compile("")  # none of these programs prints the version of its module


@dataclass(frozen=True, slots=True)
class Part:
    """A program, and the version of its module. None means the version of Kubernetes."""

    binary: Binary
    version: Version | None = None

    @property
    def key(self) -> str:
        """The cache key for the program's sources, in addition to the version."""
        text = "\n".join((self.binary.module, self.binary.package, self.binary.program))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def parts(files: Path) -> tuple[Part, ...]:
    """Return all parts. `files` is the folder with this project's substitute programs."""
    agnhost = Binary("agnhost", KUBERNETES_MODULE, f"{KUBERNETES_MODULE}/test/images/agnhost", _UNASKED)
    crictl = Binary("crictl", "sigs.k8s.io/cri-tools", "sigs.k8s.io/cri-tools/cmd/crictl", _UNASKED)
    return (
        Part(agnhost),
        Part(crictl, _CRI_VERSION),
        Part(_own("podroutes", files)),
        Part(_own("pause", files)),
    )


def _own(name: str, files: Path) -> Binary:
    program = (files / f"{name}.go").read_text(encoding="utf-8")
    return Binary(name, KUBERNETES_MODULE, ".", _UNASKED, program=program)


def get(part: Part, kubernetes: Version, go: Go, cache: Cache, watcher: Watcher) -> Path:
    """Return the path of a part. Compile it unless it is cached. Raises `UnavailableError`, `UsageError`."""
    name, version = part.binary.name, part.version or kubernetes
    kept = Cache(cache.folder / "node-image" / part.key)
    with kept.locked(
        f"{name}-{version.tag}", waiting=lambda: watcher.say(f"{name}: waiting for another process that compiles it")
    ):
        there = kept.get(name, version)
        if there is not None:
            return there.path
        release = source.resolve(part.binary, Wanted(str(version), exact=version), go, watcher)
        folder = kept.workspace(name, version, "source")
        made, beside = source.compile_binary(part.binary, release, go, folder, watcher)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        origin = Origin("source", f"{part.binary.module}@{version.tag}", sha256_of(made), when, go.version)
        entry = kept.put(part.binary, version, made, origin, beside)
        shutil.rmtree(folder, ignore_errors=True)
    return entry.path
