"""Server-side apply (KEP-555): merge the fields that a client sends, and record the client as their owner.

A different value for a field of another manager is a conflict, unless the apply is forced. A field that a manager
applied before and now leaves out is removed, unless another manager owns it. Lists merge by key.
"""

from dataclasses import replace
from typing import Any

from reference.apiserver import managed_fields, status, writes
from reference.apiserver.kinds import Strategy
from reference.apiserver.managed_fields import encode, flatten, item_key, shown, value_key
from reference.apiserver.merge_rules import ListRule, ListRules, is_atomic
from reference.apiserver.registry import ObjectRef, Registry, Write
from reference.apiserver.store import StoredObject
from reference.apiserver.strategic_merge import union
from reference.client import Object


def apply(registry: Registry, target: ObjectRef, config: Any, call: Write, *, force: bool) -> tuple[StoredObject, bool]:
    """Apply `config`, which the caller must not change later. Return the object, and whether it is new.

    Raises `ApiError`: 400, 404, 409, 415, 422.
    """
    strategy = registry.strategy(target.resource).rules(target.view)
    if target.view is not None and target.view.strategy is None:
        raise status.failure(415, "UnsupportedMediaType", f"apply {target.resource} as {strategy.resource.api_version}")
    config = _checked(config, target, strategy)
    if target.view is not None:
        config = target.view.to_stored(config)
    call = replace(call, applied=True)
    writes.decode(registry, strategy, config, call)
    with registry.store.lock:
        live = registry.store.get(target.resource, (target.namespace, target.name))
        if live is None:
            if target.subresource:
                raise status.not_found(strategy.resource, target.name)
            fields = flatten(config, strategy.list_rules())
            owner = managed_fields.new_owner(call.manager, "Apply", "", fields, config)
            config["metadata"]["managedFields"] = managed_fields.write([owner])
            return writes.create(registry, target, config, call), True
        merged = _merge(strategy, live.copy(), config, call.manager, target.subresource, force=force)
        return writes.update(registry, target, merged, call), False


def _checked(config: Any, target: ObjectRef, strategy: Strategy) -> Object:
    if not isinstance(config, dict) or not isinstance(config.get("metadata", {}), dict):
        raise status.bad_request("an applied configuration must be an object")
    if config.get("metadata", {}).get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    for field in ("apiVersion", "kind"):
        if not isinstance(config.get(field), str) or not config[field]:
            raise status.bad_request(f"an applied configuration must have {field}")
    metadata = config.setdefault("metadata", {})
    metadata["name"] = metadata.get("name") or target.name
    for path in strategy.kept_by_status if target.subresource else (("status",),):  # upstream's "reset fields"
        _reset(config, path)
    return _without_nulls(config)  # type: ignore[no-any-return]  # the result is also an object


def _reset(config: Object, path: tuple[str, ...]) -> None:
    *parents, name = path
    for each in parents:
        config = config.get(each) or {}
    config.pop(name, None)


def _merge(strategy: Strategy, live: Object, config: Object, manager: str, subresource: str, *, force: bool) -> Object:
    rules = strategy.list_rules()
    wanted, present = flatten(config, rules), flatten(live, rules)
    owners = managed_fields.read(live["metadata"].get("managedFields")) or [
        managed_fields.before_first_apply(live, rules)
    ]
    me = (manager, "Apply", subresource)
    others = [each for each in owners if each.identity != me]
    taken = {path for path, value in wanted.items() if path in present and present[path] != value}
    conflicts = [(each.manager, path) for each in others for path in sorted(each.fields & taken)]
    if conflicts and not force:
        raise status.apply_conflict([(name, shown(path)) for name, path in conflicts])
    before = next((each for each in owners if each.identity == me), None)
    merged = _merge_object(live, config, (), rules)
    if before is not None:
        dropped = before.fields - wanted.keys() - {path for each in others for path in each.fields}
        _prune(merged, encode(dropped), (), rules)
    mine = managed_fields.new_owner(*me, wanted, live)
    if before is not None and before.fields == mine.fields:
        mine = before  # keeps the time, so that an apply without changes writes nothing
    kept = [each.without(taken) for each in others]
    merged["metadata"] = {**merged["metadata"], "managedFields": managed_fields.write([*kept, mine])}
    return merged


def _merge_object(live: Object, config: Object, names: tuple[str, ...], rules: ListRules) -> Object:
    merged = dict(live)
    for key, value in config.items():
        merged[key] = _merge_value(live.get(key), value, (*names, key), rules)
    return merged


def _merge_value(live: Any, value: Any, names: tuple[str, ...], rules: ListRules) -> Any:
    if isinstance(value, dict) and isinstance(live, dict) and not is_atomic(rules, names):
        return _merge_object(live, value, names, rules)
    if isinstance(value, list) and isinstance(live, list) and names in rules:
        return _merge_list(live, value, names, rules)
    return value


def _merge_list(live: list[Any], config: list[Any], names: tuple[str, ...], rules: ListRules) -> list[Any]:
    rule = rules[names]
    if not rule.map_keys:
        return union(live, config)
    merged = {item_key(each, rule): each for each in live}
    for item in config:
        key = item_key(item, rule)
        merged[key] = _merge_object(merged[key], item, names, rules) if key in merged else item
    return list(merged.values())


def _prune(node: Any, removed: Object, names: tuple[str, ...], rules: ListRules) -> None:
    """Remove the fields in the FieldsV1 tree `removed` from `node`, and then objects and lists that became empty."""
    if isinstance(node, list):
        _prune_items(node, removed, names, rules)
    elif isinstance(node, dict):
        for element, below in removed.items():
            name = element.removeprefix("f:")
            if name not in node or element == ".":
                continue
            if below and "." not in below:
                _prune(node[name], below, (*names, name), rules)
            if not below or "." in below or node[name] in ({}, []):
                del node[name]


def _prune_items(items: list[Any], removed: Object, names: tuple[str, ...], rules: ListRules) -> None:
    rule = rules.get(names, ListRule())
    kept = []
    for item in items:
        below = removed.get(item_key(item, rule) if rule.map_keys else value_key(item))
        if below is None:
            kept.append(item)
        elif below and "." not in below:
            _prune(item, below, names, rules)
            kept.append(item)
    items[:] = kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
