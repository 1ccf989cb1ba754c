"""Find the reports that a pull request adds to the shelf, and refuse any other change.

The workflow `submission` runs `submission.py BASE HEAD` in a checkout of the base commit. The script copies the added
folders from commit HEAD. They contain only data. For each folder, it prints the commit of the release that made the
report, a tab, and the folder. For any other change it prints a message and exits with 1. It needs only git, because it
runs before anything is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SHELF = re.compile(r"reports/\d+\.\d+/[a-z0-9.-]+/[a-z0-9.-]+(?=/)")
_SUITE = re.compile(r"^suite:\n((?:  .*\n)+)", re.MULTILINE)
_VERSION = re.compile(r"^  version: '?(\d+(?:\.\w+)+)'?$", re.MULTILINE)
_REVISION = re.compile(r"^  revision: '?([0-9a-f]{40})(?:-dirty)?'?$", re.MULTILINE)


class RefusedError(Exception):
    """The pull request is not a submission."""


def git(*arguments: str, check: bool = True) -> str:
    """Return the output of git. Raises `CalledProcessError`, after git has printed its message."""
    command = ["git", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check).stdout  # noqa: S603


def added(base: str, head: str) -> list[str]:
    """Return the folders with added or changed files. Raises `RefusedError` for changes elsewhere."""
    changed = git("diff", "--name-only", "--no-renames", "-z", f"{base}...{head}").split("\0")[:-1]
    outside = [path for path in changed if not SHELF.match(path)]
    if outside:
        raise RefusedError(f"a submission adds reports and nothing else, and this one changes {outside[0]!r}")
    return sorted({match[0] for path in changed if (match := SHELF.match(path))})


def take(folder: str, head: str) -> None:
    """Copy a folder of a commit into the work tree. Raises `RefusedError` if it has no report."""
    if not git("ls-tree", "--name-only", head, f"{folder}/report.yaml"):
        raise RefusedError(f"{folder} has no report.yaml; a published report is not removed")
    shutil.rmtree(folder, ignore_errors=True)
    git("checkout", "--quiet", head, "--", folder)


def release_of(folder: str) -> str:
    """Return the commit of the release that made a report. Raises `RefusedError` if there is none."""
    path = Path(folder, "report.yaml")
    if path.is_symlink() or not path.is_file():
        raise RefusedError(f"{path} is no ordinary file")
    suite = _SUITE.search(path.read_text(encoding="utf-8", errors="replace"))
    version, revision = (each.search(suite[1] if suite else "") for each in (_VERSION, _REVISION))
    if version is None:
        raise RefusedError(f"{folder}: report.yaml does not say which version of the suite made it")
    commit = git("rev-parse", "--quiet", "--verify", f"refs/tags/v{version[1]}^{{commit}}", check=False).strip()
    if not commit:
        known = ", ".join(git("tag", "--list", "v*").split()) or "none"
        raise RefusedError(f"{folder}: trafficdist {version[1]} is no release; releases are: {known}")
    if revision and revision[1] != commit:
        raise RefusedError(f"{folder}: revision {revision[1]} made it, and v{version[1]} is {commit}")
    return commit


def main(base: str, head: str) -> Iterator[str]:
    """Yield a line for each added report."""
    for folder in added(base, head):
        take(folder, head)
        yield f"{release_of(folder)}\t{folder}\n"


if __name__ == "__main__":
    try:
        sys.stdout.writelines(main(sys.argv[1], sys.argv[2]))
    except RefusedError as error:
        sys.exit(f"::error::{error}")
