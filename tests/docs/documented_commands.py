"""Find command lines in the documentation, both in code blocks and as `trafficdist ...` in running text."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "docs/**/*.md",
        "kind-configs/*.md",
        "implementations/**/*.md",
    )
    for path in ROOT.glob(pattern)
)
_OF_SHELLS = {
    "bash",
    "cd",
    "cp",
    "curl",
    "export",
    "git",
    "mkdir",
    "pip",
    "pipx",
    "printf",
    "python",
    "python3",
    "sed",
    "source",
    "sudo",
    "uv",
}
_OF_KUBERNETES = {"docker", "helm", "kind", "kubectl", "podman", "sonobuoy"}
PROGRAMS = frozenset(
    {
        "go",
        "implementations/build",
        "implementations/flannel/image",
        "make",
        "mmdebstrap",
        "npx",
        "pytest",
        "tox",
        "trafficdist",
    }
    | _OF_SHELLS
    | _OF_KUBERNETES
)

_FENCE = re.compile(r"^\s*```")
_SPAN = re.compile(r"(?<!`)`(trafficdist [^`]+)`(?!`)", re.DOTALL)
_OURS = re.compile(r"(?:^|(?<=[\s(]))trafficdist (?:'[^']*'|\"[^\"]*\"|[^|><;&)'\"\n])*")


@dataclass(frozen=True)
class DocumentedCommand:
    """A command line and its place in the documentation."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def program(self) -> str:
        """The program of the line, which follows the variable assignments."""
        return next((word for word in self.text.split() if not re.match(r"[A-Z_]+=", word)), "")


Block = list[tuple[int, str]]


def blocks(text: str) -> list[Block]:
    """Return the fenced and indented code blocks, with numbered lines."""
    found: list[Block] = [[]]
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
            found.append([])
        elif fenced or line.startswith("    "):
            found[-1].append((number, line))
        elif line:
            found.append([])
    return [block for block in found if block]


def blocks_of_commands(page: str) -> list[list[DocumentedCommand]]:
    """Return the blocks that begin with a command. Each line is one command, without its comment."""
    whole = (_joined(page, block) for block in blocks((ROOT / page).read_text(encoding="utf-8")))
    return [block for block in whole if block and _is_command(block[0].text)]


def commands(page: str) -> list[DocumentedCommand]:
    """Return the command lines of a page, in order."""
    return [shown for block in blocks_of_commands(page) for shown in block]


def _joined(page: str, block: Block) -> list[DocumentedCommand]:
    """Return the lines of a block. A line that ends with a backslash is joined with the next line."""
    found: list[DocumentedCommand] = []
    for number, line in block:
        text = re.sub(r"(^|\s+)#\s.*", "", line).strip()
        if found and found[-1].text.endswith("\\"):
            found[-1] = replace(found[-1], text=found[-1].text.removesuffix("\\") + text)
        elif text:
            found.append(DocumentedCommand(page, number, text))
    return found


def _is_command(text: str) -> bool:
    return DocumentedCommand("", 0, text).program in PROGRAMS and not re.match(r"trafficdist \d", text)


def spans(page: str) -> list[str]:
    """Return each `trafficdist ...` in a page's running text. In tables, a `|` is escaped."""
    text = (ROOT / page).read_text(encoding="utf-8").replace(r"\|", "|")
    return [" ".join(each.split()) for each in _SPAN.findall(text)]


def invocations(text: str) -> list[list[str]]:
    """Return the words after each `trafficdist` in a command line."""
    return [shlex.split(each.group())[1:] for each in _OURS.finditer(text)]
