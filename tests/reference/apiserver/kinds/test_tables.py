"""The table columns of `kubectl get`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reference.apiserver.kinds import columns, strategies


def row(rules, plural, obj):
    """Return the cells by column name, without the age, which depends on the clock."""
    obj = {"spec": {}, "status": {}, **obj}
    return {each.name: each.cell(obj) for each in rules.by_plural[plural].table if each.name != "Age"}


HEADS = {
    "namespaces": "Name Status Age",
    "nodes": "Name Status Roles Age Version | Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
    "pods": "Name Ready Status Restarts Age | IP Node Nominated_Node Readiness_Gates",
    "services": "Name Type Cluster-IP External-IP Port(s) Age | Selector",
    "endpointslices": "Name AddressType Ports Endpoints Age",
    "events": "Last_Seen Type Reason Object Message | Subobject Source First_Seen Count Name",
    "leases": "Name Holder Age",
    "servicecidrs": "Name CIDRs Age",
    "configmaps": "Name Data Age",
    "secrets": "Name Type Data Age",
    "podlocators": "Name Node IPs Age",
    "customresourcedefinitions": "Name Created_At",
}


@pytest.mark.parametrize("strategy", strategies(), ids=lambda each: each.resource.plural)
def test_columns_are_those_of_kubectl(strategy):
    narrow, _, wide = HEADS[strategy.resource.plural].partition(" | ")
    found = [(each.name.replace(" ", "_"), each.priority) for each in strategy.table]
    assert [name for name, priority in found if not priority] == narrow.split()
    assert [name for name, priority in found if priority] == wide.split()


SERVICES = [
    ({"clusterIPs": ["10.96.0.1"]}, {}, {"Cluster-IP": "10.96.0.1", "External-IP": "<none>"}),
    ({"clusterIPs": ["None"]}, {}, {"Cluster-IP": "None"}),
    ({"type": "LoadBalancer"}, {}, {"External-IP": "<pending>"}),
    ({"type": "LoadBalancer"}, {"ingress": [{"ip": "198.18.1.1"}]}, {"External-IP": "198.18.1.1"}),
    (
        {"type": "LoadBalancer", "externalIPs": ["198.19.1.1"]},
        {"ingress": [{"hostname": "lb"}]},
        {"External-IP": "lb,198.19.1.1"},
    ),
    (
        {"type": "ExternalName", "externalName": "a.b", "ports": None},
        {},
        {"External-IP": "a.b", "Cluster-IP": "<none>"},
    ),
    (
        {"ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
        {},
        {"Port(s)": "80:30080/TCP,53/UDP"},
    ),
    ({"selector": {"b": "2", "a": "1"}}, {}, {"Selector": "a=1,b=2"}),
    ({"selector": None}, {}, {"Selector": "<none>"}),
]


@pytest.mark.parametrize(("spec", "balancer", "wanted"), SERVICES)
def test_service_row_has_the_columns_of_kubectl(rules, service, spec, balancer, wanted):
    obj = {**service(**spec), "status": {"loadBalancer": balancer}}
    assert wanted.items() <= row(rules, "services", obj).items()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "<unset>"), (3, "10.0.0.1,10.0.0.2,10.0.0.3"), (5, "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more...")],
)
def test_slice_row_shows_three_endpoints(rules, slice_of, endpoint, count, shown):
    obj = slice_of(*(endpoint(addresses=[f"10.0.0.{n + 1}"]) for n in range(count)))
    assert row(rules, "endpointslices", obj)["Endpoints"] == shown


def pod_row(rules, pod, state, **meta):
    obj = pod(nodeName="a1")
    obj["metadata"].update(meta)
    return row(rules, "pods", {**obj, "status": state})


def test_running_pod_row(rules, pod):
    state = {"phase": "Running", "podIPs": [{"ip": "10.244.1.5"}], "containerStatuses": [{"ready": True}]}
    shown = pod_row(rules, pod, state)
    assert shown == {
        "Name": "web-1",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "0",
        "IP": "10.244.1.5",
        "Node": "a1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


@pytest.mark.parametrize(
    ("container", "shown"),
    [
        ({"waiting": {"reason": "ImagePullBackOff"}}, "ImagePullBackOff"),
        ({"terminated": {"exitCode": 3}}, "ExitCode:3"),
        ({"terminated": {"signal": 9}}, "Signal:9"),
        ({"terminated": {"reason": "Completed"}}, "Completed"),
        ({"running": {}}, "Running"),
    ],
)
def test_pod_row_shows_why_a_container_waits_or_ended(rules, pod, container, shown):
    state = {"phase": "Running", "containerStatuses": [{"state": container}]}
    assert pod_row(rules, pod, state)["Status"] == shown


def test_pod_that_is_being_deleted_is_terminating(rules, pod):
    assert (
        pod_row(rules, pod, {"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z")["Status"] == "Terminating"
    )


@pytest.mark.parametrize(
    ("ready", "shown"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "NotReady"), (None, "Unknown")]
)
def test_node_row_shows_readiness(rules, node, ready, shown):
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    assert row(rules, "nodes", node(status={"conditions": conditions}))["Status"] == shown


def test_node_row_shows_cordon_roles_and_addresses(rules, node):
    labels = {
        "node-role.kubernetes.io/control-plane": "",
        "node-role.kubernetes.io/": "",
        "kubernetes.io/role": "extra",
    }
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    shown = row(rules, "nodes", node(status={"addresses": addresses}, labels=labels, unschedulable=True))
    assert shown["Status"] == "Unknown,SchedulingDisabled"
    assert shown["Roles"] == "control-plane,extra"
    assert (shown["Internal-IP"], shown["External-IP"], shown["OS-Image"]) == ("10.0.0.1", "<none>", "<unknown>")


def test_event_row_has_the_columns_of_kubectl(rules):
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": {"kind": "Service", "name": "web"},
        "reason": "Because",
        "type": "Normal",
        "message": " text\n",
        "source": {"component": "controller", "host": "a1"},
        "series": {"count": 7},
    }
    shown = row(rules, "events", event)
    assert (shown["Object"], shown["Message"], shown["Source"]) == ("service/web", "text", "controller, a1")
    assert (shown["Count"], shown["Last Seen"]) == (7, "<unknown>")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_are_shortened_as_kubectl_does(seconds, shown):
    assert columns.human_duration(seconds) == shown


def test_age_counts_from_a_timestamp():
    now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    assert columns.age("2026-01-01T00:00:00Z", now=now) == "5m"
    assert columns.age(None) == "<unknown>"
