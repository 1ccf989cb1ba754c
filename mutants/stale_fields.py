"""Proxies that never update a field, or never accept an earlier value of a field again.

Such a proxy passes every test that does not change its Services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mutants import dropped_updates
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from mutants.other_implementations import FollowsRequestedHints
from reference.client import Object
from reference.proxy import ServiceProxy
from reference.proxy.state import State

MUTANTS: list[Mutant] = []

ANY = f"{REACHED}|{NO_ANSWER}|{REFUSED}|never"

Path = Sequence[str]
"""The keys of a field. "*" represents each entry of a list, which is identified by its key fields."""

_KEYS: Mapping[str, Callable[[Object], Any]] = {
    "ports": lambda port: port.get("name"),
    "endpoints": lambda endpoint: endpoint["addresses"][0],
}

Value = tuple[bool, Any]
"""Whether a field exists, and its value."""

Choose = Callable[[list[Value], Value], Value]
"""Returns the value to use. The arguments are the earlier values of a field, oldest first, and the current value."""


def _first(seen: list[Value], now: Value) -> Value:
    return seen[0] if seen else now


def _first_given(seen: list[Value], now: Value) -> Value:
    return next((each for each in seen if each[1]), now)


def _never_again(seen: list[Value], now: Value) -> Value:
    """Never return to an earlier value of the field."""
    return seen[-1] if now in seen else now


class _StaleField(State):
    """Replaces a field of each object with the value in an earlier version of the object."""

    def __init__(self, *arguments: Any, resource: str, path: Path, choose: Choose, **parts: Any) -> None:
        super().__init__(*arguments, **parts)
        self._frozen, self._path, self._choose = resource, path, choose
        self._seen: dict[tuple[Any, ...], list[Value]] = {}

    def receive(self, resource: str, obj: Object, *, deleted: bool) -> None:
        if resource == self._frozen:
            name = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            if deleted:
                self._seen = {key: seen for key, seen in self._seen.items() if key[:2] != name}
            else:
                obj = self._as_before(obj, self._path, name)
        super().receive(resource, obj, deleted=deleted)

    def _as_before(self, obj: Any, path: Path, key: tuple[Any, ...]) -> Any:
        """Return an object, or a part of an object, with the chosen value of the field."""
        name, *rest = path
        if rest and rest[0] == "*":
            known_by = _KEYS[name]
            entries = [self._as_before(each, rest[1:], (*key, known_by(each))) for each in obj.get(name) or ()]
            return {**obj, name: entries}
        if rest:
            return {**obj, name: self._as_before(obj.get(name) or {}, rest, (*key, name))}
        seen = self._seen.setdefault(key, [])
        there, value = chosen = self._choose(seen, (name in obj, obj.get(name)))
        if not seen or seen[-1] != chosen:
            seen.append(chosen)
        others = {each: obj[each] for each in obj if each != name}
        return {**others, name: value} if there else others


class _StaleFieldOnRequest(_StaleField, FollowsRequestedHints):
    """A mutant like `_StaleField`, for a proxy that follows hints only if the Service requests them."""


def _register(
    name: str, sentence: str, path: str, choose: Choose, *, symptom: str = ANY, state: type[_StaleField] = _StaleField
) -> None:
    resource, *keys = path.split(".")
    made = partial(state, resource=resource, path=keys, choose=choose)
    MUTANTS.append(Mutant(name, sentence, symptom=symptom, proxy=partial(ServiceProxy, state=made)))


def _freeze(name: str, path: str, **parts: Any) -> None:
    sentence = f"For each object, the proxy keeps the first value of {path} forever."
    _register(name, sentence, path, parts.pop("choose", _first), **parts)


def _never_restore(name: str, path: str) -> None:
    _register(name, f"The proxy ignores a change of {path} back to an earlier value.", path, _never_again)


_freeze("freezes-internal-policy", "services.spec.internalTrafficPolicy")
_freeze("freezes-external-policy", "services.spec.externalTrafficPolicy")
_freeze("freezes-affinity", "services.spec.sessionAffinity")
_freeze("freezes-cluster-ips", "services.spec.clusterIPs")
_freeze("freezes-external-ips", "services.spec.externalIPs")
_freeze("freezes-ingress", "services.status.loadBalancer.ingress", choose=_first_given, symptom=REACHED)
_freeze("freezes-node-ports", "services.spec.ports.*.nodePort", symptom=dropped_updates.ANY)
_freeze("freezes-protocols", "services.spec.ports.*.protocol")
_freeze("freezes-distribution", "services.spec.trafficDistribution", state=_StaleFieldOnRequest)
_freeze("freezes-annotations", "services.metadata.annotations", state=_StaleFieldOnRequest)
_freeze("freezes-health-check-ports", "services.spec.healthCheckNodePort", symptom=WRITTEN)
_freeze("freezes-hints", "endpointslices.endpoints.*.hints")
_freeze("freezes-conditions", "endpointslices.endpoints.*.conditions")
_freeze("freezes-endpoints", "endpointslices.endpoints")
_freeze("freezes-slice-ports", "endpointslices.ports.*.port")
_never_restore("never-restores-internal-policy", "services.spec.internalTrafficPolicy")
_never_restore("never-restores-conditions", "endpointslices.endpoints.*.conditions")
_never_restore("never-restores-hints", "endpointslices.endpoints.*.hints")
_never_restore("never-restores-external-ips", "services.spec.externalIPs")
