"""Open an issue for each file in a folder. If an issue with the same title is open, comment on it instead.

The first line of a file is the title. The nightly workflow runs this script after `trafficdist compare --issues
FOLDER`. It needs `gh` and a token for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

LABEL = "nightly"


def gh(*arguments: str, text: str = "") -> str:
    """Return the output of gh. Raises `CalledProcessError`, after gh has printed its message."""
    command = ["gh", *arguments]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603


def main(folder: str, run_url: str) -> None:
    """Open or update the issues."""
    gh("label", "create", LABEL, "--force", "--description", "A verdict changed in a nightly run")
    found = json.loads(gh("issue", "list", "--state=open", f"--label={LABEL}", "--limit=1000", "--json=number,title"))
    numbers = {issue["title"]: str(issue["number"]) for issue in found}
    for path in sorted(Path(folder).glob("*.md")):
        title, _, body = path.read_text(encoding="utf-8").partition("\n\n")
        text = f"{body}\n{run_url}\n"
        if title in numbers:
            gh("issue", "comment", numbers[title], "--body-file=-", text=text)
        else:
            gh("issue", "create", f"--title={title}", f"--label={LABEL}", "--body-file=-", text=text)


if __name__ == "__main__":
    main(sys.argv[1], os.environ.get("RUN_URL", ""))
