"""Print why connections to Services stay in their zone or leave it, on any cluster (`trafficdist explain`)."""

import contextlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from explain import dump, objects, probe_evidence
from explain.causes import many
from explain.cluster import Cluster, ServiceName
from explain.diagnosis import Diagnosis, diagnose
from explain.load import shares
from explain.objects import Objects
from explain.overview import FORMATS, Overview, RouteDifference, differences, overview
from explain.text import ASSUMES, as_json, fields, parts, programs_as_json, supposition
from explain.what_if import predicted, supposed, upgraded
from harness.api.client import Api, Object, RefusedError
from harness.api.connection import files_of, find
from harness.errors import InconclusiveError, UnavailableError, UsageError
from harness.guest import errors
from harness.model.escaping import for_json, for_terminal
from harness.model.garbage_collection import gc_paused
from reference.features import Reading
from reference.proxy.objects import UNREADABLE


@dataclass(frozen=True, slots=True)
class Source:
    """The source of objects: a cluster, or the files in `folder`. If `record` is set, objects are saved there."""

    kubeconfig: str = ""
    context: str = ""
    folder: str = ""
    record: str = ""
    follow: Reading = "released"


Asking = Callable[[Diagnosis, Cluster], tuple[probe_evidence.ProbePlan, list[probe_evidence.ProbeOutcomes]]]
"""A function that probes a Service from client pods."""


def explain_service(name: str, source: Source, *, form: str, console: Console, ask: Asking | None = None) -> Diagnosis:
    """Print the explanation of Service `name` ("web", or "shop/web"), and probe with `ask`. Return the diagnosis.

    Raises `UsageError`, `UnavailableError`, and any error of `ask`.
    """
    cluster, (namespace, short) = _read_one(name, source, console)
    found = of(cluster, namespace, short)
    plan, answers = ask(found, cluster) if ask else (None, [])
    if plan:
        found = probe_evidence.with_seen(found, plan, answers, cluster)
    if form == "json":
        seen = cluster.objects
        told = as_json(found) | {"gates": seen.gates, "served_by": [*programs_as_json(cluster)], "unread": seen.unread}
        _print_json(told | ({"probe": probe_evidence.as_json(plan, answers)} if plan else {}), console)
        return found
    show(parts(found, cluster), console)
    if plan:
        show(["", *probe_evidence.shown(plan, answers)], console)
    return found


def explain_if(
    assumed: Sequence[str], clients: str, name: str, source: Source, *, form: str, console: Console
) -> Diagnosis:
    """Print the effect of assumptions on a Service, and return the diagnosis under these assumptions.

    Raises `UsageError`, `UnavailableError`.
    """
    cluster, found_as = _read_one(name, source, console)
    before = of(cluster, *found_as)
    with _readable(*found_as):
        then_there = supposed(assumed, found_as, cluster)
        then = of(then_there, *found_as)
        bears = shares(then, then_there.slices.get(found_as, ()), then_there, clients)
    if form == "json":
        told = {"if": [*assumed], "clients": clients, "assumes": ASSUMES, "now": as_json(before), "then": as_json(then)}
        _print_json({**told, "shares": [fields(each, "zone endpoints share load") for each in bears]}, console)
    else:
        show(supposition(assumed, clients, before, then, bears), console)
    return then


def explain_all(namespace: str, source: Source, *, form: str, console: Console) -> Overview:
    """Print the overview of one namespace or of all namespaces, and return it."""
    with gc_paused():  # there are millions of objects, and none of them is garbage
        cluster, _ = _read(source, console, lambda api, _: objects.of_all(api, namespace), "")
        view = overview(cluster, namespace)
        console.file.write(for_terminal(FORMATS[form](view)) + "\n")  # rich would divide millions of characters
    return view


def explain_diff(
    namespace: str, source: Source, other: str, *, version: str, form: str, console: Console
) -> list[RouteDifference]:
    """Print and return the Services whose routes differ from those in another dump, or after an upgrade."""
    with gc_paused():
        before, _ = _read(source, console, lambda api, _: objects.of_all(api, namespace), "")
        after = predicted(Cluster(dump.read(other), source.follow)) if other else upgraded(version, before)
        found = differences(before, after, namespace)
    if form == "json":
        _print_json({"differences": [asdict(each) for each in found]}, console)
        return found
    known = many(len(before.services.keys() | after.services.keys()), "Service")
    lines = [line for each in found for line in each.lines]
    show([*lines, f"{len(found)} of {known} {'differs' if len(found) == 1 else 'differ'}"], console)
    return found


def explained(api: Api, namespace: str, name: str, follow: Reading) -> str:
    """Return the explanation of a Service as text. Raises `UsageError`, `RefusedError` and `InconclusiveError`."""
    cluster = Cluster(objects.of_service(api, namespace, name), follow)
    written = io.StringIO()
    console = Console(file=written, width=160, highlight=False, markup=False, emoji=False)
    show(parts(of(cluster, namespace, name), cluster), console)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def show(lines: Iterable[Any], console: Console) -> None:
    for each in lines:
        console.print(each, soft_wrap=isinstance(each, str), markup=False)


def of(cluster: Cluster, namespace: str, name: str) -> Diagnosis:
    """Return the diagnosis of one Service. Raises `UsageError` if the Service is missing or malformed."""
    service = cluster.services.get((namespace, name))
    if service is None:
        there = ", ".join(sorted(other for space, other in cluster.services if space == namespace)[:6])
        said = f"it has {there}" if there else f"there is no Service in namespace {namespace}"
        raise UsageError(f"Service {namespace}/{name}: not found; {said}")
    with _readable(namespace, name):
        return diagnose(service, cluster)


@contextlib.contextmanager
def _readable(namespace: str, name: str) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, AttributeError) as error:
        raise UsageError(f"Service {namespace}/{name}: its objects cannot be read: {error!r}") from error


def _print_json(content: Object, console: Console) -> None:
    console.out(for_json(json.dumps(content, indent=2, ensure_ascii=False)), highlight=False)


def _read_one(name: str, source: Source, console: Console) -> tuple[Cluster, ServiceName]:
    namespace, _, short = name.rpartition("/")
    found = _read(source, console, lambda api, here: objects.of_service(api, namespace or here, short), namespace)
    return found[0], (found[1], short)


def _read(source: Source, console: Console, ask: Callable[[Api, str], Objects], namespace: str) -> tuple[Cluster, str]:
    if source.folder:
        found, namespace = dump.read(source.folder), namespace or "default"
    else:
        loaded = find(source.kubeconfig, context=source.context)
        namespace, api = namespace or loaded.namespace, Api(loaded, timeout=60)
        try:
            found = ask(api, loaded.namespace)
        except (InconclusiveError, RefusedError) as error:
            said = errors.of(error, server=api.server)
            raise UnavailableError(f"kubeconfig {files_of(source.kubeconfig)}: {said}") from error
        finally:
            api.close()
    if source.record:
        for line in objects.write(found, Path(source.record)):
            console.print(f"--record {source.record}: {line}", soft_wrap=True, markup=False)
    return predicted(Cluster(found, source.follow)), namespace
