"""Where a report stands on the shelf: its folder follows from what the report says of itself.

Two people who judge the same thing get the same folder, so a newer report takes the place of an older one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from harness.errors import UsageError
from harness.model.judged import DECISIONS
from harness.report.comparison import judged_by, mode_of

REPORT, README, HISTORY = "report.yaml", "README.md", "run.jsonl.gz"

SHELVED = re.compile(r"\d+\.\d+/[a-z0-9.-]+/[a-z0-9.-]+")
"""What the path of a folder looks like, from the shelf on."""

_AUTHORS = re.compile(r"^the (.+) authors$")
_MINOR = re.compile(r"v(\d+\.\d+)")


def place_of(report: Mapping[str, Any]) -> PurePosixPath:
    """Return the folder of a report: `<kubernetes minor>/<organization>-<project>/<version>-<mode>`.

    Where no proxy was judged there is no mode. One that is judged by its decisions alone has `-decisions` behind it.
    Names are in small letters, and what is neither letter nor digit becomes a hyphen. "The X authors" are `x`, and a
    version has no `v` before it. Raises `UsageError` if a name is missing.
    """
    implementation, mode = report["implementation"], mode_of(report)
    names = {name: str(implementation[name]) for name in ("organization", "project", "version")}
    names |= {"mode": mode} if mode else {}
    parts = {name: _slug(text) for name, text in names.items()}
    missing = [name for name, part in parts.items() if not part]
    if missing:
        raise UsageError(f"the report has no {' and no '.join(missing)} that a folder could be named for")
    minor = _MINOR.match(report["kubernetesVersion"])
    if minor is None:
        raise UsageError(f"the report does not say which Kubernetes it was: {report['kubernetesVersion']}")
    last = [parts["version"], parts.get("mode"), DECISIONS if judged_by(report) == DECISIONS else ""]
    return PurePosixPath(minor[1], f"{parts['organization']}-{parts['project']}", "-".join(filter(None, last)))


def _slug(text: str) -> str:
    text = re.sub(r"^v(?=\d)", "", _AUTHORS.sub(r"\1", text.strip().lower()))
    return re.sub(r"[^a-z0-9.]+", "-", text).strip(".-")
