import pytest
from mutants import BENIGN
from tests.conformance.variants import claimed, is_late
from tests.conformance.conftest import trial

SOME = [
    n
    for n in BENIGN
    if n
    in (
        "takes-turns",
        "hashes-the-source",
        "translates-inside-too",
        "slow",
        "rebuilds",
        "beside-others",
        "backwards",
        "refuses-by-host-unreachable",
        "weighted",
        "keeps-flows",
        "node-ports-on-one-address",
        "drops-what-no-service-has",
        "refuses-what-no-service-has",
        "a-chain-for-each",
        "follows-hints-where-asked",
        "hard-affinity-timeout",
        "hears-in-batches",
        "hears-everything-again",
        "proxy-hears-of-services-0-1-s-late",
        "proxy-hears-of-endpointslices-0-1-s-late",
        "one-slice-a-port",
        "one-endpoint-a-slice",
        "merging",
        "nil-conditions",
        "admits-with-additions",
        "versions-jump",
        "fields-backwards",
        "lists-backwards",
        "off-then-on",
        "shuffles",
        "other-words",
    )
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SOME)
def test_benign(name, trial):
    v = BENIGN[name]
    t = trial(v)
    mine = [e for e in claimed(v, "kep") if e.startswith("CHANGES/")]
    failures = {e: text[:600] for e in mine if (text := t.failure(e))}
    assert failures.keys() == v.unmet.intersection(mine), failures
