"""Tests that the controller process of workers imports neither the reference nor the official client."""

from __future__ import annotations

import subprocess
import sys

CONTROLLER = """
import sys
from harness.backends.implementation import reference
from harness.plugin import fixtures, progress, recorder
reference()
print(*sorted({"kubernetes", "aiohttp", "reference.apiserver", "reference.proxy"} & sys.modules.keys()))
"""


def test_a_controller_imports_no_part_of_a_cluster() -> None:
    done = subprocess.run([sys.executable, "-c", CONTROLLER], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
