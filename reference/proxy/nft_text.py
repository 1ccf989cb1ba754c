"""A ruleset as nft text, in the format that `nft list` prints and `nft -f` loads."""

from collections.abc import Iterable, Iterator

from reference.proxy.balancing_chains import action_chain, chain_name, ranges_chain, ranges_name
from reference.proxy.base_rules import FAMILY_WORD, TABLE, Chain, SetSpec, fixed_chains, set_specs
from reference.proxy.changes import EndpointElement, IdentityElement, MarkElement, RangesElement
from reference.proxy.ruleset import Ruleset, ServiceAddress, marks
from reference.proxy.table import elements


def text(ruleset: Ruleset) -> str:
    """Return the table of one IP family as nft text, in a stable order."""
    lines = [f"table {FAMILY_WORD[ruleset.family]} {TABLE} {{"]
    content = _content(ruleset)
    for spec in set_specs(ruleset.family):
        lines += _set(spec, content[spec.name])
    chains = [action_chain(ruleset.family, mark) for mark in marks(ruleset)]
    chains += [ranges_chain(ruleset.family, each) for each in sorted(set(ruleset.ranges.values()))]
    for chain in (*chains, *fixed_chains(ruleset.family)):
        lines += _chain(chain)
    return "\n".join([*lines, "}", ""])


def _content(ruleset: Ruleset) -> dict[str, list[str]]:
    content: dict[str, list[str]] = {spec.name: [] for spec in set_specs(ruleset.family)}
    for element in elements(ruleset):
        match element:
            case MarkElement(name, service, mark):
                content[name].append(f"{_service_text(service)} : {mark:#010x}")
            case EndpointElement(service, slot, (address, port)):
                key = f"{_service_text(service)} . {slot:#010x}"
                content["endpoints"].append(f"{key} : {address} . {port}")
            case IdentityElement(service, slot, identity):
                content["identities"].append(f"{_service_text(service)} . {slot:#010x} : {identity:#010x}")
            case RangesElement(service, ranges):
                content["ranges"].append(f"{_service_text(service)} : goto {ranges_name(ranges)}")
    content["actions"] = [f"{each:#010x} : goto {chain_name(each)}" for each in marks(ruleset, fixed=True)]
    content["hairpin"] = [f"{each} . {each}" for each in ruleset.hairpin]
    content["pods"], content["own"] = list(ruleset.pods), list(ruleset.own)
    return {name: sorted(lines) for name, lines in content.items()}


def _service_text(service: ServiceAddress) -> str:
    return f"{service.address} . {service.protocol.lower()} . {service.port}"


def _set(spec: SetSpec, content: Iterable[str]) -> Iterator[str]:
    yield f"\t{'map' if spec.data_type is not None else 'set'} {spec.name} {{"
    yield f"\t\ttype {spec.type}"
    if spec.interval:
        yield "\t\tflags interval"
    if spec.size:
        yield f"\t\tsize {spec.size}"
        yield "\t\tflags dynamic,timeout"
    if listed := ",\n\t\t\t     ".join(content):
        yield f"\t\telements = {{ {listed} }}"
    yield "\t}\n"


def _chain(chain: Chain) -> Iterator[str]:
    yield f"\tchain {chain.name} {{"
    if hook := chain.hook:
        yield f"\t\ttype {hook.type} hook {hook.name} priority {hook.priority_word}; policy accept;"
    yield from (f"\t\t{rule.text}" for rule in chain.rules)
    yield "\t}\n"
