"""Tests that a packet path lists its missing parts, each with a way to provide it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from harness.api.client import Api, Object, RefusedError, Response
from harness.backends.any_cluster.node_evidence import ProxyLog, missing, proxy_logs
from harness.errors import InconclusiveError
from harness.netns.namespace import Namespace
from harness.probes.loop import Probe

LOG = "I1123 08:00:00.000000       1 proxier.go:1] it syncs\n"


def api(pods: Callable[[], list[Object]], text: str) -> Api:
    """An API server that answers only two requests: the list of proxy pods and a log."""

    class FakeApi:
        def list(self, resource: str, namespace: str, *, label_selector: str) -> list[Object]:
            assert (resource, namespace, label_selector) == ("pods", "kube-system", "k8s-app=kube-proxy")
            return pods()

        def text(self, path: str) -> str:
            assert path.startswith("/api/v1/namespaces/kube-system/pods/kube-proxy-x/log?tailLines=")
            return text

    return cast("Api", FakeApi())


def on(node: str) -> list[Object]:
    return [
        {"metadata": {"name": "kube-proxy-pending"}, "spec": {}},
        {"metadata": {"name": "kube-proxy-x"}, "spec": {"nodeName": node}},
    ]


def raises(error: Exception) -> Callable[[], Any]:
    def ask() -> Any:
        raise error

    return ask


def test_kube_proxy_log_is_read_where_permitted() -> None:
    assert proxy_logs(api(lambda: on("a1"), LOG), ["a1"]) == {"a1": ProxyLog(LOG)}


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        (lambda: on("b1"), "no pod in kube-system with label k8s-app=kube-proxy is on its node"),
        (lambda: on("a1"), "the run needs `get` of pods/log in namespace kube-system"),
        (raises(RefusedError("GET", "/pods", Response(403, {"message": "forbidden"}))), "GET /pods: 403 forbidden"),
        (raises(InconclusiveError("no answer")), "no answer"),
    ],
)
def test_unreadable_log_has_a_reason(pods: Callable[[], list[Object]], why: str) -> None:
    assert proxy_logs(api(pods, ""), ["a1"]) == {"a1": ProxyLog(missing=why)}


def test_missing_parts_are_named_with_their_fix() -> None:
    probe = Probe(cast("Namespace", None), "UDP", "10.0.0.4", 30000)
    trace, entry, node, ends = missing(probe, "worker-1", "`docker exec worker-1`", ProxyLog(LOG))
    for each in (trace, entry, node):
        assert "on node worker-1, as root (`docker exec worker-1`)" in each
    assert "nft monitor trace" in trace
    assert "`conntrack -L -d 10.0.0.4 -p udp --dport 30000`" in entry
    assert "`tcpdump -ni any host 10.0.0.4 and port 30000`" in node
    assert "pods/ephemeralcontainers" in ends
    *_, log = missing(probe, "worker-1", "", ProxyLog(missing="forbidden"))
    assert log == "the log of its proxy: forbidden"
