"""Tests that the temporary folder of a process is removed in whatever way the process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.model.private_folder import PrivateFolder, in_use

MAKES_ONE_AND_WAITS = """
import sys
from pathlib import Path
from harness.model.private_folder import PrivateFolder
own = PrivateFolder("own-", Path(sys.argv[1]))
print(own.path, flush=True)
sys.stdin.read()
"""


def test_folder_is_removed_when_its_block_ends(tmp_path: Path) -> None:
    with PrivateFolder("own-", tmp_path) as own:
        (own.path / "secret").write_text("s")
        assert own.path.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKES_ONE_AND_WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        with PrivateFolder("own-", tmp_path), PrivateFolder("another-", tmp_path):
            assert in_use(left)
        other.kill()
        other.wait()
        PrivateFolder("another-", tmp_path).close()
        assert left.is_dir()
        with PrivateFolder("own-", tmp_path) as own:
            assert list(tmp_path.iterdir()) == [own.path]
