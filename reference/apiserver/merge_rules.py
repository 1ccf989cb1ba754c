"""The rules for merging lists: by a key (Go tags `patchMergeKey`, `listMapKey`), as a set, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class ListRule:
    """The rule for merging a list. `merge_key` is for strategic merge patches; `map_keys` is for server-side apply.

    If neither key is set, the list contains plain values and merges as a set. If `retain_keys` is set, a strategic
    merge patch can drop all fields of an item except those that `$retainKeys` lists.
    """

    merge_key: str = ""
    map_keys: tuple[str, ...] = ()
    retain_keys: bool = False
    defaults: tuple[tuple[str, str], ...] = ()
    """Default values of map keys that a client may omit."""

    atomic: bool = False


ListRules = Mapping[tuple[str, ...], ListRule]
"""The rules of lists, by field path. The path has no elements for list items."""


def _keyed(key: str, *map_keys: str, retain_keys: bool = False, **defaults: str) -> ListRule:
    return ListRule(key, map_keys or (key,), retain_keys, tuple(defaults.items()))


_SET = ListRule()
ATOMIC = ListRule(atomic=True)
_METADATA: dict[tuple[str, ...], ListRule] = {
    ("metadata", "ownerReferences"): _keyed("uid"),
    ("metadata", "finalizers"): _SET,
}
_CONDITIONS: dict[tuple[str, ...], ListRule] = {("status", "conditions"): _keyed("type")}
_CONTAINER: dict[tuple[str, ...], ListRule] = {
    (): _keyed("name"),
    ("ports",): _keyed("containerPort", "containerPort", "protocol", protocol="TCP"),
    ("env",): _keyed("name"),
    ("volumeMounts",): _keyed("mountPath"),
    ("volumeDevices",): _keyed("devicePath"),
    ("resources", "claims"): ListRule("", ("name",)),
}

_RULES: Mapping[str, ListRules] = {
    "Service": {
        ("spec", "ports"): _keyed("port", "port", "protocol", protocol="TCP"),
        **_CONDITIONS,
    },
    "Pod": {
        **{
            ("spec", containers, *path): rule
            for containers in ("containers", "initContainers", "ephemeralContainers")
            for path, rule in _CONTAINER.items()
        },
        ("spec", "volumes"): _keyed("name", retain_keys=True),
        ("spec", "imagePullSecrets"): _keyed("name"),
        ("spec", "hostAliases"): _keyed("ip"),
        ("spec", "topologySpreadConstraints"): _keyed("topologyKey", "topologyKey", "whenUnsatisfiable"),
        ("spec", "schedulingGates"): _keyed("name"),
        ("spec", "resourceClaims"): _keyed("name", retain_keys=True),
        ("status", "podIPs"): _keyed("ip"),
        **_CONDITIONS,
    },
    "Node": {
        ("spec", "podCIDRs"): _SET,
        ("status", "addresses"): _keyed("type"),
        **_CONDITIONS,
    },
    "Namespace": _CONDITIONS,
    "ServiceCIDR": _CONDITIONS,
}


def is_atomic(rules: ListRules, names: tuple[str, ...]) -> bool:
    """Return whether a server-side apply replaces the object at the path `names` as a whole."""
    return names in rules and rules[names].atomic


@cache
def list_rules(kind: str) -> ListRules:
    """Return the list rules of a kind. Kinds that `_RULES` does not contain have only the rules for metadata."""
    return {**_METADATA, **_RULES.get(kind, {})}
