"""Each remedy, applied as printed, is accepted by the API, removes its cause, and harms nobody."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence

import pytest
from rich.console import Console

from explain.cluster import Cluster
from explain.objects import Objects
from explain.overview import FORMATS, overview
from explain.service import show
from explain.text import parts
from harness.api.client import Object
from reference.client import ApiError
from tests.explain.apply_remedies import AppliedCluster, alternatives, harm, now
from tests.explain.generated_clusters import corpus, fresh
from tests.explain.recorded_cases import NOTES, ROWS

REFUSED = {
    "an address that is none": "the API refuses the slice",
    "a value that is none": "the API refuses the value",
    "an annotation behind the deprecated one": "the API refuses annotations that differ",
    "two annotations": "the API refuses annotations that differ",
}
"""Clusters that no API server holds."""

CLUSTERS = {name: row.seen for name, row in ROWS.items()} | {name: note.seen for name, note in NOTES.items()}


@pytest.mark.parametrize("name", [each for each in CLUSTERS if each not in REFUSED])
def test_remedies_of_a_cause_are_accepted_and_harm_nobody(name: str) -> None:
    assert harm(CLUSTERS[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_cluster_that_the_api_refuses_is_named(name: str) -> None:
    with pytest.raises(ApiError):
        AppliedCluster(CLUSTERS[name])


def test_remedies_of_generated_clusters_are_accepted_and_harm_nobody() -> None:
    wrong = {number: found for number, each in enumerate(corpus(5)) if number % 3 == 0 and (found := harm(each))}
    assert wrong == {}


@pytest.mark.parametrize("name", CLUSTERS)
def test_remedies_of_an_answer_agree_and_say_what_else_they_do(name: str) -> None:
    assert wrong(CLUSTERS[name]) == []


def test_remedies_of_generated_answers_agree_and_say_what_else_they_do() -> None:
    found = {line for each in (*corpus(7), *fresh(of_seed=4042)) for line in wrong(each)}
    assert found == set()


@pytest.mark.parametrize("name", CLUSTERS)
def test_commands_are_shown_whole(name: str) -> None:
    assert cut(CLUSTERS[name]) == []


def wrong(seen: Objects) -> list[str]:
    """Return remedies that contradict one another, or that change something without a line that says what else."""
    cluster = Cluster(seen, "released")
    known = {(KINDS[kind], each["metadata"]["name"]): each for kind in KINDS for each in _of(seen, kind)}
    found, written = [], dict[tuple[str, ...], tuple[str, set[str]]]()
    for each in now(cluster).findings:
        commands = [one for alternative in alternatives(each.remedy) for one in alternative]
        mine: dict[tuple[str, ...], set[str]] = {}
        for command in commands:
            for place, value in writes(command):
                mine.setdefault(place, set()).add(value)
        for place, values in mine.items():
            other, theirs = written.setdefault(place, (each.cause.id, values))
            if theirs != values:
                found.append(f"{other} writes {theirs} to {place}, but {each.cause.id} {values}")
        acts = any(word in each.remedy for word in ACTS)
        unread = each.cause.id in UNREAD
        lost = [place for place, values in mine.items() if not unread and _gives_up(_had(known, place), values)]
        unsaid = any(word in each.remedy and effect not in each.also for word, effect in EFFECTS.items())
        if ((acts or lost) and not each.also) or unsaid:
            found.append(f"{each.cause.id} does not say what else it does: {each.remedy}, {lost}")
    return found


def writes(command: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the fields that a command writes, and the values."""
    words = [each for each in shlex.split(command)[1:] if each not in {"--overwrite", "--force"}]
    verb, *rest = words[2:] if words[0] == "-n" else words
    if verb not in {"patch", "annotate", "label", "scale"} or rest[1] == "-l":
        return
    kind, _, name = rest[0].partition("/")
    name, *more = rest[1:] if not name else (name, *rest[1:])
    match verb:
        case "scale":
            yield (kind, name, "spec", "replicas"), more[0].partition("=")[2]
        case "annotate" | "label":
            key, sign, value = more[-1].removesuffix("-").partition("=")
            yield (
                (kind, name, "metadata", f"{verb}s".replace("annotates", "annotations"), key),
                value if sign else "null",
            )
        case "patch" if more[0] == "--type=json":
            for each in json.loads(more[-1]):
                yield (kind, name, *each["path"].split("/")[1:]), json.dumps(each["value"])
        case "patch":
            yield from (((kind, name, *path), value) for path, value in _leaves(json.loads(more[-1])))


def _leaves(value: object, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, *path, key)
    else:
        yield path, json.dumps(value)


ACTS = (
    "delete", "replace --force", "restart", "in the pod template of", "give the pods addresses", "or to the pods",
    "upgrade ", "label node", "uncordon", '"strategy"',
)  # fmt: skip
"""What replaces, restarts or moves something, or counts for other Services as well."""

EFFECTS = {"give the pods addresses": "replaced", "label node": "for all Services", '"strategy"': "pod"}
"""What the line `also` says of some remedies."""

KINDS = {
    "services": "service", "endpointslices": "endpointslice", "nodes": "node", "deployments": "deployment",
    "horizontalpodautoscalers": "horizontalpodautoscaler", "poddisruptionbudgets": "poddisruptionbudget",
}  # fmt: skip
UNREAD = {"annotation-misspelt", "annotation-as-label", "annotation-hidden", "annotation-unknown"}
"""The causes that are about values that no component reads. To remove them gives up nothing."""
SAME = {'"PreferClose"', '"PreferSameZone"'}
UNMINDED = {"trafficdist.dev/touched", "type", "minAvailable"}
"""Fields whose change gives up nothing: a mark of time, and what a patch beside it replaces."""


def _of(seen: Objects, kind: str) -> Sequence[Object]:
    return seen.further.get(kind, ()) if kind in seen.further else getattr(seen, kind, ())


def _had(known: Mapping[tuple[str, str], Object], place: tuple[str, ...]) -> str | None:
    """Return the value that a user gave a field, or None."""
    value: object = known.get((place[0], place[1]), {})
    for key in place[2:]:
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None or place[-1] in UNMINDED else json.dumps(value) if place[2] == "spec" else str(value)


def _gives_up(value: str | None, new: set[str]) -> bool:
    """Return whether a change from a value, which has an effect, to one of these gives something up."""
    return value not in {None, '"Nearby"', *new} and not {value, *new} <= SAME


def cut(seen: Objects) -> list[str]:
    """Return the commands that are not shown as one piece in the answer, or in a form of the overview."""
    cluster = Cluster(seen, "released")
    found, view = now(cluster), overview(cluster)
    written = io.StringIO()
    show(parts(found, cluster), Console(file=written, width=80, highlight=False, markup=False))
    shown = {"answer": written.getvalue(), "overview": FORMATS["text"](view)}
    told = {"answer": [each.remedy for each in found.findings], "overview": [each.remedy for each in view.rows]}
    return [
        f"{form}: {command}"
        for form, remedies in told.items()
        for remedy in remedies
        for alternative in alternatives(remedy)
        for command in alternative
        if command not in shown[form]
    ] + [f"{form} has an ellipsis" for form, text in shown.items() if "\N{HORIZONTAL ELLIPSIS}" in text]
