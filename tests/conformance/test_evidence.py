"""The evidence of each kind of failure contains the facts that explain the failure.

Each row has a mutant, a requirement that fails for the mutant, and regular expressions that must match the evidence.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.backends.netns import NetnsBackend
from harness.judging.history import History
from harness.model.evidence_text import LONGEST
from harness.plugin.evidence import SECONDS, gather
from harness.scenario.cluster import Cluster
from harness.settings.implementations import reference
from mutants import MUTANTS
from tests.conformance.mutant_trials import SCENARIOS, time_scaled

ADDRESS = r"10\.244\.\d+\.\d+"
TIME = r"\+[\d,]+ ms"


@dataclass(frozen=True)
class ExpectedEvidence:
    """A failure, the facts expected in its text, and the facts expected in its files."""

    mutant: str
    requirement: str
    said: str
    facts: Mapping[str, str]


ROWS = [
    ExpectedEvidence(
        "no-hints-mean-nobody",
        "KEP-4444/no-hints-use-every-endpoint",
        rf"{TIME}  write slice web-1-slice-ipv4, \d endpoints: a1 \({ADDRESS}\).*\n +{TIME}  → the measuring window",
        {
            "decisions-a1.txt": r"^td-3/web-1:80/TCP IPv4, port 80 of cluster IP 10\.[\d.]+\n  .*\n  cluster IP: \w+",
            "api-requests.txt": rf"{TIME}  create namespace td-3\n +{TIME}  create service web-1 -n td-3\n",
            "endpointslices.yaml": r"^  name: web-1-slice-ipv4$",
            "rules-a1-nft.txt": r"^table ip trafficdist",
            "network-a1.txt": r"^route default via 169\.254\.1\.1 dev eth0 src 10\.0\.0\.2$",
            "network-fabric.txt": r"^rule IPv6 100: from all iif external lookup 100$",
        },
    ),
    ExpectedEvidence(
        "rejects-where-drop-is-due",
        "SERVICE/external-local-without-endpoints-drops",
        r"the proxy reports: node",
        {
            "decisions-b1.txt": r"node port 3\d+.*\n(.*\n)*"
            r"  external addresses, from external clients: reject \(external",
            "decisions-a1.txt": rf"external addresses, from external clients: forward to a1 \({ADDRESS}\) \(external",
        },
    ),
    ExpectedEvidence(
        "cuts-open-connections",
        "KEP-1669/established-connections-outlive-the-choice",
        rf"a1 \({ADDRESS}\) not ready terminating.*\n +{TIME}  → server of the open connection of a2: 'Refused'",
        {
            "api-requests.txt": rf"{TIME}  replace endpointslice web-1-slice-ipv4 .*\(2 times, the last at {TIME}\)\n",
            "connections-a2.txt": rf"^tcp \d+ [A-Z_]+ src={ADDRESS} dst=10\.96\.[\d.]+ sport=\d+ dport=80 src=",
        },
    ),
    ExpectedEvidence(
        "forgets-before-it-learns",
        "KEP-2433/partial-hints-leave-nobody-with-less",
        rf"{TIME}  write slice web-1-\w+-ipv4, .*\n +{TIME}  → \w+ got no answer: the first of \d+ wrong of",
        {"decisions-a1.txt": rf"forward to a1 \({ADDRESS}\), b1"},
    ),
    ExpectedEvidence(
        "writes-no-hints",
        "KEP-4444/one-endpoint-is-hinted-too",
        rf"{TIME}  create pod p1, ready true\n +{TIME}  → IPv4 endpoints and hints of service web-1",
        {
            "pods.yaml": r"^  name: p1$",
            "decisions-a1.txt": r"no endpoint has hints\n  cluster IP: forward to p1 \(",
            "events.yaml": r"there are no events in namespace td-3|kind: Event",
        },
    ),
    ExpectedEvidence(
        "topology-keys-may-repeat",
        "KEP-536/api-refuses-a-key-that-repeats",
        rf"{TIME}  restart api-server, release .*\n +{TIME}  → answer to topologyKeys that repeat: .*201",
        {"api-requests.txt": rf"{TIME}  create service new -n td-3", "services.yaml": r"^  topologyKeys:$"},
    ),
    ExpectedEvidence(
        "dns-ignores-topology-keys",
        "KEP-536/dns-tells-of-the-clients-place",
        r"label node a1, labels .*rack",
        {
            "api-requests.txt": rf"{TIME}  patch node a1\n",
            "dns.txt": rf"pod a1 on a1: web-1\.td-3\.svc\.cluster\.local\. A: NOERROR \w+ \({ADDRESS}\)",
            "podlocators.yaml": r"^nodeName: a1$",
        },
    ),
]


@pytest.fixture
def stack(netns_allowed: None) -> Iterator[ExitStack]:
    with ExitStack() as opened, time_scaled(0.3):
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[each.mutant for each in ROWS])
def test_failure_leaves_its_evidence(row: ExpectedEvidence, stack: ExitStack, tmp_path: Path) -> None:
    history = stack.enter_context(History(tmp_path / "history.jsonl"))
    backend = stack.enter_context(NetnsBackend(implementation=reference(MUTANTS[row.mutant])))
    cluster = Cluster(backend, "td-3", history=history, test=row.requirement)
    stack.callback(cluster.close)
    scenario = SCENARIOS[row.requirement]
    with pytest.raises(AssertionError) as failed:
        scenario.test(cluster, **scenario.cases[0])
    assert re.search(row.said, str(failed.value), re.MULTILINE), failed.value

    begun = time.monotonic()
    texts = gather({"three_zones": cluster}, evidence=True).texts
    assert time.monotonic() - begun < SECONDS
    for name, fact in row.facts.items():
        assert re.search(fact, texts[name], re.MULTILINE), texts[name]
    for name, text in texts.items():
        assert text.strip(), f"{name} is empty"
        assert len(text) < LONGEST + 100, name
        assert isinstance(text, bytes) or "could not be gathered" not in text, text
    assert "first-question" not in texts["api-requests.txt"]


def verdicts(folder: Path) -> dict[str, str]:
    report = yaml.safe_load((folder / "report.yaml").read_text(encoding="utf-8"))
    return {test["id"]: test["verdict"] for test in report["tests"] if test["verdict"] != "skipped"}


@pytest.mark.slow
def test_the_command_at_the_end_of_a_failure_reproduces_it(tmp_path: Path) -> None:
    mutant, requirement = "topology-keys-of-any-syntax", "KEP-536/api-refuses-keys-that-are-no-label-names"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def shell(line: str) -> str:
        environment = {**os.environ, "PATH": path}
        ran = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        return ran.stdout

    said = shell(f"trafficdist run --mutant {mutant} --run-test '*/{requirement.partition('/')[2]}' --output-dir first")
    assert verdicts(tmp_path / "first") == {requirement: "failed"}
    explained = (tmp_path / "first/evidence" / requirement / "explanation.txt").read_text(encoding="utf-8")
    command = explained.splitlines()[-1]
    assert command in [line.strip() for line in said.splitlines()]
    assert shlex.split(command)[:4] == ["trafficdist", "run", "--run-test", requirement]

    shell(command)
    assert verdicts(tmp_path / "trafficdist-results/latest") == {requirement: "failed"}
