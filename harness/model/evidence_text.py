"""Format evidence: objects as kubectl prints them, tables, and addresses with pod names."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import orjson

from harness.model.privacy import without_secrets

LONGEST = 400_000  # maximum number of characters in a file of the evidence

_ADDRESS = re.compile(r"(?<![\w.:])[0-9a-f]*[.:][0-9a-f.:]*[0-9a-f](?![\w.:])")


def bounded(text: str, longest: int = LONGEST) -> str:
    """Return a string without its middle lines if it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    head, tail = text[: longest // 2].rpartition("\n")[0], text[-longest // 2 :].partition("\n")[2]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n… {left_out:,} letters left out …\n{tail}"


def as_yaml(objects: Sequence[Mapping[str, Any]], what: str) -> str:
    """Return objects as `kubectl get -o yaml` prints them, but without managed fields and secrets."""
    import yaml  # noqa: PLC0415  every pytest process of a run loads this module

    sizes = accumulate(len(orjson.dumps(each)) for each in objects)
    count = sum(size <= LONGEST for size in sizes)
    shown = [without_secrets(each) for each in objects[:count]]
    for each in shown:
        each["metadata"].pop("managedFields", None)
    more = f"# {len(objects) - count:,} more {what} are left out\n" if count < len(objects) else ""
    return (yaml.safe_dump_all(shown, sort_keys=False) if shown else "" if more else f"# there are no {what}\n") + more


def as_table(rows: Sequence[Sequence[str]], *, between: str = "  ") -> str:
    widths = column_widths(rows)
    return "\n".join(between.join(map(str.ljust, row, widths)).rstrip() for row in rows)


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def paragraphs(*texts: str) -> str:
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a string with a name before each known address: `a1 (10.244.1.4)`."""

    def named(found: re.Match[str]) -> str:
        return f"{names[found[0]]} ({found[0]})" if found[0] in names else found[0]

    return _ADDRESS.sub(named, text)


def not_gathered(error: Exception) -> str:
    return f"could not be gathered: {type(error).__name__}: {error}\n"


def gathered(ask: Callable[[], str], *, comment: str = "") -> str:
    """Return the result of `ask`, or a line with the error, so that gathering other evidence can continue."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
        return f"{comment}{not_gathered(error)}"


def files_of(who: str, ask: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    """Return the file names and texts that `ask` returns. If `ask` fails, return a file `no-WHO.txt` with the error."""
    found: dict[str, str] = {}
    error = gathered(lambda: found.update(ask()) or "")
    return found or ({f"no-{who}.txt": error} if error else {})
