"""The build script compiles each third-party program once per version. Its errors say how to fix the problem."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GO = """#!/bin/sh
case $1 in
  env) echo go1.99 linux amd64 ;;
  list)
    test -e "$0.fails" && { echo "main.go:1: it is wrong" >&2; exit 1; }
    case $* in
      *" tool") printf 'example.org/theirs/%s\n' agent cmd/mine-show ;;
      *) echo "$0.modules/theirs" ;;
    esac ;;
  build)
    echo compiled >> "$0.log"
    test -e "$0.fails" && { echo "main.go:1: it is wrong" >&2; exit 1; }
    while [ "$1" != -o ]; do shift; done
    if [ "$3" = . ]; then cp main.go "$2"; else echo "$3" > "$2"; fi
    chmod 755 "$2" ;;
esac
"""


class BuildFolder:
    """A copy of the script with one program, an empty cache, and a fake compiler that only copies files."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.tools, self.cache = folder / "implementations", folder / "tools", folder / "cache"
        self.source = self.programs / "mine" / "main.go"
        self.source.parent.mkdir(parents=True)
        shutil.copy(ROOT / "implementations/build", self.programs / "build")
        for name in ("main.go", "go.mod", "go.sum"):
            (self.source.parent / name).write_text(f"of {name}\n", encoding="utf-8")
        self.tools.mkdir()
        self.go = self.tools / "go"
        self.go.write_text(GO, encoding="utf-8")
        self.go.chmod(0o755)

    def build(self, *names: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.tools}:{os.defpath}", "TRAFFICDIST_CACHE": str(self.cache)}
        return subprocess.run(
            [self.programs / "build", *names], env=environment, capture_output=True, text=True, check=False
        )

    def compiled(self) -> int:
        """Return the number of compilations."""
        log = self.go.with_name("go.log")
        return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0


@pytest.fixture
def place(tmp_path: Path) -> BuildFolder:
    return BuildFolder(tmp_path)


def test_program_is_compiled_again_only_when_a_source_changes(place: BuildFolder) -> None:
    first, again = place.build("mine"), place.build("mine")
    assert (first.returncode, again.stdout, place.compiled()) == (0, first.stdout, 1)
    assert (Path(first.stdout.strip()) / "mine").read_text(encoding="utf-8") == "of main.go\n"

    place.source.write_text("changed\n", encoding="utf-8")
    changed = place.build("mine")
    assert (Path(changed.stdout.strip()) / "mine").read_text(encoding="utf-8") == "changed\n"
    assert (changed.stdout != first.stdout, place.compiled()) == (True, 2)


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_program_is_compiled_again_for_other_modules(place: BuildFolder, name: str) -> None:
    first = place.build("mine")
    place.source.with_name(name).write_text("other modules\n", encoding="utf-8")
    assert (place.build("mine").stdout != first.stdout, place.compiled()) == (True, 2)


def test_cached_program_is_found_and_no_other_is_compiled(place: BuildFolder) -> None:
    missing = place.build("--cached", "mine")
    assert (missing.returncode, missing.stdout, place.compiled()) == (12, "", 0)
    assert "error: mine is not compiled; run implementations/build mine" in missing.stderr
    built = place.build("mine")
    assert (place.build("--cached", "mine").stdout, place.compiled()) == (built.stdout, 1)


def test_tools_of_the_module_are_compiled_too(place: BuildFolder) -> None:
    place.source.with_name("go.mod").write_text("tool (\n\texample.org/theirs/agent\n)\n", encoding="utf-8")
    built = place.build("mine")
    folder = Path(built.stdout.strip())
    assert built.returncode == 0, built.stderr
    assert sorted(each.name for each in folder.iterdir()) == ["mine", "mine-agent", "mine-show", "source"]
    assert (folder / "mine-show").read_text(encoding="utf-8") == "example.org/theirs/cmd/mine-show\n"
    assert (folder / "source").readlink() == Path(f"{place.go}.modules/theirs")
    assert (place.build("--cached", "mine").stdout, place.compiled()) == (built.stdout, 3)


@pytest.mark.parametrize("tools", ["", "tool example.org/theirs/agent\n"])
def test_program_that_does_not_compile_leaves_nothing(place: BuildFolder, tools: str) -> None:
    place.source.with_name("go.mod").write_text(tools, encoding="utf-8")
    place.go.with_name("go.fails").touch()
    failed = place.build("mine")
    assert (failed.returncode, failed.stdout, list((place.cache / "implementations/mine").iterdir())) == (12, "", [])
    assert "main.go:1: it is wrong" in failed.stderr
    assert "error: mine does not compile: see what Go says above, and implementations/mine/README.md" in failed.stderr


@pytest.mark.parametrize("names", [[], [""], ["other"], ["mine", "mine"], ["--cached"]])
def test_unknown_name_lists_the_existing_ones(place: BuildFolder, names: list[str]) -> None:
    refused = place.build(*names)
    assert (refused.returncode, place.compiled()) == (4, 0)
    assert "want the name of one implementation that is compiled here: mine" in refused.stderr


@pytest.mark.skipif(shutil.which("go", path=os.defpath) is not None, reason="unavailable: Go is not installed")
def test_missing_go_is_reported_with_a_solution(place: BuildFolder) -> None:
    place.go.unlink()
    failed = place.build("mine")
    assert failed.returncode == 12
    assert "there is no `go` on the PATH, which compiling needs; install Go from https://go.dev/dl/" in failed.stderr


def test_every_implementation_is_in_the_table() -> None:
    folder = ROOT / "implementations"
    table = (folder / "README.md").read_text(encoding="utf-8")
    assert [each.name for each in folder.iterdir() if each.is_dir() and f"]({each.name}/" not in table] == []
