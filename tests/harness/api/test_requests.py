"""Tests that a scenario's recorded API requests are shown as kubectl commands, and other requests are left out."""

from __future__ import annotations

import pytest

from harness.api.requests import MOST_LINES, ApiRequest, as_text

SLICES = "/apis/discovery.k8s.io/v1/namespaces/td-3/endpointslices"


def lines(*asked: ApiRequest) -> list[str]:
    return as_text(asked, "td-3", zero=100.0).splitlines()[3:]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ApiRequest(101.645, "POST", SLICES, 201, name="web-1"), "+1,645 ms  create endpointslice web-1 -n td-3"),
        (ApiRequest(100.0, "PATCH", "/api/v1/namespaces/td-3/services/web", 200), "+0 ms  patch service web -n td-3"),
        (ApiRequest(100.0, "POST", "/api/v1/namespaces", 201, name="td-3"), "+0 ms  create namespace td-3"),
        (ApiRequest(100.0, "PATCH", "/api/v1/nodes/a1", 200), "+0 ms  patch node a1"),
        (
            ApiRequest(100.0, "PATCH", "/api/v1/namespaces/td-3/pods/a1/status", 200),
            "+0 ms  patch pod a1 -n td-3 --subresource=status",
        ),
        (ApiRequest(100.0, "POST", "/api/v1/namespaces/td-3/pods/a1/eviction", 201), "+0 ms  evict pod a1 -n td-3"),
        (
            ApiRequest(100.0, "DELETE", "/api/v1/namespaces/td-3/pods/a1", 200, query="gracePeriodSeconds=0"),
            "+0 ms  delete pod a1 -n td-3 --grace-period=0",
        ),
        (
            ApiRequest(100.0, "GET", SLICES, 200, query="labelSelector=kubernetes.io%2Fservice-name%3Dweb"),
            "+0 ms  get endpointslices -n td-3 -l kubernetes.io/service-name=web",
        ),
        (
            ApiRequest(100.0, "POST", "/api/v1/namespaces/td-3/services", 422, name="zone"),
            "+0 ms  create service zone -n td-3 → 422 Unprocessable Entity",
        ),
        (ApiRequest(100.0, "PUT", f"{SLICES}/web-1", 0), "+0 ms  replace endpointslice web-1 -n td-3 → no answer"),
        (
            ApiRequest(100.0, "PUT", f"{SLICES}/web-1", 200, by="kube-controller-manager/v1.34"),
            "+0 ms  replace endpointslice web-1 -n td-3 by kube-controller-manager/v1.34",
        ),
    ],
)
def test_scenario_request_is_shown_as_a_kubectl_command(asked: ApiRequest, said: str) -> None:
    assert [line.strip() for line in lines(asked)] == [said]


@pytest.mark.parametrize(
    "asked",
    [
        ApiRequest(99.9, "POST", SLICES, 201, name="before it began"),
        ApiRequest(100.0, "POST", "/api/v1/namespaces/td-4/services", 201, name="web"),
        ApiRequest(100.0, "POST", "/api/v1/namespaces", 201, name="td-4"),
        ApiRequest(100.0, "GET", "/api/v1/nodes", 200),
        ApiRequest(100.0, "GET", SLICES, 200, query="watch=true"),
        ApiRequest(
            100.0, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a1", 200, by="kubelet"
        ),
        ApiRequest(100.0, "PATCH", "/api/v1/nodes/a1/status", 200, by="kubelet"),
        ApiRequest(100.0, "GET", "/version", 200),
    ],
)
def test_requests_of_others_are_left_out(asked: ApiRequest) -> None:
    assert lines(asked) == ["none"]


def test_requests_are_in_order_and_equal_ones_share_a_line() -> None:
    polls = [ApiRequest(100 + number / 10, "GET", SLICES, 200) for number in range(3)]
    assert lines(ApiRequest(100.5, "DELETE", f"{SLICES}/web-1", 200), *polls) == [
        "       +0 ms  get endpointslices -n td-3  (3 times, the last at +200 ms)",
        "     +500 ms  delete endpointslice web-1 -n td-3",
    ]


def test_long_lists_show_the_first_and_last_requests() -> None:
    said = lines(*(ApiRequest(100 + n, "POST", SLICES, 201, name=f"web-{n}") for n in range(5000)))
    assert (len(said), said[MOST_LINES // 2]) == (MOST_LINES + 1, "… 4000 more lines omitted …")
    assert "web-0 " in said[0]
    assert "web-4999 " in said[-1]


@pytest.mark.parametrize(
    ("method", "path", "query", "read"),
    [
        ("GET", "/api/v1/nodes/a1", "", "get nodes"),
        ("GET", "/api/v1/nodes", "limit=500&resourceVersion=0", "list nodes"),
        ("GET", SLICES, "allowWatchBookmarks=true&watch=true", "watch endpointslices"),
        ("GET", "/api/v1/nodes", "fieldSelector=metadata.name%3Da1&limit=500", "list nodes by name"),
        ("GET", "/api/v1/nodes", "fieldSelector=metadata.name=a1&watch=true", "watch nodes by name"),
        ("GET", "/api/v1/nodes", "fieldSelector=&watch=true", "watch nodes"),
        ("PUT", "/api/v1/nodes/a1", "", ""),
        ("GET", "/metrics", "", ""),
    ],
)
def test_reads_are_shown_by_verb_and_resource(method: str, path: str, query: str, read: str) -> None:
    assert ApiRequest(100.0, method, path, 200, query=query).read == read
