"""The commands of docs/explain.md run as printed, and its first sample is what the command prints."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from explain import objects as files
from harness.commands.main import main
from tests.explain.causes_page import PAGE
from tests.explain.cluster_builders import ZONES, deployment, endpoint, nodes, objects, of_slice, owned, proxy, service

TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    trafficdist explain (.*?)(?: {2,}#.*)?$", TEXT, re.MULTILINE)
OFFLINE = sorted({each for each in COMMANDS if "--record" not in each and "--probe" not in each})
"""The commands that can also be asked about a recording. Those with --record and --probe need a cluster."""

SEEN = objects(
    service(),
    of_slice(endpoint("a1"), endpoint("a2"), endpoint("b1")),
    pods=[owned(f"web-{each}", each) for each in ("a1", "a2", "b1")],
    proxies=[proxy(each) for each in ZONES],
    further={"deployments": [deployment(3, 3)]},
)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["explain", *arguments], env={"COLUMNS": "160"})
    return result.exit_code, result.output


@pytest.mark.parametrize("command", OFFLINE)
def test_command_of_the_page_answers(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("here", "before", "all.yaml"):
        files.write(SEEN, tmp_path / name)
    files.write(replace(SEEN, nodes=nodes()[:4]), tmp_path / "after")
    words = shlex.split(command)
    code, said = run(*words, *([] if "--from" in words else ["--from", "here"]))
    assert (code in {0, 1}, "rror" in said, bool(said.strip())) == (True, False, True), said


def test_the_page_begins_with_three_commands() -> None:
    assert re.findall(r"^    (\S+ \S+ \S+)", TEXT.partition("\n\n")[2].partition("\n\n")[0], re.MULTILINE) == [
        "trafficdist explain shop/web", "trafficdist explain --all", "trafficdist explain shop/web"
    ]  # fmt: skip


def test_the_first_sample_of_the_page_is_what_the_command_prints(tmp_path: Path) -> None:
    files.write(SEEN, tmp_path)
    _, said = run("shop/web", "--from", str(tmp_path))
    sample = TEXT.split("```")[1].strip().splitlines()
    printed = [line.rstrip() for line in said.splitlines()]
    assert len(sample) == len(printed), said
    for shown, line in zip(sample, printed, strict=True):
        assert line.startswith(shown.partition("…")[0].rstrip()), said
