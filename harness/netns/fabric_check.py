"""Finds links, addresses, routes and rules of a cluster's fabric that are missing in the kernel.

Packets that a broken fabric drops look as if a proxy dropped them. A link without the flag NOARP counts as missing.
"""

from collections.abc import Collection, Mapping, Sequence

from harness.errors import DistrustError
from harness.netns import kernel_state
from harness.netns.addresses import EXTERNAL_CLIENT, GATEWAY, Family, NodeAddresses, family_of
from harness.netns.fabric import FROM_EXTERNAL, Network, link_of
from harness.netns.kernel_state import DEFAULT, Address, Item, Link, Route, RoutingRule, blackhole

_TOLD = 5  # faults to list in an error

Fabric = Mapping[str, Collection[Item]]
"""The expected or actual objects in each netns, by the name of the netns, such as "node a1" or "the fabric"."""

_LOOPBACK = (Link("lo", "up", arp=True),)


def check(network: Network) -> None:
    """Raise `DistrustError` with the missing objects if the fabric is broken."""
    plans = {name: network.plan(name) for name in network.nodes}
    wanted, there = expected(plans, network.families), seen(network)
    missing = faults(wanted, there)
    if deleted := [f"{link} of {place}" for place in wanted for link in _deleted(place, wanted[place], there[place])]:
        raise DistrustError(
            f"the network of the embedded cluster is broken: {network.deleted(', '.join(deleted[:_TOLD]))}"
        )
    if missing:
        more = [f"and {len(missing) - _TOLD} more"] if len(missing) > _TOLD else []
        raise DistrustError(f"the network of the embedded cluster is broken: {'; '.join(missing[:_TOLD] + more)}")


def _deleted(place: str, wanted: Collection[Item], there: Collection[Item]) -> list[str]:
    """Return a node's missing interfaces, but [] for other netns: both ends of a veth pair vanish together."""
    links = {each.name for each in there if isinstance(each, Link)}
    named = [each.name for each in wanted if isinstance(each, Link) and each.name not in links]
    return named if place.startswith("node ") else []


def faults(wanted: Fabric, there: Fabric) -> list[str]:
    """Return the missing objects as "PLACE has no OBJECT", in the order of `wanted`."""
    return [f"{place} has no {each}" for place, items in wanted.items() for each in items if each not in there[place]]


def expected(plans: Mapping[str, NodeAddresses], families: Sequence[Family]) -> dict[str, list[Item]]:
    hosts = {f"node {name}": {family: plan.addresses[family] for family in families} for name, plan in plans.items()}
    hosts["the external client"] = {family: EXTERNAL_CLIENT[family] for family in families}
    found = {"the fabric": _router(plans, families)} | {name: _end(each) for name, each in hosts.items()}
    for name, plan in plans.items():
        found[f"node {name}"] += [blackhole(family, plan.pod_cidrs[family]) for family in families]
    return found


def seen(network: Network) -> dict[str, set[Item]]:
    places = {"the fabric": network.fabric, "the external client": network.external.namespace}
    places |= {f"node {name}": host.namespace for name, host in network.nodes.items()}
    return {name: set(kernel_state.read(namespace)) for name, namespace in places.items()}


def _router(plans: Mapping[str, NodeAddresses], families: Sequence[Family]) -> list[Item]:
    links = {name: link_of(name, plan) for name, plan in plans.items()}
    found: list[Item] = [*_LOOPBACK, *(Link(each, "up", arp=False) for each in ["external", *links.values()])]
    for family in families:
        found += [
            RoutingRule(family, FROM_EXTERNAL, "external", f"lookup {FROM_EXTERNAL}"),
            Route(family, EXTERNAL_CLIENT[family], "external"),
            blackhole(family, DEFAULT[family]),
        ]
        for name, plan in plans.items():
            node_ip, link = plan.addresses[family], links[name]
            found += [Route(family, node_ip, link), Route(family, plan.pod_cidrs[family], link, node_ip)]
            virtual = [each for each in plan.virtual_cidrs if family_of(each) == family]
            found += [Route(family, each, link, node_ip, table=FROM_EXTERNAL) for each in virtual]
    return found


def _end(addresses: Mapping[Family, str]) -> list[Item]:
    found: list[Item] = [*_LOOPBACK, Link("eth0", "up", arp=False)]
    for family, host in addresses.items():
        found.append(Address(f"{host}/{32 if family == 'IPv4' else 128}", "eth0"))
        found.append(Route(family, DEFAULT[family], "eth0", GATEWAY[family], host))
    return found
