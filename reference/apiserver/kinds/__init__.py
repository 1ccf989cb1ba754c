"""The strategies of all kinds that the KEPs use. A strategy contains the rules of a kind, such as its validation."""

from collections.abc import Sequence

from reference.apiserver.kinds.config_maps import ConfigMaps, Secrets
from reference.apiserver.kinds.custom_resource_definitions import CustomResourceDefinitions
from reference.apiserver.kinds.endpointslices import EndpointSlices
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.events import Events
from reference.apiserver.kinds.leases import Leases
from reference.apiserver.kinds.namespaces import Namespaces
from reference.apiserver.kinds.nodes import Nodes
from reference.apiserver.kinds.pod_locators import PodLocators
from reference.apiserver.kinds.pods import Pods
from reference.apiserver.kinds.service_cidrs import ServiceCIDRs
from reference.apiserver.kinds.services import Services
from reference.apiserver.kinds.strategy import Allocations, OtherVersion, Resource, Scale, Strategy

__all__ = ["Allocations", "FieldError", "OtherVersion", "Resource", "Scale", "Strategy", "strategies"]


def strategies(*, service_families: Sequence[str] = ("IPv4", "IPv6")) -> tuple[Strategy, ...]:
    """Return all strategies. `service_families` are the IP families of the Service CIDRs, the default first."""
    return (
        Namespaces(),
        Nodes(),
        Pods(),
        Services(service_families),
        EndpointSlices(),
        Events(),
        Leases(),
        ServiceCIDRs(),
        ConfigMaps(),
        Secrets(),
        PodLocators(),
        CustomResourceDefinitions(),
    )
