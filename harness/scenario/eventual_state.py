"""Expectations about metrics, health checks, conditions, Events and API reads. Values are compared as compact JSON."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeVar

from harness.api.client import Object
from harness.backends.protocols import Probing, RecordsApiReads, SendsHttpRequests
from harness.errors import EndedError, StartError, UnavailableError
from harness.model.evidence_text import gathered
from harness.model.metrics import Metrics
from harness.model.release import CONTROLLER, PROXY, Component, Release
from harness.model.workloads import Client, Pod
from harness.scenario.cluster import Cluster
from harness.scenario.convergence import wait_for_stable_value, wait_for_value
from harness.scenario.service import Service

NO_SUCCESS = "no success"

V = TypeVar("V")

ROUNDS = 3


def expect_eventually(
    cluster: Cluster,
    what: str,
    look: Callable[[], Any],
    *,
    expected: Any,
    explain: Callable[[], str] = str,
    unless: Callable[[], str] = str,
    stays: bool = False,
    settled: bool = True,
) -> None:
    """Wait until `look` returns `expected`. With `stays`, also check that the value is stable.

    With `settled`, first wait until all components have processed all changes. Raises `InconclusiveError` if `unless`
    returns a reason why the last value proves nothing.
    """
    if settled:
        cluster.settle()
    wait = wait_for_stable_value if stays else partial(wait_for_value, every=0.02)
    seen = wait(cluster, what, look, lambda seen: bool(seen == expected))
    why = {} if seen == expected else {"explanation": gathered(explain), "unknown": unless()}
    cluster.expect_equal(what, expected=expected, observed=seen, **why)


@contextlib.contextmanager
def expect_running(cluster: Cluster, component: str, *, earlier: bool = True) -> Iterator[None]:
    """Expect a component to run and process changes, during the block and, with `earlier`, in all earlier scenarios.

    `component` is a member of `Component`, or `DNS_SERVER`. Raises `AssertionError` with the reason why the component
    ended or stopped processing changes. Other exceptions of the block are raised unchanged.
    """
    cluster.expects_running = True
    end = cluster.ended_before().get(component, "") if earlier else ""
    _compare(cluster, component, end)
    try:
        yield
        cluster.settle()
    except (EndedError, StartError) as error:
        if isinstance(error, EndedError) and error.component != component:
            raise
        end = str(error)
    except AssertionError:
        end = cluster.end_of(component)
        if not end:
            raise
    _compare(cluster, component, end)


def _compare(cluster: Cluster, component: str, end: str) -> None:
    first, _, rest = end.partition("\n")
    cluster.expect_equal(f"the {component}", expected="runs", observed=first or "runs", explanation=rest)


class MetricChanges:
    """The changes in a component's metrics since this object was created."""

    def __init__(self, cluster: Cluster, component: Component, node: str = "") -> None:
        self._cluster, self._component, self._node = cluster, component, node
        cluster.begin_to_count(component)
        cluster.settle()
        self._before = self._read()

    def expect(self, name: str, labels: Mapping[str, str] | None = None, *, by: int) -> None:
        """Expect the sum of this metric over all series with these labels to change by `by`."""
        self._expect("changed by", name, labels, round, expected=by)

    def expect_growth(
        self, name: str, labels: Mapping[str, str] | None = None, *, least: int = 1, unless: Callable[[], str] = str
    ) -> None:
        """Like `expect`, but the sum may increase by `least` or more, because components may retry."""
        how = "grown" if least == 1 else f"grown by {least} or more"
        self._expect(how, name, labels, lambda change: change >= least, expected=True, unless=unless)

    def _expect(
        self, how: str, name: str, labels: Mapping[str, str] | None, look: Callable[[float], Any], **others: Any
    ) -> None:
        labels = labels or {}
        before = self._before.total(name, **labels)
        expect_eventually(
            self._cluster,
            metric_text(self._component, self._node, how, name, labels),
            lambda: look(self._read().total(name, **labels) - before),
            explain=lambda: "\n".join(line for line in self._read().text.splitlines() if line.startswith(name)),
            **others,
        )

    def _read(self) -> Metrics:
        return self._cluster.metrics(self._component, self._node)


def metric_text(component: Component, node: str, how: str, name: str, labels: Mapping[str, str]) -> str:
    """Describe a metric's change: "metric NAME{LABELS} of COMPONENT has HOW", or "of the proxy on NODE"."""
    chosen = ",".join(f"{key}={value or '(empty)'}" for key, value in labels.items())
    return f"metric {name}{{{chosen}}} of {f'the proxy on {node}' if node else component} has {how}"


def controller_metrics(cluster: Cluster) -> MetricChanges:
    """Track changes of the EndpointSlice controller's metrics, starting now."""
    return MetricChanges(cluster, CONTROLLER)


def proxy_metrics(cluster: Cluster, node: str) -> MetricChanges:
    """Track changes of the metrics of a node's proxy, starting now."""
    return MetricChanges(cluster, PROXY, node)


def expect_http_answer(
    cluster: Cluster,
    who: Client | Pod,
    to: tuple[str, int],
    path: str,
    *,
    code: int | None,
    body: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Expect this answer to a GET request for `path`. `to` is a node, whose first address is used, and a port.

    Only the given fields of the JSON body and the given headers are compared. A `code` of None means no answer, or any
    answer except 200. Raises `AssertionError`.
    """
    node, port = to
    address = next(iter(cluster.backend.part(Probing, nodes=[node]).node_addresses(node).values()))
    expected = http_fields(code, body, headers)

    def look() -> Object | str:
        try:
            answer = cluster.backend.part(SendsHttpRequests, client=who).http_get(who, address, port, path)
        except OSError as error:
            return f"no answer: {error}" if code else NO_SUCCESS
        if not code and answer.code != 200:
            return NO_SUCCESS
        try:
            values = json.loads(answer.text) if body else {}
        except ValueError:
            values = {}
        fields = {name: values.get(name) for name in body or {}}
        return {"code": answer.code, **fields, **{name: answer.headers.get(name) for name in headers or {}}}

    expect_eventually(cluster, f"answer to GET :{port}{path} on {node}", look, expected=expected)


def http_fields(
    code: int | None, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> Object | str:
    """Convert the expected fields of an answer to the form in which the history records them."""
    return {"code": code, **(body or {}), **(headers or {})} if code else NO_SUCCESS


def conditions_of(cluster: Cluster, service: Service) -> dict[str, Object]:
    """Return the conditions in the status of a Service, keyed by type."""
    stored = cluster.api.get("services", cluster.namespace, service.name)
    return {each["type"]: each for each in (stored.get("status") or {}).get("conditions") or ()}


def expect_condition(cluster: Cluster, service: Service, kind: str, status: str | None) -> Object:
    """Expect a Service condition to have this status (None: to be absent). Return the condition, or {} if absent."""
    expect_eventually(
        cluster,
        f"condition {kind} of service {service.name}",
        lambda: conditions_of(cluster, service).get(kind, {}).get("status"),
        expected=status,
        explain=lambda: json.dumps(conditions_of(cluster, service), indent=1),
        stays=True,
    )
    return conditions_of(cluster, service).get(kind, {})


def warnings_about(cluster: Cluster, service: Service) -> list[Object]:
    """Return the Events of type Warning about a Service."""
    warnings = (each for each in cluster.api.list("events", cluster.namespace) if each.get("type") == "Warning")
    of = {"kind": "Service", "name": service.name}
    return [each for each in warnings if of.items() <= each["involvedObject"].items()]


def expect_no_more_reads(
    cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], *, without: V, values: Iterable[V]
) -> None:
    """Expect that a feature does not make a component send more read requests to the API server.

    Restart the component. Call `play` for `ROUNDS` rounds with the value `without`, then for `ROUNDS` rounds with each
    of `values`. No value may cause additional reads in every round (single reads prove nothing, because a Kubernetes
    client may restart watches and lists at any time), or a read of a resource that was not read before.

    Reads are the GET, LIST and WATCH requests that the API server counts, such as "get nodes". `play` makes one round
    of changes, and returns the reads to ignore. Raises `AssertionError`, or `UnavailableError` if the API server does
    not count reads.
    """
    started = reads_after_restart(cluster, component)
    plain = _reads(cluster, component, play, without)
    known = {_resource(each) for each in (*started, *plain)}
    for value in values:
        reads = _reads(cluster, component, play, value)
        totals = {"reads without": plain.total(), f"with {value}": reads.total()}
        cluster.measured(f"{ROUNDS} rounds of changes, seen by the {component}", totals)
        more = sorted((reads - plain).items())
        cluster.expect_equal(
            f"the {component}: additional reads in each round of {value}, and reads of further resources",
            expected={},
            observed={read: times for read, times in more if times >= ROUNDS or _resource(read) not in known},
        )


def reads_after_restart(cluster: Cluster, component: Component, release: Release | None = None) -> list[str]:
    """Restart a component at this release, by default its own. Return its API reads since then, like "list services".

    A read of one object by a field selector is like "watch nodes by name". Raises `UnavailableError` if the API
    server does not record reads, or recorded none of this component.
    """
    begin = time.monotonic()
    cluster.backend.part(RecordsApiReads).reads(component, since=begin)  # fail early if counting is unavailable
    cluster.restart(component, release)
    reads = cluster.backend.part(RecordsApiReads).reads(component, since=begin)
    if not reads:
        raise UnavailableError(f"the API server recorded no read of the {component}, although it was restarted")
    return reads


def _resource(read: str) -> str:
    return read.partition(" ")[2]


def _reads(cluster: Cluster, component: Component, play: Callable[[V], AbstractSet[str]], value: V) -> Counter[str]:
    cluster.settle()
    since, others = time.monotonic(), set[str]()
    for _ in range(ROUNDS):
        others |= play(value)
        cluster.settle()
    reads = cluster.backend.part(RecordsApiReads).reads(component, since=since)
    return Counter(each for each in reads if each not in others)
