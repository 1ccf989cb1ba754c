"""The evidence of a failed scenario. After the verdict, a probe of each failed window is repeated and traced."""

import contextlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from harness.api.client import RefusedError
from harness.backends.explanation import explained
from harness.errors import InconclusiveError
from harness.judging.verdict import Verdict, pods_of
from harness.model.abilities import Ability
from harness.model.evidence_text import as_yaml, gathered, paragraphs, with_names
from harness.model.outcomes import Observation, Reached
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import answers_now
from harness.scenario.paths import PacketPath
from harness.scenario.record import ScenarioRecord
from harness.scenario.service_address import named
from harness.tracing.path import TracedProbe, at_node, path, wire
from harness.tracing.probe_tracing import as_pcap
from harness.tracing.rules import rules_of

SECONDS = 0.7
"""After this many seconds, no trace starts, and further failed windows are only listed. A trace takes at most 1 s."""

ENDS = 3  # maximum number of servers at which packets are captured
_SERVICES = 10  # maximum number of Services whose decisions are derived from objects
LINES = 60  # maximum number of lines of a log

_KLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ")


@dataclass(frozen=True, slots=True)
class _WrongPath:
    """A client's wrong path. `saw` is its first wrong observation, or None if only an expected pod was not reached."""

    path: PacketPath
    saw: Observation | None
    message: str
    opened: float


def explain_failure(cluster: Cluster, record: ScenarioRecord) -> Iterator[tuple[str, str | bytes]]:
    """Yield (file name, content) for each evidence file: objects, components' evidence, paths of misrouted packets."""
    names = _pod_names(cluster, record)
    components = cluster.backend.booted.evidence(cluster.namespace, since=record.begun)
    yield from components.items()
    yield from _paths(cluster, record, components, names)
    decisions = cluster.backend.booted.decisions()
    for node, text in decisions.items():
        yield f"decisions-{node}.txt", with_names(text, names)
    if not decisions:
        yield "decisions.txt", with_names(gathered(partial(_explained, cluster)), names)
    for resource in ("services", "endpointslices", "pods", "events"):
        yield f"{resource}.yaml", _objects(cluster, resource, cluster.namespace)
    yield "nodes.yaml", _objects(cluster, "nodes", "")
    if Ability.DNS in cluster.needs().get("abilities", ()):
        yield "podlocators.yaml", _objects(cluster, "podlocators", cluster.namespace)
        yield "dns.txt", with_names(gathered(partial(answers_now, cluster)), names)


def _objects(cluster: Cluster, resource: str, namespace: str) -> str:
    what = f"{resource} in namespace {namespace}"
    return gathered(lambda: as_yaml(cluster.api.list(resource, namespace), what), comment="# ")


def _explained(cluster: Cluster) -> str:
    services = [str(each["metadata"]["name"]) for each in cluster.api.list("services", cluster.namespace)]
    decisions = [required_decisions(cluster, each) for each in services[:_SERVICES]]
    head = "The proxies do not report their decisions. According to its objects, each Service requires these decisions:"
    return "\n\n".join([head, *(decisions or ["there is no Service"])]) + "\n"


def _pod_names(cluster: Cluster, record: ScenarioRecord) -> dict[str, str]:
    found = dict(record.pod_names)
    with contextlib.suppress(RefusedError, InconclusiveError):
        for pod in cluster.api.list("pods", cluster.namespace):
            ips = (pod.get("status") or {}).get("podIPs") or ()
            found |= {str(each["ip"]): str(pod["metadata"]["name"]) for each in ips}
    return found


def _paths(
    cluster: Cluster, record: ScenarioRecord, files: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[tuple[str, str | bytes]]:
    """Yield (file name, content) for each failed window: a packet's path and a capture. `files` has logs and rules."""
    until = time.monotonic() + SECONDS
    used: Counter[str] = Counter()
    for _, window, paths in list(record.windows):
        judgement = window.judgement()
        unmet = [each for each in paths if judgement.verdict is Verdict.FAILED and each.label in judgement.unmet]
        seen = [each for each in unmet if each.label in window.first_wrong]
        for each in (seen or unmet)[:1]:
            wrong = _WrongPath(each, window.first_wrong.get(each.label), judgement.message, window.opened)
            name = f"path-{re.sub('[^A-Za-z0-9.-]+', '-', each.label)}"
            used[name] += 1
            name += f"-{used[name]}" if used[name] > 1 else ""
            if time.monotonic() > until:
                yield f"{name}.txt", f"{wrong.message}\n\nnot traced: other windows took {SECONDS:g} s\n"
                continue
            followed = _followed(cluster, wrong)
            text = gathered(partial(_packet_text, cluster, wrong, followed, files, names))
            yield f"{name}.txt", with_names(text, names)
            if frames := at_node(followed):
                yield f"{name}.pcap", as_pcap(frames)


def _packet_text(
    cluster: Cluster, wrong: _WrongPath, followed: TracedProbe, files: Mapping[str, str], names: Mapping[str, str]
) -> str:
    chosen, node = wrong.path, wrong.path.node
    service, kind = chosen.of
    steps = path(followed, rules_of(files, node), client=chosen.label, node=node, names=names)
    required = gathered(partial(required_decisions, cluster, service))
    reported = gathered(partial(cluster.backend.booted.explain, cluster.namespace, service, [node]))
    return paragraphs(
        wrong.message,
        f"{chosen.label} sends to {chosen.protocol} {chosen.address} port {chosen.port}, the {kind} of {service}. "
        f"{_describe_repetition(cluster, followed, wrong)}",
        "\n".join(steps),
        "\n".join(f"Missing here: {each}" for each in followed.missing),
        _heading("Captured packets", "\n".join(wire(followed, names))),
        _heading("Decisions that follow from its objects", required),
        _heading(f"Decisions of the proxy on {node}", "" if required in reported else reported),
        _log(files, node, wrong.opened),
        "",
    )


def _followed(cluster: Cluster, wrong: _WrongPath) -> TracedProbe:
    def is_same(seen: Observation) -> bool:
        return wrong.saw is None or named(cluster, seen) == wrong.saw

    ends = {wrong.saw.pod} if isinstance(wrong.saw, Reached) else pods_of(wrong.path.expected)
    names = {each.partition(".")[0] for each in ends}  # without the port that `at_port` appends
    servers = [each for each in cluster.running if each.name in names][:ENDS]
    try:
        return cluster.backend.restored.follow(wrong.path.probes(1)[0], wrong.path.node, is_same, servers=servers)
    except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
        return TracedProbe(missing=(f"the path of the packet: {error}",))


def _describe_repetition(cluster: Cluster, followed: TracedProbe, wrong: _WrongPath) -> str:
    if not followed.seen:
        return ""
    times = f"{len(followed.seen)} times" if len(followed.seen) > 1 else "once"
    repeated = f"The probe was repeated {times} after the window, with tracing on node {wrong.path.node}"
    if wrong.saw is None:
        return f"{repeated}. No single packet was wrong; this is the path of one."
    if named(cluster, followed.seen[-1]) == wrong.saw:
        return f"{repeated}. The last probe had the same outcome as in the window; this is its path."
    return f"{repeated}. The outcome in the window did not occur again; this is the path of the last probe."


def _heading(title: str, text: str) -> str:
    return f"{title}:\n\n{text.rstrip()}" if text.strip() else ""


def required_decisions(cluster: Cluster, service: str) -> str:
    """Return the proxy decisions that a Service's objects require, with reasons. Raises the errors of `explained`."""
    return explained(cluster.api, cluster.namespace, service, cluster.release)


def _log(files: Mapping[str, str], node: str, since: float) -> str:
    logs = {name: text for name, text in files.items() if name.endswith(f"-{node}.log")}
    return paragraphs(
        *(_heading(f"{name} since the window began", since_then(text, since)) for name, text in logs.items())
    )


def since_then(log: str, since: float) -> str:
    """Return up to `LINES` lines of a log since a Unix time, or its last lines if it has no klog timestamps (UTC)."""
    lines = log.splitlines()
    year = datetime.fromtimestamp(since, UTC).year
    times = [_timestamp(line, year) for line in lines]
    if any(times):
        begin = next((number for number, at in enumerate(times) if at and at >= since), len(lines))
        lines = lines[begin:] or ["no lines"]
    else:
        lines = ["lines without timestamps; these are the last", *lines[-LINES:]] if lines else ["no lines"]
    left_out = [f"… {len(lines) - LINES} lines left out …"] if len(lines) > LINES + 1 else []
    return "\n".join([*left_out, *(lines[-LINES:] if left_out else lines)])


def _timestamp(line: str, year: int) -> float:
    found = _KLOG.match(line)
    if found is None:
        return 0.0
    month, day, hour, minute, second, micro = map(int, found.groups())
    return datetime(year, month, day, hour, minute, second, micro, UTC).timestamp()
