"""The path of the first wrong packet of each failed window, as evidence: what sent it there, and what was to be.

The probe is repeated after the window, which has been judged by then. Nothing of this counts.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from harness.backends.explanation import explained
from harness.judging.history import Window
from harness.judging.verdict import Judgement, pods_of
from harness.model.outcomes import Observation, Reached
from harness.model.texts import gathered, paragraphs, with_names
from harness.scenario.cluster import Cluster
from harness.scenario.paths import Path, named
from harness.tracing.capture import as_pcap
from harness.tracing.path import Followed, at_node, path, wire
from harness.tracing.rules import rules_of

SECONDS = 0.7
"""After so long no further window is followed, but named; one takes a second at most."""

ENDS = 3
"""The most servers at whose ends packets are captured."""

LINES = 60
"""The most lines of a log."""

_KLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ")


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The path of a client, and what it saw wrong in a window; None if it only missed something."""

    path: Path
    saw: Observation | None
    window: Window
    judgement: Judgement


def paths_of(cluster: Cluster, texts: Mapping[str, str], names: Mapping[str, str]) -> Iterator[tuple[str, str | bytes]]:
    """Yield for each failed window a text with its file name, and the capture; `texts` are the evidence so far."""
    until = time.monotonic() + SECONDS
    used: Counter[str] = Counter()
    for window, judgement, paths in list(cluster.findings.failed()):
        for wrong in _first_wrong(window, judgement, paths):
            name = f"path-{re.sub('[^A-Za-z0-9.-]+', '-', wrong.path.label)}"
            used[name] += 1
            name += f"-{used[name]}" if used[name] > 1 else ""
            if time.monotonic() > until:
                yield f"{name}.txt", f"{wrong.judgement.message}\n\nnot followed: other windows took {SECONDS:g} s\n"
                continue
            followed = _followed(cluster, wrong)
            yield f"{name}.txt", with_names(gathered(partial(_told, cluster, wrong, followed, texts, names)), names)
            if frames := at_node(followed):
                yield f"{name}.pcap", as_pcap(frames)


def _first_wrong(window: Window, judgement: Judgement, paths: Sequence[Path]) -> Iterator[_Wrong]:
    """Yield the first client who saw something wrong, else the first who missed something."""
    unmet = [each for each in paths if each.label in judgement.unmet]
    seen = [each for each in unmet if each.label in window.first_wrong]
    for each in (seen or unmet)[:1]:
        yield _Wrong(each, window.first_wrong.get(each.label), window, judgement)


def _told(
    cluster: Cluster, wrong: _Wrong, followed: Followed, texts: Mapping[str, str], names: Mapping[str, str]
) -> str:
    chosen, node = wrong.path, wrong.path.node
    service, kind = chosen.of
    steps = path(followed, rules_of(texts, node), client=chosen.label, node=node, names=names)
    wanted = gathered(partial(asked_for, cluster, service))
    tells = gathered(partial(cluster.backend.booted.explain, cluster.namespace, service, [node]))
    return paragraphs(
        wrong.judgement.message,
        f"{chosen.label} asks for {chosen.protocol} {chosen.address} port {chosen.port}, the {kind} of {service}. "
        f"{_again(cluster, followed, wrong)}",
        "\n".join(steps),
        "\n".join(f"Missing here: {each}" for each in followed.missing),
        _heading("The packets, as they were captured", "\n".join(wire(followed, names))),
        _heading("What its objects ask for, and why", wanted),
        _heading(f"What the proxy of {node} tells of it", "" if wanted in tells else tells),
        _log(texts, node, wrong.window.opened),
        "",
    )


def _followed(cluster: Cluster, wrong: _Wrong) -> Followed:
    def is_same(seen: Observation) -> bool:
        return wrong.saw is None or named(cluster, seen) == wrong.saw

    ends = {wrong.saw.pod} if isinstance(wrong.saw, Reached) else pods_of(wrong.path.expected)
    names = {each.partition(".")[0] for each in ends}  # a server that tells its port has it there
    servers = [each for each in cluster.running if each.name in names][:ENDS]
    try:
        return cluster.backend.restored.follow(wrong.path.probes(1)[0], wrong.path.node, is_same, servers=servers)
    except Exception as error:  # noqa: BLE001  evidence must never replace the verdict
        return Followed(missing=(f"the way of the packet: {error}",))


def _again(cluster: Cluster, followed: Followed, wrong: _Wrong) -> str:
    """Say what became of the repeats."""
    if not followed.seen:
        return ""
    times = f"{len(followed.seen)} times more" if len(followed.seen) > 1 else "once more"
    asked = f"Asked {times}, after the window, with the trace of node {wrong.path.node} on"
    if wrong.saw is None:
        return f"{asked}: no single packet was wrong, and this is the path of one."
    if named(cluster, followed.seen[-1]) == wrong.saw:
        return f"{asked}: the last one saw the same as in the window, and this is its path."
    return f"{asked}: what was seen in the window was not seen again, and this is the path of the last one."


def _heading(title: str, text: str) -> str:
    return f"{title}:\n\n{text.rstrip()}" if text.strip() else ""


def asked_for(cluster: Cluster, service: str) -> str:
    """Return the decisions that the objects of a Service ask for, and why. Raises like `explained`."""
    follow: Literal["kep", "released"] = "kep" if cluster.release.follows == "kep" else "released"
    return explained(cluster.api, cluster.namespace, service, follow)


def _log(texts: Mapping[str, str], node: str, since: float) -> str:
    """Return the end of each log of a node, since a time (Unix time) where its lines tell theirs."""
    logs = {name: text for name, text in texts.items() if name.endswith(f"-{node}.log")}
    return paragraphs(
        *(_heading(f"{name} since the window began", since_then(text, since)) for name, text in logs.items())
    )


def since_then(log: str, since: float) -> str:
    """Return the lines of a log since a time (Unix time), if they tell theirs as klog does, in UTC; `LINES` at most.

    Of a log that tells none, the last ones.
    """
    lines = log.splitlines()
    year = datetime.fromtimestamp(since, UTC).year
    times = [_moment(line, year) for line in lines]
    if any(times):
        begin = next((number for number, at in enumerate(times) if at and at >= since), len(lines))
        lines = lines[begin:] or ["it says nothing"]
    else:
        lines = ["its lines tell no time; these are the last", *lines[-LINES:]] if lines else ["it says nothing"]
    left_out = [f"… {len(lines) - LINES} lines left out …"] if len(lines) > LINES + 1 else []
    return "\n".join([*left_out, *(lines[-LINES:] if left_out else lines)])


def _moment(line: str, year: int) -> float:
    found = _KLOG.match(line)
    if found is None:
        return 0.0
    month, day, hour, minute, second, micro = map(int, found.groups())
    return datetime(year, month, day, hour, minute, second, micro, UTC).timestamp()
