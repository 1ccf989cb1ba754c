"""Open an issue for each file in a folder. If an issue with the same title is open, comment on it instead.

The first line of a file is the title. The nightly workflows run this script after `trafficdist compare --issues
FOLDER`. It needs `gh` and a token for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path


def gh(*arguments: str, text: str = "") -> str:
    """Return the output of gh. Raises `CalledProcessError`, after gh has printed its message."""
    command = ["gh", *arguments]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603


def main(folder: Path, label: str, about: str, reported: Path | None, run_url: str) -> None:
    """Open or update the issues. `about` is a line above each text."""
    done = set(reported.read_text(encoding="utf-8").splitlines()) if reported and reported.exists() else set()
    gh("label", "create", label, "--force", "--description", "A verdict changed in a nightly run")
    found = json.loads(gh("issue", "list", "--state=open", f"--label={label}", "--limit=1000", "--json=number,title"))
    numbers = {issue["title"]: str(issue["number"]) for issue in found}
    for path in sorted(folder.glob("*.md")):
        title, _, body = path.read_text(encoding="utf-8").partition("\n\n")
        if title in done:
            continue
        text = "\n\n".join(filter(None, [about, f"{body}\n{run_url}\n"]))
        if title in numbers:
            gh("issue", "comment", numbers[title], "--body-file=-", text=text)
        else:
            gh("issue", "create", f"--title={title}", f"--label={label}", "--body-file=-", text=text)
        if reported:
            with reported.open("a", encoding="utf-8") as file:
                file.write(f"{title}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--label", default="nightly")
    parser.add_argument("--about", default="", help="a line to put above each text")
    parser.add_argument("--reported", type=Path, help="skip the titles in this file, and add those of new issues")
    given = parser.parse_args()
    main(given.folder, given.label, given.about, given.reported, os.environ.get("RUN_URL", ""))
