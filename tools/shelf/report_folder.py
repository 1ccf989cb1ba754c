"""Derive the folder of a report on the shelf. A newer report in the same folder replaces an older one."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from harness.errors import UsageError
from harness.model.verdict_basis import DECISIONS
from harness.report.comparison import judged_by, mode_of

REPORT, README, HISTORY = "report.yaml", "README.md", "run.jsonl.xz"

_AUTHORS = re.compile(r"^the (.+) authors$")
_MINOR = re.compile(r"v(\d+\.\d+)")


def folder_of(report: Mapping[str, Any]) -> PurePosixPath:
    """Return the folder of a report: `<kubernetes minor>/<organization>-<project>/<version>-<mode>`.

    There is no mode if no proxy was judged. A name ends with `-decisions` if only a proxy's decisions were judged.
    Names are in lower case, and each sequence of characters other than letters and digits becomes a hyphen. "The X
    authors" becomes `x`, and a version has no leading `v`. Raises `UsageError` if a name is missing.
    """
    implementation, mode = report["implementation"], mode_of(report)
    names = {name: str(implementation[name]) for name in ("organization", "project", "version")}
    names |= {"mode": mode} if mode else {}
    parts = {name: _slug(text) for name, text in names.items()}
    missing = [name for name, part in parts.items() if not part]
    if missing:
        raise UsageError(f"the report has no {' and no '.join(missing)} to name a folder after")
    minor = _MINOR.match(report["kubernetesVersion"])
    if minor is None:
        raise UsageError(f"the report has no Kubernetes version: {report['kubernetesVersion']}")
    last = [parts["version"], parts.get("mode"), DECISIONS if judged_by(report) == DECISIONS else ""]
    return PurePosixPath(minor[1], f"{parts['organization']}-{parts['project']}", "-".join(filter(None, last)))


def _slug(text: str) -> str:
    text = re.sub(r"^v(?=\d)", "", _AUTHORS.sub(r"\1", text.strip().lower()))
    return re.sub(r"[^a-z0-9.]+", "-", text).strip(".-")
