"""Components with one fault each in topology keys (KEP-536)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import ProxyOfAllNodes
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from mutants.wrong_decisions import DecisionInput, deciding, faults_in, without_hints
from reference.apiserver.kinds import FieldError, Strategy, errors
from reference.apiserver.kinds.services import Services
from reference.client import Object
from reference.features import Features
from reference.objects.topology_keys import ANY, Labels
from reference.proxy import ServiceProxy
from reference.proxy.decision import Behaviour, Decision, Endpoint, Forward, Reject, ServicePort
from reference.proxy.state import State

FIELD = "spec.topologyKeys"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FAILS = f"{NO_ANSWER}|{REFUSED}"

MUTANTS: list[Mutant] = []


# Decisions


_fault = faults_in(MUTANTS, about=lambda asked: bool(asked.port.topology_keys and asked.behaviour.topology_keys))


def _with_keys(asked: DecisionInput, *keys: str) -> Decision:
    return asked.answer(port=replace(asked.port, topology_keys=keys))


def _matched(asked: DecisionInput, *keys: str) -> tuple[Endpoint, ...]:
    """Return the endpoints for traffic without a `Local` policy as if the Service had these keys."""
    port = replace(asked.port, topology_keys=keys, internal_local=False)
    action = asked.answer(port=port).cluster_ip
    return action.endpoints if isinstance(action, Forward) else ()


def _sets(asked: DecisionInput) -> list[tuple[Endpoint, ...]]:
    """Return the endpoints that match each key except *. Terminating endpoints are used if none is ready."""
    keys = [each for each in asked.port.topology_keys if each != ANY]
    sets = [_matched(asked, key) for key in keys]
    ready = [tuple(each for each in found if each.ready) for found in sets]
    return ready if any(ready) or (asked.ready and ANY in asked.port.topology_keys) else sets


def _relabelled(asked: DecisionInput, change: Callable[[Labels], Labels]) -> Decision:
    """Return the decision for other labels on all nodes."""
    place = replace(asked.place, labels=change(asked.place.labels))
    return asked.answer(place=place, endpoints=[each._replace(labels=change(each.labels)) for each in asked.endpoints])


@_fault("ignores-topology-keys", "The proxy ignores topology keys.", "kube-proxy from 1.22 on")
def ignores_topology_keys(asked: DecisionInput) -> Decision:
    return _with_keys(asked)


@_fault(
    "topology-keys-are-soft",
    "If no endpoint matches any key, the proxy uses every endpoint.",
    "trafficDistribution, by design",
)
def topology_keys_are_soft(asked: DecisionInput) -> Decision:
    return _with_keys(asked, *(each for each in asked.port.topology_keys if each != ANY), ANY)


@_fault("first-topology-key-only", "The proxy uses only the first topology key.", symptom=FAILS)
def first_topology_key_only(asked: DecisionInput) -> Decision:
    return _with_keys(asked, asked.port.topology_keys[0])


@_fault(
    "reads-topology-keys-backwards",
    "The proxy tries topology keys from the last to the first, and * after all other keys.",
    symptom=REACHED,
)
def reads_topology_keys_backwards(asked: DecisionInput) -> Decision:
    keys = [each for each in reversed(asked.port.topology_keys) if each != ANY]
    return _with_keys(asked, *keys, *({ANY} & {*asked.port.topology_keys}))


@_fault("unites-topology-keys", "The proxy uses the endpoints of all keys together.")
def unites_topology_keys(asked: DecisionInput) -> Decision:
    united = tuple(dict.fromkeys(each for found in _sets(asked) for each in found))
    return asked.instead(Forward(united, "any key")) if united else asked.answer()


@_fault(
    "demands-every-topology-key",
    "The proxy uses only endpoints that match every key.",
    symptom=f"{FAILS}|never reached",
)
def demands_every_topology_key(asked: DecisionInput) -> Decision:
    sets = _sets(asked)
    if not sets:
        return asked.answer()
    common = tuple(each for each in sets[0] if all(each in found for found in sets))
    return asked.instead(Forward(common, "every key") if common else Reject("not every key"))


@_fault("star-is-a-label", "The proxy treats * as a label that no node has.", symptom=FAILS)
def star_is_a_label(asked: DecisionInput) -> Decision:
    return _with_keys(asked, *("star" if each == ANY else each for each in asked.port.topology_keys))


@_fault("star-decides-at-once", "If * is among the keys, the proxy ignores the other keys.")
def star_decides_at_once(asked: DecisionInput) -> Decision:
    return _with_keys(asked, *((ANY,) if ANY in asked.port.topology_keys else asked.port.topology_keys))


@_fault("knows-common-topology-keys-only", "The proxy ignores keys other than well-known Kubernetes labels.")
def knows_common_topology_keys_only(asked: DecisionInput) -> Decision:
    return _with_keys(asked, *(each for each in asked.port.topology_keys if "kubernetes.io/" in each or each == ANY))


@_fault(
    "topology-keys-stay-in-the-zone",
    "If the zone has usable endpoints, endpoints in other zones match no key.",
    symptom="never reached",
)
def topology_keys_stay_in_the_zone(asked: DecisionInput) -> Decision:
    zone = dict(asked.place.labels).get(ZONE)
    near = replace(asked, endpoints=[each for each in asked.endpoints if (ZONE, zone) in each.labels])
    used = _matched(near, *asked.port.topology_keys)
    return asked.instead(Forward(used, "in the zone")) if used else asked.answer()


@_fault("missing-label-is-a-place", "The proxy treats nodes without the label of a key as matching each other.")
def missing_label_is_a_place(asked: DecisionInput) -> Decision:
    def filled(labels: Labels) -> Labels:
        return labels | {(key, "") for key in asked.port.topology_keys if key not in dict(labels)}

    return _relabelled(asked, filled)


@_fault("topology-keys-match-any-label", "A key matches if the two nodes have the same value for any label.")
def topology_keys_match_any_label(asked: DecisionInput) -> Decision:
    values = {value for _, value in asked.place.labels}
    near = tuple(each for each in asked.ready if values & {value for _, value in each.labels})
    return asked.instead(Forward(near, "some label")) if near else asked.answer()


@_fault(
    "unready-endpoint-meets-a-key",
    "A topology key can match an unready endpoint, although the endpoint itself is not used.",
    symptom=FAILS,
)
def unready_endpoint_meets_a_key(asked: DecisionInput) -> Decision:
    starting = {each.address for each in asked.starting}
    counted = [each._replace(ready=each.ready or each.address in starting) for each in asked.endpoints]
    met = _matched(replace(asked, endpoints=counted), *asked.port.topology_keys)
    if not met or not (asked.ready or asked.leaving):
        return asked.answer()
    usable = tuple(each for each in met if each.address not in starting)
    return asked.instead(Forward(usable, "met") if usable else Reject("met by one that is not ready"))


@_fault("udp-ignores-topology-keys", "The proxy ignores topology keys over UDP.")
def udp_ignores_topology_keys(asked: DecisionInput) -> Decision:
    return _with_keys(asked) if asked.port.protocol == "UDP" else asked.answer()


@_fault("ipv6-ignores-topology-keys", "The proxy ignores topology keys over IPv6.")
def ipv6_ignores_topology_keys(asked: DecisionInput) -> Decision:
    return _with_keys(asked) if asked.is_ipv6 else asked.answer()


@_fault(
    "external-addresses-ignore-topology-keys",
    "Topology keys apply only at the cluster IP, not at node ports and load balancer addresses.",
)
def external_addresses_ignore_topology_keys(asked: DecisionInput) -> Decision:
    everywhere = _with_keys(asked)
    return replace(asked.answer(), outside=everywhere.outside, inside=everywhere.inside)


@_fault("hints-before-topology-keys", "Hints take precedence over topology keys.")
def hints_before_topology_keys(asked: DecisionInput) -> Decision:
    by_hints = _with_keys(asked)
    return by_hints if by_hints.mode else asked.answer()


@_fault("annotation-before-topology-keys", "The proxy ignores topology keys if the annotation requests hints.")
def annotation_before_topology_keys(asked: DecisionInput) -> Decision:
    return _with_keys(asked) if asked.port.topology_annotation in ("Auto", "auto") else asked.answer()


@_fault(
    "hints-narrow-topology-keys",
    "Hints restrict the endpoints that the topology keys select.",
    symptom="never reached",
)
def hints_narrow_topology_keys(asked: DecisionInput) -> Decision:
    left = _matched(asked, *asked.port.topology_keys)
    if not left:
        return asked.answer()
    return asked.instead(
        asked.answer(port=replace(asked.port, topology_keys=(), internal_local=False), endpoints=left).cluster_ip
    )


@_fault("topology-keys-end-policy-local", "Topology keys disable the Local policy.")
def topology_keys_end_policy_local(asked: DecisionInput) -> Decision:
    return asked.answer(port=replace(asked.port, internal_local=False, external_local=False))


# Objects that are misread or remembered

Name = tuple[str, str]
Rewrite = Callable[["_EditedKeys", Name, list[str]], list[str]]
"""Returns the keys that the proxy uses. The argument is the keys that the Service has."""


class _EditedKeys(State):
    """Modifies the keys of a Service. `known` contains the keys that were read before, the latest last."""

    def __init__(self, *arguments: Any, rewrite: Rewrite) -> None:
        super().__init__(*arguments)
        self.known: dict[Name, list[str]] = {}
        self._rewrite = rewrite

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == "services":
            name = obj["metadata"]["namespace"], obj["metadata"]["name"]
            read = self._rewrite(self, name, obj["spec"].get("topologyKeys") or [])
            self.known.pop(name, None)
            if not deleted:
                self.known[name] = read
            obj = {**obj, "spec": {**obj["spec"], "topologyKeys": read}}
        super().receive(resource, obj, deleted=deleted)


class _IgnoresOtherNodes(State):
    """Reads each Node other than its own only once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seen: set[str] = set()

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        name = obj["metadata"]["name"]
        if resource == "nodes" and name != self._node.place.node:
            if name in self._seen and not deleted:
                return
            (self._seen.discard if deleted else self._seen.add)(name)
        super().receive(resource, obj, deleted=deleted)


class _NeverUsesEarlierKeys(State):
    """Never uses a key that precedes the last used key."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, decide=deciding(self._settle))
        self._left: dict[ServicePort, tuple[str, ...]] = {}

    def _settle(self, asked: DecisionInput) -> Decision:
        if not asked.port.topology_keys:
            return asked.answer()
        left = self._left.get(asked.port, asked.port.topology_keys)
        decides = next((index for index, key in enumerate(left) if _matched(asked, key)), 0)
        self._left[asked.port] = left[decides:]
        return _with_keys(asked, *left[decides:])


def _of_the_last(state: _EditedKeys, name: Name, keys: list[str]) -> list[str]:
    return keys or next((keys for other, keys in reversed(state.known.items()) if other != name), [])


def _without_the_gate(node: str, behaviour: Behaviour) -> State:
    return State(node, replace(behaviour, topology_keys=True))


def _no_hints_with_the_gate(asked: DecisionInput) -> Decision:
    return asked.answer(endpoints=without_hints(asked.endpoints) if asked.behaviour.topology_keys else asked.endpoints)


def _proxy(
    name: str,
    sentence: str,
    state: Callable[..., State],
    *,
    symptom: str = REACHED,
    proxy: Callable[..., ServiceProxy] = ServiceProxy,
) -> None:
    MUTANTS.append(Mutant(name, sentence, symptom=symptom, proxy=partial(proxy, state=state)))


_proxy(
    "topology-keys-by-default",
    "The proxy treats a Service without topology keys as if it preferred its clients' nodes.",
    partial(_EditedKeys, rewrite=lambda state, name, keys: keys or [HOST, ANY]),
    symptom="never reached",
)
_proxy(
    "remembers-topology-keys",
    "The proxy ignores changes to a Service's topology keys.",
    partial(_EditedKeys, rewrite=lambda state, name, keys: state.known.get(name, keys)),
)
_proxy(
    "topology-keys-of-the-last-service",
    "A Service without topology keys gets the keys of the Service that was read before it.",
    partial(_EditedKeys, rewrite=_of_the_last),
    symptom=FAILS,
)
_proxy("ignores-updates-of-other-nodes", "The proxy ignores changes to other nodes' labels.", _IgnoresOtherNodes)
_proxy(
    "remembers-the-topology-key-that-decided",
    "After a later key has matched for a Service, the proxy does not try earlier keys again.",
    _NeverUsesEarlierKeys,
)
_proxy(
    "topology-keys-need-no-gate",
    "The proxy follows topology keys even if the ServiceTopology gate is off.",
    _without_the_gate,
    symptom=f"{FAILS}|never reached",
    proxy=ProxyOfAllNodes,
)
_proxy(
    "gate-of-topology-keys-ends-hints",
    "With the ServiceTopology gate on, the proxy always ignores hints.",
    partial(State, decide=deciding(_no_hints_with_the_gate)),
)


def _hints_with_the_gate(asked: DecisionInput) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, keys_alone=False))


def _policy_local_with_the_gate(asked: DecisionInput) -> Decision:
    return asked.answer(behaviour=replace(asked.behaviour, internal_policy=True))


_proxy(
    "hints-beside-the-gate-of-topology-keys",
    "With the ServiceTopology gate on, hints apply to Services without keys, even in releases that ignored hints.",
    partial(State, decide=deciding(_hints_with_the_gate)),
)
_proxy(
    "policy-local-beside-the-gate-of-topology-keys",
    "With the ServiceTopology gate on, a Local policy applies, even in releases that ignored it.",
    partial(State, decide=deciding(_policy_local_with_the_gate)),
    symptom=f"{FAILS}|never reached",
)


# API servers


def _api_fault(name: str, sentence: str) -> Callable[[type[Strategy]], type[Strategy]]:
    """Create a mutant of the validation rules of Services."""

    def register(kind: type[Strategy]) -> type[Strategy]:
        MUTANTS.append(Mutant(name, sentence, symptom=WRITTEN, kinds=lambda: (kind(),)))
        return kind

    return register


def _keys(obj: Object) -> list[str]:
    return list(obj["spec"].get("topologyKeys") or [])


def _lenient(sentence: str, name: str, forgiven: Callable[[FieldError], bool]) -> None:
    """Create a mutant that ignores this validation error in topology keys."""

    class AcceptsInvalidTopologyKeys(Services):
        def validate(self, obj: Object, features: Features) -> list[FieldError]:
            found = super().validate(obj, features)
            return [each for each in found if not each.field.startswith(FIELD) or not forgiven(each)]

    MUTANTS.append(Mutant(name, sentence, symptom=WRITTEN, kinds=lambda: (AcceptsInvalidTopologyKeys(),)))


@_api_fault("fifteen-topology-keys", "The API server refuses a Service with sixteen topology keys.")
class _RejectsSixteenKeys(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        return [*found, errors.too_many(FIELD, 16, 15)] if len(_keys(obj)) == 16 else found


_lenient(
    "The API server stores topology keys together with externalTrafficPolicy Local.",
    "topology-keys-beside-local",
    lambda error: error.type == "Forbidden",
)
_lenient(
    "The API server stores any number of topology keys.",
    "unlimited-topology-keys",
    lambda error: error.type == "TooMany",
)
_lenient(
    "The API server accepts the same topology key twice.",
    "topology-keys-may-repeat",
    lambda error: error.type == "Duplicate",
)
_lenient(
    "The API server accepts any string as a topology key.",
    "topology-keys-of-any-syntax",
    lambda error: error.type == "Invalid" and error.value != ANY,
)
_lenient(
    "The API server accepts * before other topology keys.",
    "star-anywhere",
    lambda error: error.type == "Invalid" and error.value == ANY,
)


@_api_fault("loses-topology-keys", "The API server removes topologyKeys from Services.")
class _DropsTopologyKeys(Services):
    def decode(self, obj: Object, features: Features) -> list[str]:
        (obj.get("spec") or {}).pop("topologyKeys", None)
        return super().decode(obj, features)


@_api_fault("sorts-topology-keys", "The API server stores topology keys in alphabetical order, with * last.")
class _SortsTopologyKeys(Services):
    def default(self, obj: Object) -> None:
        super().default(obj)
        if _keys(obj):
            obj["spec"]["topologyKeys"] = sorted(_keys(obj), key=lambda key: (key == ANY, key))


@_api_fault("topology-keys-are-fixed", "The API server rejects changes to topology keys on an existing Service.")
class _ImmutableTopologyKeys(Services):
    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        fixed = [errors.invalid(FIELD, _keys(new), "field is immutable")] if _keys(new) != _keys(old) else []
        return super().validate_update(new, old, features) + fixed


@_api_fault(
    "topology-keys-exclude-everything", "The API server rejects topology keys together with any other routing field."
)
class _RejectsKeysWithOtherFields(Services):
    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        spec = obj["spec"]
        other = spec.get("trafficDistribution") or spec.get("internalTrafficPolicy") == "Local"
        refused = [errors.forbidden(FIELD, "not beside other fields")] if _keys(obj) and other else []
        return super().validate(obj, features) + refused


@_api_fault("stores-topology-keys-without-the-gate", "The API server stores topology keys even if their gate is off.")
class _StoresTopologyKeysWithoutTheGate(Services):
    def prepare_for_create(self, obj: Object, features: Features) -> None:
        keys = _keys(obj)
        super().prepare_for_create(obj, features)
        if keys:
            obj["spec"]["topologyKeys"] = keys


@_api_fault("drops-stored-topology-keys", "With the gate off, the API server drops stored topology keys from Services.")
class _DropsStoredTopologyKeys(Services):
    def prepare_for_update(self, new: Object, old: Object, features: Features) -> None:
        super().prepare_for_update(new, old, features)
        if not features.enabled("ServiceTopology"):
            new["spec"].pop("topologyKeys", None)
