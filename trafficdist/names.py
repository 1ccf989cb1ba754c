"""The public names of `trafficdist`: every name that this module imports."""

from harness.api.client import MERGE_PATCH, Response, path_of
from harness.backends.protocols import ClientNetns, Probing, ServesDns
from harness.errors import IneligibleError, UsageError
from harness.judging.statistics import Rates
from harness.judging.verdict import NO_ANSWER
from harness.model import manifests, strict_yaml
from harness.model.abilities import Ability
from harness.model.generation_settings import GenerationSettings
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
from harness.scenario.affinity import (
    SPREAD,
    answering_pods,
    clients_that_moved,
    expect_affinity,
    expect_affinity_expires,
    expect_all_seen,
)
from harness.scenario.cluster import Cluster, set_addresses
from harness.scenario.concurrent_traffic import (
    ExpectedTraffic,
    expect_concurrent_first_answers,
    expect_concurrent_traffic,
    expect_traffic_during,
)
from harness.scenario.convergence import recheck
from harness.scenario.dns_answers import (
    addresses_of,
    ask_dns,
    dns_name_of,
    expect_dns_answer,
    expect_dns_pods,
    expect_locators,
    locator_of,
    resolvers,
)
from harness.scenario.eventual_state import (
    conditions_of,
    controller_metrics,
    expect_condition,
    expect_eventually,
    expect_http_answer,
    expect_no_more_reads,
    expect_running,
    proxy_metrics,
    reads_after_restart,
    warnings_about,
)
from harness.scenario.hints import (
    create_unwritable_pod,
    evidence_of_successful_sync,
    expect_conditions,
    expect_hint_counts,
    expect_hints,
    expect_min_hint_counts,
    expect_unchanged,
    expect_writes,
    written_endpoints,
)
from harness.scenario.service import AddressKind, Service, at_port, endpoint, placeless, same_node, same_zone
from harness.scenario.service_address import ClientRef, Expected, Traffic
from harness.scenario.traffic import (
    expect_all_under_load,
    expect_any_under_load,
    expect_client_address,
    expect_even_shares,
    expect_no_overload,
    expect_prompt_change,
    expect_traffic,
)
from harness.scenario.transitions import expect_flow_answered, expect_flow_moves, expect_flow_survives, expect_no_loss
from harness.variation.covering import RowBuilder
