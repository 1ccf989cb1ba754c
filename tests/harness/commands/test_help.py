"""Tests the help texts: options are under headings, every command has examples, and the help appears quickly."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.settings.options import OPTIONS


def commands(group: click.Group = main, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize("path", [(), *commands()], ids=" ".join)
def test_each_command_has_examples_that_exist(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, [*path, "--help"]).output
    examples = re.findall(r"^ +trafficdist (\S+(?: \S+)*)", shown.partition("Examples:")[2], re.MULTILINE)
    assert examples
    for example in examples:
        assert main.get_command(click.Context(main), example.split()[0]) is not None, example


def test_each_option_of_run_is_listed_under_its_heading() -> None:
    shown = CliRunner().invoke(main, ["run", "--help"]).output
    found = re.finditer(r"^(\S[^\n]*):\n((?:  [^\n]*\n|\n(?=  ))+)", shown, re.MULTILINE)
    sections = {match[1]: match[2] for match in found}
    for option in OPTIONS:
        if option.on_command_line:
            assert f"--{option.name}" in sections[option.group], option.name
    assert "--options-file" in sections["Other"]


def test_run_has_few_options() -> None:
    assert len(main.commands["run"].params) <= 33


def test_option_of_the_options_file_is_documented_and_refused_on_the_command_line() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/command.md").read_text(encoding="utf-8")
    for option in OPTIONS:
        if not option.on_command_line:
            assert f"| `{option.name}` |" in page, option.name
            ended = CliRunner().invoke(main, ["run", f"--{option.name}", "x"])
            assert ended.exit_code == 4
            assert f"set key {option.name} in an options file (--options-file), or {option.environment}" in ended.output


def test_version_that_may_be_of_kubernetes_is_refused_with_the_option_for_it() -> None:
    said = CliRunner().invoke(main, ["run", "--version", "1.31"]).output
    assert "TRAFFICDIST_VERSION in the environment; or did you mean --kubernetes-version?" in said
    assert "did you mean" not in CliRunner().invoke(main, ["run", "--project", "x"]).output


@pytest.mark.parametrize("path", [(), *commands()], ids=" ".join)
def test_headings_metavars_and_defaults_of_help_are_plain(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(main, [*path, "--help"]).output
    headings = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert len(headings) == len(set(headings)), headings
    metavars = set(re.findall(r"^  (?:-\w, )?--[a-z-]+ ([A-Z][A-Z ]*[A-Z])\b", shown, re.MULTILINE))
    assert not metavars & {"WHICH", "WAY", "WHEN", "WHERE", "WHAT", "HOW", "AMOUNT", "TEXT", "INTEGER", "INTEGER RANGE"}
    assert not re.search(r"(\[[^\]]*\])\s+\1", " ".join(shown.partition("Examples:")[0].split()))


def test_help_imports_neither_pytest_nor_clients_nor_kernel_bindings() -> None:
    asked = "import sys, harness.commands.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {"pytest", "kubernetes", "pyroute2", "rich", "yaml", "reference"}.isdisjoint(done.stdout.split())
