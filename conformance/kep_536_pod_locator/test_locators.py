"""KEP-536, New PodLocator resource and New PodLocator controller: objects that record the node of each pod."""

from __future__ import annotations

from conformance.features import POD_LOCATORS
from trafficdist import (
    HOSTNAME_LABEL,
    LOCATOR_CONTROLLER,
    MUST,
    SHOULD,
    ZONE_LABEL,
    Cluster,
    Probing,
    ServesDns,
    expect_eventually,
    expect_locators,
    expect_running,
    locator_of,
    manifests,
    requirement,
)

CONTROLLER = "KEP-536, New PodLocator controller"
RESOURCE = "KEP-536, New PodLocator resource"


@requirement(
    "KEP-536/locator-comes-and-goes-with-its-pod",
    "Each pod has a PodLocator with the same namespace and name from the pod's creation to its deletion; a controller "
    "that was down catches up with pods that were created or deleted in the meantime.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{RESOURCE} (1:1 with Pod namespace and name); {CONTROLLER} (added, deleted)",
    kills={"locator-is-never-deleted", "locator-has-another-name", "locator-of-new-pods-alone"},
)
def test_locator_comes_and_goes_with_its_pod(three_zones: Cluster) -> None:
    expect_locators(three_zones, {})
    a1, b1 = three_zones.run_servers(on=["a1", "b1"])
    expect_locators(three_zones, {"a1": {"nodeName": "a1"}, "b1": {"nodeName": "b1"}})

    three_zones.delete_pod(a1)
    expect_locators(three_zones, {"b1": {"nodeName": b1.node}})

    three_zones.stop(LOCATOR_CONTROLLER)
    three_zones.delete_pod(b1)
    three_zones.run_servers(on=["c1"])
    three_zones.restart(LOCATOR_CONTROLLER)
    expect_locators(three_zones, {"c1": {"nodeName": "c1"}})


@requirement(
    "KEP-536/locator-says-where-a-pod-is",
    "A PodLocator has all addresses of its pod, the name of the pod's node, and all labels of that node.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{RESOURCE} (copy all node labels); {CONTROLLER} (populate)",
    kills={"locator-has-one-address", "locator-has-known-labels-only"},
)
def test_locator_says_where_a_pod_is(three_zones: Cluster) -> None:
    three_zones.nodes.label("a1", {"example.com/rack": "1", "example.com/power": ""})
    (a1,) = three_zones.run_servers(on=["a1"])

    labels = three_zones.api.get("nodes", "", "a1")["metadata"]["labels"]
    said = {"ips": sorted(a1.addresses.values()), "nodeName": "a1", "nodeLabels": labels}
    expect_locators(three_zones, {"a1": said})


@requirement(
    "KEP-536/locator-learns-of-the-node-of-its-pod",
    "The PodLocator of an unscheduled pod names no node; when the pod is scheduled, the PodLocator gets the node's "
    "name and labels.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{CONTROLLER} (check if IPs or Spec.NodeName are changed)",
    kills={"locator-misses-the-binding"},
)
def test_locator_of_a_pod_that_is_bound_later(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    pod = manifests.pod("web", "")
    del pod["spec"]["nodeName"]
    three_zones.api.create("pods", three_zones.namespace, pod)
    expect_locators(three_zones, {"web": {"ips": [], "nodeName": "", "nodeLabels": {}}})

    three_zones.api.patch("pods", three_zones.namespace, "web", {"spec": {"nodeName": "x1"}})  # as a scheduler would
    bound = {"nodeName": "x1", "nodeLabels": {HOSTNAME_LABEL: "x1", ZONE_LABEL: "x"}}
    expect_locators(three_zones, {"web": {"ips": [], **bound}})


@requirement(
    "KEP-536/locator-that-contradicts-its-node-is-put-right",
    "When another client writes a different node name or different labels to a PodLocator, the controller restores the "
    "correct values, no later than the next change to the pod's node.",
    level=SHOULD,  # no KEP covers other clients that write PodLocators
    features={POD_LOCATORS},
    source=f"{CONTROLLER} (update all the PodLocators whose corresponding Pods are running on it)",
    kills={"locator-believes-what-it-says"},
)
def test_locator_that_contradicts_its_node_is_put_right(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    three_zones.create_pod("web", "x1")
    labels = {HOSTNAME_LABEL: "x1", ZONE_LABEL: "x"}
    expect_locators(three_zones, {"web": {"nodeName": "x1", "nodeLabels": labels}})

    elsewhere = {"nodeName": "a1", "nodeLabels": {ZONE_LABEL: "a", "example.com/rack": "1"}}
    three_zones.settle()
    three_zones.api.patch("podlocators", three_zones.namespace, "web", elsewhere)
    three_zones.nodes.label("x1", {ZONE_LABEL: "y"})
    expect_locators(three_zones, {"web": {"nodeName": "x1", "nodeLabels": {**labels, ZONE_LABEL: "y"}}})


@requirement(
    "KEP-536/locator-follows-addresses",
    "When a pod's addresses change, its PodLocator gets the new addresses.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{CONTROLLER} (when a Pod is updated)",
    kills={"locator-is-written-once", "locator-misses-a-second-address"},
)
def test_locator_follows_addresses(three_zones: Cluster) -> None:
    three_zones.backend.part(ServesDns).dns()
    three_zones.create_pod("web", "a1")
    first = three_zones.api.get("pods", three_zones.namespace, "web")["status"]["podIPs"]
    expect_locators(three_zones, {"web": {"ips": sorted(each["ip"] for each in first)}})

    ips = three_zones.backend.part(Probing).free_addresses()
    for known in (list(ips.values())[:1], list(ips.values())):  # the status may first have only one address
        status = {"podIP": known[0], "podIPs": [{"ip": each} for each in known]}
        three_zones.api.patch("pods", three_zones.namespace, "web", {"status": status}, subresource="status")
        expect_locators(three_zones, {"web": {"ips": sorted(known)}})


@requirement(
    "KEP-536/locator-follows-node-labels",
    "When a node's labels change, the labels change in the PodLocators of all its pods, and in no others.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{CONTROLLER} (when a Node is updated)",
    kills={"locator-keeps-the-first-labels", "locator-loses-no-label"},
    fixes={"labels=empty": "the scenario compares labels"},
)
def test_locator_follows_node_labels(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    three_zones.nodes.create("y1", "y")
    for name, node in (("one", "x1"), ("two", "x1"), ("three", "y1")):
        three_zones.create_pod(name, node)
    x1, y1 = ({"nodeLabels": {HOSTNAME_LABEL: f"{zone}1", ZONE_LABEL: zone}} for zone in "xy")
    expect_locators(three_zones, {"one": x1, "two": x1, "three": y1})

    three_zones.nodes.label("x1", {"example.com/rack": "1", ZONE_LABEL: None})
    moved = {"nodeLabels": {HOSTNAME_LABEL: "x1", "example.com/rack": "1"}}
    expect_locators(three_zones, {"one": moved, "two": moved, "three": y1})


@requirement(
    "KEP-536/deleted-node-leaves-locators-without-place",
    "When a node is deleted, the PodLocators of its pods lose the node name and labels, and keep their addresses.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{CONTROLLER} (when a Node is deleted)",
    kills={"locator-keeps-a-deleted-node"},
)
def test_deleted_node_leaves_locators_without_place(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    three_zones.create_pod("web", "x1")
    pod = three_zones.api.get("pods", three_zones.namespace, "web")
    ips = sorted(each["ip"] for each in pod["status"]["podIPs"])
    labels = {HOSTNAME_LABEL: "x1", ZONE_LABEL: "x"}
    expect_locators(three_zones, {"web": {"ips": ips, "nodeName": "x1", "nodeLabels": labels}})

    three_zones.nodes.delete("x1")
    expect_locators(three_zones, {"web": {"ips": ips, "nodeName": "", "nodeLabels": {}}})


@requirement(
    "KEP-536/locator-is-written-only-for-another-place",
    "A PodLocator is written only when its pod's addresses, its pod's node, or that node's labels change, and not on "
    "other changes to pods or nodes.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{RESOURCE} (relatively low-churn); {CONTROLLER} (otherwise will ignore this change)",
    kills={"locator-is-written-for-every-event"},
)
def test_locator_is_written_only_for_another_place(three_zones: Cluster) -> None:
    three_zones.nodes.create("x1", "x")
    three_zones.create_pod("web", "x1")
    expect_locators(three_zones, {"web": {"nodeName": "x1"}})
    three_zones.settle()
    before = locator_of(three_zones, "web")

    three_zones.set_ready("web", False)
    three_zones.api.patch("pods", three_zones.namespace, "web", {"metadata": {"labels": {"app": "web"}}})
    three_zones.nodes.report("x1", cpu_milli=1000)
    three_zones.create_pod("later", "x1")
    expect_locators(three_zones, {"web": {"nodeName": "x1"}, "later": {"nodeName": "x1"}})

    # If the locator of the later pod exists, the controller has processed all earlier events.
    now = locator_of(three_zones, "web")
    three_zones.expect_equal("PodLocator of pod web", expected=before, observed=now)


@requirement(
    "KEP-536/locator-controller-keeps-running",
    "A PodLocator controller keeps running and reconciling, whatever pods, nodes and PodLocators the API server stores "
    "in this and all other scenarios of the run.",
    level=MUST,
    features={POD_LOCATORS},
    source=f"{RESOURCE} (1:1 with Pod); {CONTROLLER} (populate)",
    kills={"locator-controller-crashes-on-strange-nodes", "locator-controller-hangs-on-strange-nodes"},
    last=True,
)
def test_locator_controller_keeps_running(three_zones: Cluster) -> None:
    """Create pods in any phase or without a Node, nodes without labels, and PodLocators without pods or fields."""
    three_zones.backend.part(ServesDns).dns()
    with expect_running(three_zones, LOCATOR_CONTROLLER):
        for phase in ("Pending", "Succeeded", "Failed", "Unknown"):
            three_zones.create_pod(f"odd-{phase.lower()}", "a1", phase=phase)
        three_zones.create_pod("odd-nowhere", "", phase="Pending", ready=False)
        three_zones.create_pod("odd-strange", "nobody")
        three_zones.api.create("podlocators", three_zones.namespace, {"metadata": {"name": "of-nobody"}})
        three_zones.nodes.create("x1", "")
        three_zones.create_pod("web", "x1")
        expect_eventually(
            three_zones,
            "node of the PodLocator of pod web",
            lambda: (locator_of(three_zones, "web") or {}).get("nodeName"),
            expected="x1",
        )
