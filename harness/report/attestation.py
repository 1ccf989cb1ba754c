"""The attestation of a report by GitHub: proof that a workflow of a repository made `report.yaml`."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = "attestation.jsonl"
"""The attestation's file name. The report does not list this file, because the attestation signs the report."""

_SECONDS = 60.0
_LOGIN = 4  # the exit code of gh for a user who must log in
_NO_NETWORK = re.compile("dial tcp|no such host|connection refused|timeout", re.IGNORECASE)


def repository_of(report: Mapping[str, Any]) -> str:
    """Return the repository (owner/name) in the URL of the implementation, or "" if it is not on GitHub."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", report["implementation"]["url"])
    return found[1] if found else ""


def check(folder: Path, repository: str) -> tuple[bool | None, str]:
    """Return whether a workflow of the repository attested the report (None if unknown), and an explanation or ""."""
    if not (folder / FILE).is_file():
        return None, ""
    if not repository:
        return None, f"{FILE} is not checked: name the repository whose workflow made it with --repo OWNER/NAME"
    command = ["gh", "attestation", "verify", "report.yaml", "--bundle", FILE, "--repo", repository]
    try:
        ended = subprocess.run(  # noqa: S603  OWNER/NAME cannot be an option
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "gh is not installed (https://cli.github.com)" if missing else f"gh: {error}"
        return None, f"{FILE} is not checked: {why}"
    return _judged(ended, repository)


def _judged(ended: subprocess.CompletedProcess[str], repository: str) -> tuple[bool | None, str]:
    if ended.returncode == 0:
        return True, f"a workflow of {repository} attested this report"
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    said = lines[-1] if lines else f"exit code {ended.returncode}"
    if ended.returncode == _LOGIN or _NO_NETWORK.search(ended.stderr):
        return None, f"{FILE} is not checked: gh: {said}"
    return False, f"no workflow of {repository} attested this report: gh: {said}"
