"""The names that `trafficdist` offers, each with the module that it comes from."""

from __future__ import annotations

from harness.api.client import MERGE_PATCH, Response, path_of
from harness.backends.protocols import Probing, ServesDns
from harness.errors import IneligibleError, UsageError
from harness.judging.statistics import Rates
from harness.model import manifests, strict_yaml
from harness.model.generation import Generation
from harness.model.manifests import TCP, UDP, Endpoint, Hints, Port
from harness.model.outcomes import REFUSED, TIMED_OUT
from harness.model.release import (
    API_SERVER,
    CONTROLLER,
    DNS_SERVER,
    LOCATOR_CONTROLLER,
    PROXY,
    Component,
    Release,
    release,
)
from harness.model.requirements import MAY, MUST, SHOULD, Feature, Profile, requirement
from harness.model.topology import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL
from harness.model.workloads import Client, Pod, external_client, node_client, pod_client
from harness.scenario.addresses import set_addresses
from harness.scenario.affinity import SPREAD, expect_all_seen, expect_forgotten, expect_kept, who_answers, who_moved
from harness.scenario.becoming import (
    conditions_of,
    controller_metrics,
    expect_becomes,
    expect_condition,
    expect_http_answer,
    expect_running,
    proxy_metrics,
    warnings_about,
)
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import (
    addresses_of,
    ask_dns,
    dns_name_of,
    expect_dns_answer,
    expect_locators,
    expect_told,
    locator_of,
)
from harness.scenario.hints import (
    expect_conditions,
    expect_enough,
    expect_hints,
    expect_shared_out,
    expect_unchanged,
    expect_writes,
    written_endpoints,
)
from harness.scenario.load import expect_no_overload
from harness.scenario.paths import Who
from harness.scenario.reads import expect_no_more_reads
from harness.scenario.refusals import create_unwritable_pod, why_no_sync_failed
from harness.scenario.resolvers import resolvers
from harness.scenario.service import AddressKind, Service, at_port, endpoint, placeless, same_node, same_zone
from harness.scenario.shares import expect_all_under_load, expect_any_under_load, expect_even_shares
from harness.scenario.together import Question, expect_first_answers_together, expect_meanwhile, expect_together
from harness.scenario.traffic import (
    NO_ANSWER,
    Expected,
    Traffic,
    expect_client_address,
    expect_flow_answered,
    expect_flow_moves,
    expect_flow_survives,
    expect_prompt_change,
    expect_traffic,
)
from harness.scenario.transitions import expect_no_loss

__all__ = [
    "API_SERVER",
    "CONTROLLER",
    "DNS_SERVER",
    "HOSTNAME_LABEL",
    "LOCATOR_CONTROLLER",
    "MAY",
    "MERGE_PATCH",
    "MUST",
    "NO_ANSWER",
    "PROXY",
    "REFUSED",
    "REGION_LABEL",
    "SHOULD",
    "SPREAD",
    "TCP",
    "TIMED_OUT",
    "UDP",
    "ZONE_LABEL",
    "AddressKind",
    "Client",
    "Cluster",
    "Component",
    "Endpoint",
    "Expected",
    "Feature",
    "Generation",
    "Hints",
    "IneligibleError",
    "Pod",
    "Port",
    "Probing",
    "Profile",
    "Question",
    "Rates",
    "Release",
    "Response",
    "ServesDns",
    "Service",
    "Traffic",
    "UsageError",
    "Who",
    "addresses_of",
    "ask_dns",
    "at_port",
    "conditions_of",
    "controller_metrics",
    "create_unwritable_pod",
    "dns_name_of",
    "endpoint",
    "expect_all_seen",
    "expect_all_under_load",
    "expect_any_under_load",
    "expect_becomes",
    "expect_client_address",
    "expect_condition",
    "expect_conditions",
    "expect_dns_answer",
    "expect_enough",
    "expect_even_shares",
    "expect_first_answers_together",
    "expect_flow_answered",
    "expect_flow_moves",
    "expect_flow_survives",
    "expect_forgotten",
    "expect_hints",
    "expect_http_answer",
    "expect_kept",
    "expect_locators",
    "expect_meanwhile",
    "expect_no_loss",
    "expect_no_more_reads",
    "expect_no_overload",
    "expect_prompt_change",
    "expect_running",
    "expect_shared_out",
    "expect_together",
    "expect_told",
    "expect_traffic",
    "expect_unchanged",
    "expect_writes",
    "external_client",
    "locator_of",
    "manifests",
    "node_client",
    "path_of",
    "placeless",
    "pod_client",
    "proxy_metrics",
    "release",
    "requirement",
    "resolvers",
    "same_node",
    "same_zone",
    "set_addresses",
    "strict_yaml",
    "warnings_about",
    "who_answers",
    "who_moved",
    "why_no_sync_failed",
    "written_endpoints",
]
