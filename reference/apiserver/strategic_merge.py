"""Strategic merge patch (apimachinery's strategicpatch package): a merge patch that treats some lists as maps or sets.

In addition to values, a patch may contain directives: `$patch: replace|delete|merge`, `$setElementOrder/FIELD`,
`$deleteFromPrimitiveList/FIELD` and `$retainKeys`.
"""

from typing import Any

import orjson

from reference.apiserver.merge_rules import ListRule, ListRules
from reference.client import Object

Path = tuple[str, ...]

_ORDER, _DELETE_VALUES, _RETAIN, _DIRECTIVE = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys", "$patch"


def merge(target: Object, patch: Object, rules: ListRules) -> Object:
    """Return the patched object. Raises `ValueError` for invalid directives."""
    return _merge_object(target, patch, (), rules)


def _merge_object(target: Object, patch: Object, path: Path, rules: ListRules) -> Object:
    _check(patch)
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(target)
    if _RETAIN in patch:
        retained = set(patch[_RETAIN])
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(result, key, value, (*path, key), rules)
    _remove_values(result, patch)
    _order(result, patch, path, rules)
    return result


def _check(patch: Object) -> None:
    for name, value in patch.items():
        if name == _DIRECTIVE and value not in ("delete", "merge", "replace"):
            raise ValueError(f"unknown patch directive {value!r}")
        if name == _RETAIN and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise ValueError(f"{_RETAIN} must be a list of names")
        if name.startswith((_ORDER, _DELETE_VALUES)) and not isinstance(value, list):
            raise ValueError(f"{name} must be a list")


def _merge_field(result: Object, key: str, value: Any, path: Path, rules: ListRules) -> None:
    present = result.get(key)
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        result[key] = _merge_object(present if isinstance(present, dict) else {}, value, path, rules)
    elif isinstance(value, list) and path in rules and (rules[path].merge_key or not rules[path].map_keys):
        result[key] = _merge_list(present if isinstance(present, list) else [], value, path, rules)
    else:
        result[key] = value


def _merge_list(target: list[Any], patch: list[Any], path: Path, rules: ListRules) -> list[Any]:
    key = rules[path].merge_key
    if not key:
        return union(target, patch)
    result = _KeyedList(target, key)
    for item in patch:
        if not isinstance(item, dict):
            raise ValueError(f"{'.'.join(path)}: an item of a list with merge key {key!r} must be an object")
        directive = item.get(_DIRECTIVE)
        if directive == "replace" and len(item) == 1:  # replace the whole list with the other items of the patch
            return [each for each in patch if not isinstance(each, dict) or _DIRECTIVE not in each]
        if key not in item:
            raise ValueError(f"map: {item} does not contain declared merge key: {key}")
        if directive == "delete":
            result.delete(item)
        else:
            result.put(_merge_object(result.get(item), item, path, rules))
    return result.items()


class _KeyedList:
    """A list with an index of its items by merge key. Searching the list for each item would take quadratic time."""

    def __init__(self, items: list[Any], key: str) -> None:
        self._items: list[Any] = list(items)
        self._key = key
        self._places: dict[Any, list[int]] = {}
        for place, each in enumerate(items):
            self._places.setdefault(_identity(each.get(key)), []).append(place)

    def get(self, like: Object) -> Object:
        places = self._places.get(_identity(like[self._key]))
        return self._items[places[0]] if places else {}

    def put(self, item: Object) -> None:
        places = self._places.setdefault(_identity(item.get(self._key)), [])
        if places:
            self._items[places[0]] = item
        else:
            places.append(len(self._items))
            self._items.append(item)

    def delete(self, like: Object) -> None:
        for place in self._places.pop(_identity(like[self._key]), ()):
            self._items[place] = None

    def items(self) -> list[Any]:
        return [each for each in self._items if each is not None]


def _remove_values(result: Object, patch: Object) -> None:
    for name, values in patch.items():
        if name.startswith(_DELETE_VALUES):
            field, removed = name.removeprefix(_DELETE_VALUES), set(map(_identity, values))
            present = result.get(field)
            result[field] = (
                [each for each in present if _identity(each) not in removed] if isinstance(present, list) else []
            )


def _order(result: Object, patch: Object, path: Path, rules: ListRules) -> None:
    """Sort lists into the order that `$setElementOrder` specifies. All other items follow in their old order."""
    for name, wanted in patch.items():
        if not name.startswith(_ORDER):
            continue
        field = name.removeprefix(_ORDER)
        rule = rules.get((*path, field), ListRule())
        order = [each.get(rule.merge_key) if isinstance(each, dict) else each for each in wanted]
        items = result.get(field)
        if isinstance(items, list):
            result[field] = _sorted(items, order, rule.merge_key)


def _sorted(items: list[Any], order: list[Any], key: str) -> list[Any]:
    places: dict[Any, int] = {}
    for value in order:
        places.setdefault(_identity(value), len(places))

    def place(item: Any) -> int:
        return places.get(_identity(item.get(key) if isinstance(item, dict) else item), len(places))

    return sorted(items, key=place)


def union(items: list[Any], more: list[Any]) -> list[Any]:
    """Return `items`, followed by the items of `more` that `items` does not contain."""
    present = set(map(_identity, items))
    return items + [each for each in more if _identity(each) not in present]


def _identity(value: Any) -> Any:
    """Return a hashable value that is equal for equal JSON values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, (dict, list)) else value
