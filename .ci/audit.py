"""Look for known vulnerabilities in the packages of the constraints files with pip-audit.

    python .ci/audit.py [PIP-AUDIT COMMAND...]

Prints each vulnerability, and exits with 1 if there is one. Without pip-audit or its database, the script prints that
the audit is unavailable, and exits with 0: no run depends on a network.
"""
# ruff: noqa: T201  the purpose of this script is to print

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 300


def main(command: list[str]) -> int:
    """Audit all constraints files. Returns the exit code."""
    code = 0
    for path in sorted(ROOT.glob("constraints*.txt")):
        found = packages(command, path)
        audited = [each for each in found if "vulns" in each]
        if not audited:
            print(f"{path.name}: the audit is unavailable: no answer of pip-audit or of its database")
        for each in audited:
            for vulnerability in each["vulns"]:
                code, fixed = 1, ", ".join(vulnerability.get("fix_versions", ())) or "none"
                print(f"{path.name}: {each['name']} {each['version']}: {vulnerability['id']}, fixed in: {fixed}")
        if audited:
            print(f"{path.name}: {len(audited)} of {len(found)} packages audited")
    return code


def packages(command: list[str], path: Path) -> list[dict[str, list[dict[str, str]]]]:
    """Return what pip-audit knows about the packages of a file. The list is empty if it knows nothing."""
    options = ["--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json", f"--requirement={path}"]
    try:
        ended = subprocess.run(  # noqa: S603  the command of the workflow
            [*command, *options], capture_output=True, text=True, check=False, timeout=SECONDS
        )
        return list(json.loads(ended.stdout)["dependencies"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["pip-audit"]))
