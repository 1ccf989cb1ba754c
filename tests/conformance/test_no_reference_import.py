"""The suite can be listed without the reference implementation."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_REFERENCE = """
import sys
sys.modules["reference"] = None  # an import of it, or of anything inside it, raises ImportError from here on
from harness.commands.main import main
main(["list", "--format", "json"])
"""


def test_catalogue_does_not_import_the_reference() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", WITHOUT_REFERENCE], capture_output=True, text=True, check=False, timeout=60
    )
    assert listed.returncode == 0, listed.stderr
    assert "KEP-3015/node-then-zone-then-anywhere" in listed.stdout
