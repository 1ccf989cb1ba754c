"""Tests that nothing obeys what the neutral streams show, wherever the text is cut into pieces."""

from __future__ import annotations

import io
import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.model.neutral_output import OutputNeutralizer, neutral, neutral_streams, terminal_below
from tests.harness.ci_runner_commands import ESCAPES, HOSTILE, MARKUP, PLANTED, commands, controls

PIECES = st.sampled_from(
    [":", "::", "#", "##", "[", "]", "error", "vso", " ", "\t", "\u00a0", "\n", "\r", "\x1b[31m", "\x1b", "x", "é"]
)


def test_parser_of_this_test_finds_each_planted_command() -> None:
    assert commands(PLANTED) == list(HOSTILE)


@pytest.mark.parametrize("text", [*HOSTILE, ESCAPES, PLANTED])
def test_planted_commands_are_shown_and_not_obeyed(text: str) -> None:
    shown = neutral(text)
    assert not commands(shown)
    assert not controls(shown)
    assert shown.count("planted") == text.count("planted")


@example(["##", "é", "["])
@given(st.lists(PIECES, max_size=30))
def test_text_in_any_pieces_is_not_obeyed(pieces: list[str]) -> None:
    stream = OutputNeutralizer()
    shown = "".join(map(stream, pieces))
    assert not commands(shown)
    assert shown.replace("|", "").replace("\\x1b", "\x1b") == "".join(pieces)


@pytest.mark.parametrize("text", ["a::b", "test_x.py::test_y", "fd00::1", "# [x]", "|x|", "\x1b[31mred\x1b[0m", MARKUP])
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert neutral(text) == text


@pytest.mark.parametrize("line", ["\n", " ", "#", ":", "##a", "\x1b[0m", "##x["])
def test_cost_is_linear_in_the_size(line: str) -> None:
    """A hundred times more text takes a hundred times longer, not ten thousand times."""

    def cost(times: int) -> float:
        text = line * times
        begun = time.process_time()
        neutral(text)
        return time.process_time() - begun

    small = min(cost(10_000) for _ in range(5))
    assert min(cost(100_000) for _ in range(3)) < 60 * small + 0.01


def test_streams_are_neutral_within_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    below = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", below)
    below.write("::notice::the suite's own\n")
    with neutral_streams(), neutral_streams():
        guarded = sys.stdout
        for piece in ("é\n:", ":error:", ":x\n"):
            sys.stdout.write(piece)
        sys.stdout.buffer.write(b"##")
        sys.stdout.buffer.write(b"[error]\xff")
        assert terminal_below(sys.stdout) is guarded, "not a terminal"
    assert sys.stdout is below
    del guarded
    below.flush()
    said = below.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert said == "::notice::the suite's own\n\\xe9\n:|:error::x\n##|[error]\\udcff"
