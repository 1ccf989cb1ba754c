"""Label and field selectors as predicates, with the syntax and meaning of apimachinery's `labels` and `fields`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference.apiserver import status
from reference.apiserver.kinds import Strategy, names
from reference.client import Object

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_SET = re.compile(r"(?P<key>[^\s!=<>(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_COMPARED = re.compile(r"(?P<key>[^\s!=<>(),]+)\s*(?P<operator>==|!=|=|<|>)\s*(?P<value>[^\s!=<>(),]*)")
_EXISTS = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s!=<>(),]+)")
_FIELD = re.compile(r"(?P<key>(?:[^\\,=!]|\\.)+)(?P<operator>==|!=|=)(?P<value>(?:[^\\,=]|\\.)*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or a watch selects: a namespace ("" for all), labels and fields."""

    namespace: str = ""
    labels: tuple[Test, ...] = ()
    fields: tuple[Callable[[Object], bool], ...] = ()
    source: tuple[str, str] = ("", "")
    """The label selector and the field selector as the client sent them."""

    @property
    def everything(self) -> bool:
        return not (self.namespace or self.labels or self.fields)

    def matches(self, obj: Object) -> bool:
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.labels:
            labels = meta.get("labels") or {}
            if not all(test(labels) for test in self.labels):
                return False
        return all(test(obj) for test in self.fields)


def select(strategy: Strategy, namespace: str = "", labels: str = "", fields: str = "") -> Selection:
    """Parse the selectors of a request. Raises `ApiError` (400) as Kubernetes does."""
    try:
        return Selection(namespace, parse_labels(labels), parse_fields(fields, strategy), (labels, fields))
    except ValueError as error:
        resource = strategy.resource
        raise status.bad_request(
            f'Unable to find "{resource.api_version}, Resource={resource.plural}" that match label selector '
            f'"{labels}", field selector "{fields}": {error}'
        ) from None


def parse_labels(text: str) -> tuple[Test, ...]:
    """Parse a label selector: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Raises `ValueError` if it is invalid."""
    parts = re.split(r",(?![^(]*\))", text) if text.strip() else []
    return tuple(_requirement(each.strip()) for each in parts)


def parse_fields(text: str, strategy: Strategy) -> tuple[Callable[[Object], bool], ...]:
    """Parse a field selector: `metadata.name=a,spec.nodeName!=b`. Raises `ValueError` if it is invalid."""
    tests: list[Callable[[Object], bool]] = []
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{text[position:]}'")
        tests.append(_field_test(match["key"], match["operator"], re.sub(r"\\(.)", r"\1", match["value"]), strategy))
        position = match.end() + 1
    return tuple(tests)


def _requirement(text: str) -> Test:
    if match := _SET.fullmatch(text):
        values = frozenset(each.strip() for each in match["values"].split(","))
        return _membership(_checked(match["key"]), values, wanted=match["operator"] == "in")
    if match := _COMPARED.fullmatch(text):
        key, operator, value = _checked(match["key"]), match["operator"], match["value"]
        if operator in "<>":
            return _comparison(key, operator, value)
        if complaints := names.label_value(value):
            said = f'values[0]: Invalid value: "{value}": {"; ".join(complaints)}'
            raise ValueError(f"unable to parse requirement: {said}")
        return _membership(key, frozenset((value,)), wanted=operator != "!=")
    if match := _EXISTS.fullmatch(text):
        key, wanted = _checked(match["key"]), not match["not"]
        return lambda labels: (key in labels) is wanted
    raise ValueError(
        f"unable to parse requirement: found '{text}', expected: a key with '!', in, notin, =, ==, !=, >, <"
    )


def _membership(key: str, values: frozenset[str], *, wanted: bool) -> Test:
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values  # also true if the label is absent


def _comparison(key: str, operator: str, value: str) -> Test:
    try:
        bound = int(value)
    except ValueError:
        raise ValueError(
            f"unable to parse requirement: for '>', '<' operators, the value must be an integer: {value}"
        ) from None

    def test(labels: Labels) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number < bound if operator == "<" else number > bound

    return test


def _checked(key: str) -> str:
    if complaints := names.qualified_name(key):
        raise ValueError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(complaints)}')
    return key


def _field_test(key: str, operator: str, value: str, strategy: Strategy) -> Callable[[Object], bool]:
    read = _field(key, strategy)
    if operator == "!=":
        return lambda obj: read(obj) != value
    return lambda obj: read(obj) == value


def _field(key: str, strategy: Strategy) -> Callable[[Object], str]:
    if key == "metadata.name":
        return lambda obj: str(obj["metadata"]["name"])
    if key == "metadata.namespace" and strategy.resource.namespaced:
        return lambda obj: str(obj["metadata"]["namespace"])
    if key in strategy.selectable_fields:
        return strategy.selectable_fields[key]
    raise ValueError(f"field label not supported: {key}")
