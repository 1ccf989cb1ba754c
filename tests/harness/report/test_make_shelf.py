"""Tests the commands that `make shelf` and `make kind` run, and how they handle the exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.settings.options import resolve

ROOT = Path(__file__).resolve().parents[3]
OF_THE_MAKE_ABOVE = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS", "WORKERS"}

FAKE = r"""#!/bin/sh
echo "$@" >> said
case "$*" in
  "components path coredns") echo /cache/coredns ;;
  *kube-proxy:1.35*) exit 12 ;;
  *--output-dir\ *)
    case "$*" in *--dns*) echo "$PATH" >> paths ;; esac
    for folder; do :; done
    mkdir -p "$folder"
    cat > "$folder/input"
    case "$*" in *iptables*) exit 1 ;; esac ;;
  "shelf add "*) exit 13 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the Makefile and a script that replaces `trafficdist`."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "constraints-extras.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name, text in (("bin/python", ""), ("bin/trafficdist", FAKE), (".run", "")):
        (tmp_path / ".venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv" / name).write_text(text)
        (tmp_path / ".venv" / name).chmod(0o755)
    (tmp_path / "trafficdist-results/shelf/of-before").mkdir(parents=True)
    return tmp_path


def make(place: Path, target: str) -> subprocess.CompletedProcess[str]:
    mine = {name: value for name, value in os.environ.items() if name not in OF_THE_MAKE_ABOVE}
    command = ["make", target, "WORKERS=2"]
    return subprocess.run(command, cwd=place, timeout=60, capture_output=True, text=True, check=False, env=mine)


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="unavailable: make is not installed")


@needs_make
def test_make_shelf_runs_what_is_in_the_cache_and_then_adds_all(checkout: Path) -> None:
    done = make(checkout, "shelf")
    said = (checkout / "said").read_text().splitlines()
    runs = [line.partition(" -n 2 ")[0] for line in said if line.startswith("run")]
    assert runs[0] == "run --proxy reference"
    for each in ("kube-proxy:1.37 --mode iptables", "kube-controller-manager:1.37", "binaries:1.37", "coredns.yaml"):
        assert any(each in run for run in runs), each
    skipped = [number for number, run in enumerate(runs, 1) if "kube-proxy:1.35" in run]
    assert done.stdout.count("skipped: --proxy kube-proxy:1.35") == len(skipped) == 2
    folders = sorted(
        f"trafficdist-results/shelf/{number}/" for number, _ in enumerate(runs, 1) if number not in skipped
    )
    assert said[-2:] == ["shelf add " + " ".join(folders), "shelf index"]
    assert all(path.startswith("/cache:") for path in (checkout / "paths").read_text().splitlines())
    assert all((checkout / folder / "input").read_text() == "" for folder in folders)
    assert done.returncode != 0  # a report was rejected


@needs_make
@pytest.mark.skipif(shutil.which("git") is None, reason="unavailable: git is not installed")
def test_make_shelf_runs_nothing_in_a_checkout_with_changes(checkout: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for arguments in (("init", "--quiet"), ("add", "Makefile"), ("commit", "--quiet", "--message=x")):
        subprocess.run([*git, *arguments], cwd=checkout, check=True)
    (checkout / "Makefile").write_text((checkout / "Makefile").read_text() + "\n")
    done = make(checkout, "shelf")
    assert (done.returncode, "this checkout has changes" in done.stderr) == (2, True)
    assert not (checkout / "said").exists()


def test_each_run_of_make_shelf_names_what_it_judges_and_gets_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    runs = text.partition("define RUNS\n")[2].partition("\nendef")[0].splitlines()
    judged = []
    for run in runs:
        variables, dashes, options = run.partition("--")
        words = (dashes + options).split()
        given = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        environment = dict(each.split("=", 1) for each in variables.split())
        settings = resolve(given, environment=environment)
        assert settings.judges_reference or (settings.organization and settings.project), run
        programs = (settings.proxy, settings.controller, settings.control_plane)
        judged.append((settings.project, *map(str, programs), settings.mode))
    assert len(set(judged)) == len(judged) > 10


@needs_make
@pytest.mark.parametrize("target", ["kind", "kind-whole", "kind-skew"])
@pytest.mark.parametrize("code", [0, 11, 12])
def test_node_image_is_built_only_where_kind_can_run(checkout: Path, target: str, code: int) -> None:
    fake = checkout / ".venv/bin/trafficdist"
    fake.write_text(f'#!/bin/sh\necho "$@" >> said\ncase "$1" in doctor) exit {code} ;; kind-image) exit 1 ;; esac\n')
    make(checkout, target)
    first, *rest = (checkout / "said").read_text().splitlines()
    assert first == "doctor --backend kind"
    assert any(each.startswith("kind-image 1.3") for each in rest) is (code != 12)
