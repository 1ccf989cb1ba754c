"""Every `trafficdist` and `make` command in the documentation is valid.

The tests parse the commands and do not run them.
"""

from __future__ import annotations

import ast
import re
import shutil
import textwrap

import click
import pytest

from harness.commands.main import main
from tests.docs.commands_not_run import EXIT_CODES, NOT_RUN, RUNNABLE, SAYS
from tests.docs.documented_commands import (
    PAGES,
    PROGRAMS,
    ROOT,
    DocumentedCommand,
    blocks,
    commands,
    invocations,
    spans,
)

TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
SHOWN = [shown for page in PAGES for shown in commands(page)]


def read(words: list[str], *, whole: bool) -> None:
    """Parse a command line with click. With `whole`, required arguments must be present. Raises `click.UsageError`."""
    command: click.Command = main
    context = click.Context(main, info_name="trafficdist")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"there is no command {name!r}")
        command, context = found, click.Context(found, parent=context, info_name=name)
    try:
        if whole:
            command.make_context(context.info_name, list(words), parent=context.parent)
        else:
            command.make_parser(context).parse_args(list(words))
    except click.exceptions.Exit:  # --help and --version
        return
    except click.BadOptionUsage as error:
        if whole or isinstance(error, click.NoSuchOption):
            raise


@pytest.mark.parametrize("words", [["runs"], ["run", "--no-such"], ["cluster", "upp"], ["list", "--format", "xml"]])
def test_unknown_commands_are_detected(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        read(words, whole=True)


def test_text_may_name_an_option_without_its_value() -> None:
    read(["run", "--profile"], whole=False)
    with pytest.raises(click.UsageError):
        read(["run", "--no-such"], whole=False)


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_shown_command_is_valid(shown: DocumentedCommand) -> None:
    for words in invocations(shown.text):
        read(words, whole=True)


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page: str) -> None:
    for span in spans(page):
        for words in invocations(span):
            read([word for word in words if "…" not in word], whole=False)


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^    |`)make ([a-z0-9-]+)", text, flags=re.MULTILINE)) <= TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_shown_python_code_is_valid(page: str) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
        ast.parse(textwrap.dedent(block))


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_command_can_run_or_has_a_reason(shown: DocumentedCommand) -> None:
    assert shown.program in RUNNABLE or shown.text in NOT_RUN


def test_tables_name_only_what_is_shown() -> None:
    assert {*NOT_RUN, *EXIT_CODES, *SAYS} - {shown.text for shown in SHOWN} == set()


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_block_that_begins_with_a_command_has_commands_only(shown: DocumentedCommand) -> None:
    assert shown.program in PROGRAMS


@pytest.mark.parametrize("page", PAGES)
def test_block_that_begins_with_a_program_of_this_machine_is_one_of_commands(page: str) -> None:
    first = [block[0][1].split()[:1] for block in blocks((ROOT / page).read_text(encoding="utf-8"))]
    assert {word for words in first for word in words if shutil.which(word)} <= PROGRAMS
