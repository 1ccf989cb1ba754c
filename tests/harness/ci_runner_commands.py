"""The commands that runners of CI jobs would obey in an output, found as the runners find them."""

from __future__ import annotations

import re

HOSTILE = (
    "::error file=x,line=1::planted",
    "  ::stop-commands::planted",
    "\t\u00a0\u3000::add-mask::planted",
    "planted ##[error]planted",
    "##[group]planted",
    "##vso[task.setvariable variable=planted]x",
    "##teamcity[buildStop comment='planted']",
)
ESCAPES = "\x1b]0;planted\x07 \x1b[2J \x9b2J \x1b[1A \u202eplanted\u202c"
MARKUP = "<script>planted()</script> <img src=x onerror=planted()> [planted](javascript:planted())"
PLANTED = "\n".join(("", *HOSTILE, ESCAPES, MARKUP))


def commands(output: str) -> list[str]:
    """Return the lines that a runner obeys.

    GitHub's runner (ActionCommand.cs) reads lines that end with CR, LF or both. It trims blanks, takes `::NAME::`, and
    else looks for `##[` anywhere.
    """
    return [line for line in re.split(r"\r\n|\r|\n", output) if _is_command(line)]


def _is_command(line: str) -> bool:
    trimmed = line.strip()
    after, found, rest = line.partition("##[")[2], "##[" in line, re.search(r"##\w{1,20}\[", line)
    return (trimmed.startswith("::") and "::" in trimmed[2:]) or (found and "]" in after) or rest is not None


def controls(output: str) -> set[str]:
    """Return the characters that control a terminal or change the order of others. Colours are the suite's own."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return {each for each in plain if not each.isprintable() and each not in "\r\n\t\u00a0\u3000"}
