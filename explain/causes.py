"""The known causes that make connections to a Service leave their zone, and findings of these causes in a cluster."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Literal

import yaml

SHOWN = 6
"""The maximum number of names in a sentence."""


class Effect(enum.IntEnum):
    """The effect of a cause: connections fail, leave the preferred zone, go as requested, or are unaffected (NOTE)."""

    FAILS = 0
    CROSSES = 1
    AS_ASKED = 2
    NOTE = 3

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


FAILS, CROSSES, AS_ASKED, NOTE = Effect.FAILS, Effect.CROSSES, Effect.AS_ASKED, Effect.NOTE


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause, with its effect, a general description, how to fix it, and a source that describes the cause.

    `id` never changes. `says` and `do` are templates for the sentence and the fix in a finding, with placeholders like
    `$zone`. `also` are the side effects of the fix, for example if it restarts something.
    """

    id: str
    weight: Effect
    means: str
    remedy: str
    source: str
    says: str = ""
    do: str = ""
    also: str = ""


@cache
def texts(name: str) -> Any:
    """Return the content of a YAML file of this package."""
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def causes() -> dict[str, Cause]:
    """Return all causes by id, in file order."""
    content: dict[str, dict[str, Any]] = texts("causes")
    weights = {each.word: each for each in Effect}
    return {name: Cause(name, weights[each.pop("weight")], **each) for name, each in content.items()}


class Prediction(str):
    """A sentence of evidence that was derived from assumptions or predictions, and not read from objects."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that was found in the cluster, with a sentence about it.

    Empty `nodes`, `ports` or `clients` mean that all nodes, all ports and families, or all clients are affected.
    `also` are the side effects of the fix.
    """

    cause: Cause
    says: str
    nodes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    also: str = ""
    ports: tuple[str, ...] = ()
    clients: Literal["", "internal", "external"] = ""

    @property
    def seen(self) -> list[str]:
        return [each for each in self.evidence if not isinstance(each, Prediction)]

    @property
    def predicted(self) -> list[str]:
        return [each for each in self.evidence if isinstance(each, Prediction)]

    @property
    def severity(self) -> str:
        return {FAILS: "error", CROSSES: "warning"}.get(self.cause.weight, "info")

    def weighing(self, weight: Effect) -> "Finding":
        return replace(self, cause=replace(self.cause, weight=weight))


def found(
    cause: str,
    says: str = "",
    *,
    nodes: Sequence[str] = (),
    evidence: Sequence[str] = (),
    remedy: str = "",
    also: str = "",
    **values: object,
) -> Finding:
    """Return a finding. If `says`, `remedy` or `also` is empty, fill in the cause's template with `values`."""
    known = causes()[cause]
    says, remedy, also = (
        given or Template(text).substitute(values)
        for given, text in ((says, known.says), (remedy, known.do), (also, known.also))
    )
    return Finding(known, says, tuple(nodes), tuple(evidence), remedy, also)


def many(subject: int | Sequence[str], thing: str = "", verbs: str = "") -> str:
    """Return "1 node" or "2 nodes", or with names "node a" or "nodes a b", then the matching form of "runs/run"."""
    number = subject if isinstance(subject, int) else len(subject)
    noun = f"{thing}{'' if number == 1 else 's'}" if thing else ""
    words = [str(subject), noun] if isinstance(subject, int) else [noun, listed(subject)]
    return " ".join(filter(None, [*words, verbs.split("/")[number != 1] if verbs else ""]))


def listed(names: Sequence[str]) -> str:
    """Return the first names, followed by the number of omitted names."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return " ".join(names[:SHOWN]) + more
