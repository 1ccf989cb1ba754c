"""The output folder of a run, which is created and checked before the tests. Files are written atomically.

    report.yaml  report.html  junit.xml  allure-results/  allurerc.json  run.jsonl  evidence/<document>/<slug>/…

During a run, workers write their parts (plan, environment, history) to `.parts/`, which is removed at the end.
"""

import contextlib
import datetime
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import DistrustError, UsageError
from harness.model.files import files_in, sha256_of, sha256_of_folder
from harness.model.privacy import private

DEFAULT_PARENT = "trafficdist-results"
PAGE = "report.html"
MARK = ".trafficdist"  # marks a folder that a run created, and whose content a new run may replace

ALLURE = "allure-results"
_SEALED = (PAGE, "junit.xml", "run.jsonl", "needs.yaml", "allurerc.json")
_OURS = ("report.yaml", *_SEALED, ALLURE, "evidence", ".parts")


def default_path() -> Path:
    return Path.cwd() / DEFAULT_PARENT / name_for_now()


def name_for_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M%S.%fZ")


class OutputFolder:
    """The output folder of a run. All methods raise `DistrustError` if they cannot write to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = path / ".parts"
        self.evidence = path / "evidence"
        self._made: list[Path] = []  # this folder and its parents, unless they existed
        self._lock = -1  # the descriptor of the mark file, locked while this run uses the folder
        self._before = ""  # the former target of `latest`

    def prepare(self) -> None:
        """Create or clear the folder, and check that it is writable. Raises `UsageError` if another run is using it."""
        with _writing(self.path):
            self._made = [each for each in (self.path, *self.path.parents) if not each.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            if (present := self._present()) and not (self.path / MARK).exists():
                raise DistrustError(
                    f"{self.path} has {present[0].name}, which is not from an earlier run and would be overwritten. "
                    "Choose another folder with --output-dir."
                )
            self._take()
            self._clear()
            self.parts.mkdir()
            os.pwrite(self._lock, b"trafficdist created this folder; a new run in it replaces the files here.\n", 0)
        latest = self.path.parent / "latest"
        self._before = latest.readlink().name if latest.is_symlink() and latest.exists() else ""
        self._link_latest(self.path.name)

    def _take(self) -> None:
        """Lock the mark file. The kernel releases the lock when this process ends."""
        mark = os.open(self.path / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(mark)
            raise UsageError(
                f"another run is writing to {self.path}; wait until it ends, or choose another folder with --output-dir"
            ) from None
        self._lock = mark

    def let_go(self) -> None:
        """Unlock the folder. The workers' parts remain for `trafficdist judge`."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _present(self) -> list[Path]:
        return [self.path / name for name in _OURS if (self.path / name).exists()]

    def _clear(self) -> None:
        for each in self._present():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()

    def abandon(self) -> None:
        """Remove everything that `prepare` created, and unlock the folder. Does nothing after `finish` or `let_go`."""
        if self._lock < 0:  # this run does not hold the lock
            return
        shutil.rmtree(self.parts, ignore_errors=True)
        if self._made:
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                latest = self.path.parent / "latest"
                if latest.is_symlink() and not latest.exists():
                    latest.unlink()
                    self._link_latest(self._before)
                for each in self._made[1:]:
                    each.rmdir()  # fails unless it is empty
        self.let_go()

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file atomically, by renaming a temporary file. `***` replaces secrets in the content."""
        target = self.path / name
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, _private(content))
        return target

    def copy(self, source: str, name: str) -> None:
        with _writing(self.path / source):
            content = (self.path / source).read_bytes()
        self.write(name, content)

    def leave_part(self, name: str, value: Any) -> None:
        """Store a value for xdist's main process. Fails if the folder was removed because that process has ended."""
        target = self.parts / f"{name}.json"
        with _writing(target):
            write_whole(target, json.dumps(value))

    def parts_named(self, prefix: str) -> list[Any]:
        found = sorted(self.parts.glob(f"{prefix}*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in found]

    def histories(self) -> list[Path]:
        return sorted(self.parts.glob("history-*.jsonl"))

    def finish(self) -> None:
        shutil.rmtree(self.parts, ignore_errors=True)
        self.let_go()

    def artifacts(self) -> list[dict[str, str]]:
        """Return the digest of each file except the report, by path. All files of Allure share one digest."""
        found = {name: sha256_of(self.path / name) for name in _SEALED if (self.path / name).exists()}
        found |= {f"{path.relative_to(self.path)}": sha256_of(path) for path in files_in(self.evidence)}
        if (allure := self.path / ALLURE).exists():
            found[f"{ALLURE}/"] = sha256_of_folder(allure)
        return [{"path": path, "sha256": found[path]} for path in sorted(found)]

    def _link_latest(self, name: str) -> None:
        if self.path.parent.name != DEFAULT_PARENT or not name:
            return
        with _writing(self.path.parent / "latest"):
            temporary = self.path.parent / f".latest-{os.getpid()}"
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(name)
            temporary.replace(self.path.parent / "latest")


def _private(content: str | bytes) -> str | bytes:
    try:
        return private(content) if isinstance(content, str) else private(content.decode()).encode()
    except UnicodeDecodeError:
        return content  # a binary file


def write_whole(target: Path, content: str | bytes) -> None:
    """Write a file atomically, so that readers never see partial content. Raises `OSError`."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DistrustError(
            f"cannot write {path}: {error.strerror or error}. Choose another folder with --output-dir."
        ) from error
