"""Tests that one request costs what its bytes justify, for each kind, list, patch type and content type.

The unit is CPU time of the thread. A cost is compared with the cost of an eighth of the same request, so the
speed of the machine does not matter; an algorithm that compares each item with each other fails by far.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import pytest
import yaml

from reference.apiserver import ApiServer, patches
from reference.apiserver.kinds import Strategy
from reference.apiserver.kinds.shapes import Shape
from reference.apiserver.merge_rules import list_rules
from tests.reference.apiserver.hostile_requests import HostileRequest
from tests.reference.apiserver.test_hostile_requests import DirectServer

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGES = (patches.MERGE, patches.STRATEGIC)
SMALL, LARGE = 500, 4000
GROWTH = 24
"""The maximum growth of the cost with eight times as many items. Comparing all items with all others gives 64."""

MILLISECONDS_PER_KILOBYTE = 20
"""A sanity bound for slow and busy machines; reports/notes/2026-11-28-figures.md has the measured costs."""

STRATEGIES = dict(ApiServer().registry.strategies)
Path = tuple[str, ...]
_SAMPLE: Mapping[str, Callable[[int], Any]] = {
    "string": lambda index: f"x{index}",
    "int32": lambda index: index + 1,
    "bool": lambda _: True,
    "int or string": lambda index: index + 1,
    "map[string]string": lambda index: {f"x{index}": "x"},
    "map[string]Quantity": lambda index: {f"x{index}": "1"},
    "Time": lambda _: "2026-01-01T00:00:00Z",
    "FieldsV1": lambda index: {f"f:x{index}": {}},
    "any": lambda index: index,
}


def lists(shape: Shape, path: Path = ()) -> Iterator[tuple[Path, Shape]]:
    """Yield the path and the item of each list and map of a shape that is not inside another list."""
    if isinstance(shape, list):
        yield path, shape[0]
    elif isinstance(shape, str):
        if shape.startswith("map"):
            yield path, shape
    else:
        for name, each in shape.items():
            if name != "*":
                yield from lists(each, (*path, name))


def sample(shape: Shape, index: int) -> Any:
    if isinstance(shape, str):
        return _SAMPLE[shape](index)
    if isinstance(shape, list):
        return [sample(shape[0], index)]
    return {name: sample(each, index) for name, each in shape.items() if name != "*"}


def many(shape: Shape, path: Path, number: int) -> Any:
    """Return an object with a list of this many items."""
    if isinstance(shape, str) and shape.startswith("map"):
        value: Any = {f"x{index}": "x" for index in range(number)}
    else:
        value = [sample(shape, index) for index in range(number)]
    for name in reversed(path):
        value = {name: value}
    return value


CASES = [
    pytest.param(plural, path, item, id=f"{plural}-{'.'.join(path)}")
    for plural, strategy in STRATEGIES.items()
    for path, item in lists(strategy.shape)
    if isinstance(strategy.shape, Mapping)
]


def url(strategy: Strategy, name: str = "") -> str:
    resource = strategy.resource
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/default" if resource.namespaced else ""
    return f"{root}/{resource.version}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def identified(strategy: Strategy, obj: Any) -> Any:
    metadata = {**obj.get("metadata", {}), "name": "one"}
    return {**obj, "apiVersion": strategy.resource.api_version, "kind": strategy.resource.kind, "metadata": metadata}


def whole(plural: str) -> Any:
    """Return a small valid object of a kind."""
    spec = {
        "services": {"spec": {"ports": [{"port": 80}]}},
        "pods": {"spec": {"containers": [{"name": "a", "image": "b"}]}},
        "endpointslices": {"addressType": "IPv4", "endpoints": []},
    }
    return identified(STRATEGIES[plural], spec.get(plural, {}))


def protobuf(kind: str, version: str, body: bytes) -> bytes:
    """Return Kubernetes' envelope."""
    meta = field(1, version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, meta) + field(2, body)


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    return (bytes([value & 0x7F | 0x80]) + varint(value >> 7)) if value > 0x7F else bytes([value])


def requests(
    plural: str, path: Path, item: Shape, number: int
) -> dict[str, tuple[list[HostileRequest], HostileRequest]]:
    """Return the requests about one list, by name, each after the requests that prepare it."""
    strategy = STRATEGIES[plural]
    made, one = many(item, path, number), url(strategy, "one")
    full, small = identified(strategy, made), HostileRequest("POST", url(strategy), orjson.dumps(whole(plural)), JSON)
    pointer = "/" + "/".join(path)
    items = [sample(item, index) for index in range(number)] if path else []
    adds = [{"op": "add", "path": f"{pointer}/0", "value": each} for each in items]
    applied = {"fieldManager": "test", "force": "true"}
    again = {"fieldManager": "test", "force": "true"}
    found = {
        "post": ([], HostileRequest("POST", url(strategy), orjson.dumps(full), JSON)),
        "post yaml": ([], HostileRequest("POST", url(strategy), yaml.safe_dump(full).encode()[: 250 * 1024], YAML)),
        "put": ([small], HostileRequest("PUT", one, orjson.dumps(full), JSON)),
        "apply": ([small], HostileRequest("PATCH", one, orjson.dumps(full), patches.APPLY, applied)),
        "json": (
            [small],
            HostileRequest("PATCH", one, orjson.dumps([*_parents(path), *adds]), patches.JSON),
        ),
    }
    for each in MERGES:
        found[each] = ([small], HostileRequest("PATCH", one, orjson.dumps(made), each))
    before = [HostileRequest("POST", url(strategy), orjson.dumps(full), JSON)]
    reversed_items = {"$setElementOrder/" + path[-1]: list(reversed(items)), path[-1]: items}
    removed = {"$deleteFromPrimitiveList/" + path[-1]: items}
    for name, value in (("order", reversed_items), ("remove", removed)):
        found[f"strategic {name}"] = (
            before,
            HostileRequest("PATCH", one, orjson.dumps(_in(path, value)), patches.STRATEGIC),
        )
    key = list_rules(strategy.resource.kind).get(path)
    if key is not None and key.merge_key:
        deleted = [{"$patch": "delete", key.merge_key: each.get(key.merge_key)} for each in items]
        found["strategic delete"] = (
            before,
            HostileRequest("PATCH", one, orjson.dumps(_in(path, {path[-1]: deleted})), patches.STRATEGIC),
        )
    mine = HostileRequest("PATCH", one, orjson.dumps(full), patches.APPLY, again)
    found["apply fewer"] = ([mine], HostileRequest("PATCH", one, orjson.dumps(whole(plural)), patches.APPLY, again))
    return found


def _parents(path: Path) -> list[dict[str, Any]]:
    """Return operations that create an empty list."""
    return [
        {"op": "add", "path": "/" + "/".join(path[:length]), "value": [] if length == len(path) else {}}
        for length in range(1, len(path) + 1)
        if path[:length] != ("metadata",)
    ]


def _in(path: Path, value: Any) -> Any:
    for name in reversed(path[:-1]):
        value = {name: value}
    return value


def cost(prepared: list[HostileRequest], sent: HostileRequest) -> float:
    """Return the CPU time of a request in seconds."""
    asking = DirectServer()
    for each in prepared:
        asking(each)
    begun = time.thread_time()
    answer = asking(sent)
    used = time.thread_time() - begun
    assert answer.code < 500 or b"range is full" in answer.body, answer.body[:500]
    assert len(answer.body) < 8 * len(sent.body) + 1_000_000
    return used


def check_growth(small: Callable[[], float], large: Callable[[], float], said: str, kilobytes: float) -> None:
    """Compare costs. A disturbed measurement is repeated, because a cost is the least of its measurements."""
    least = [float("inf"), float("inf")]
    for _ in range(6):
        least = [min(least[0], small()), min(least[1], large())]
        if least[1] < GROWTH * least[0] + 0.004 and least[1] * 1000 < MILLISECONDS_PER_KILOBYTE * kilobytes + 20:
            return
    pytest.fail(f"{said}: eight times the items cost {least[1] * 1000:.1f} ms instead of {least[0] * 1000:.1f} ms")


def check(plural: str, path: Path, item: Shape) -> None:
    small, large = (requests(plural, path, item, number) for number in (SMALL, LARGE))
    for name, (prepared, sent) in large.items():
        kilobytes = (len(sent.body) + sum(len(each.body) for each in prepared)) / 1024
        costs = (functools.partial(cost, *chosen[name]) for chosen in (small, large))
        check_growth(*costs, f"{name} of {path}", kilobytes)


FEW = {"services-spec.ports", "services-metadata.finalizers", "configmaps-metadata.labels", "nodes-status.addresses"}


@pytest.mark.parametrize(("plural", "path", "item"), [each for each in CASES if each.id in FEW])
def test_cost_of_a_list_grows_like_its_bytes(plural: str, path: Path, item: Shape) -> None:
    check(plural, path, item)


@pytest.mark.slow
@pytest.mark.parametrize(("plural", "path", "item"), CASES)
def test_cost_of_each_list_grows_like_its_bytes(plural: str, path: Path, item: Shape) -> None:
    check(plural, path, item)


def messages(number: int) -> HostileRequest:
    """Return a ConfigMap in protobuf with this many entries, and as many numbers of ten bytes that the kind lacks."""
    entries = [field(2, field(1, f"x{index}".encode()) + field(2, b"x")) for index in range(number)]
    numbers = [varint(15 << 3) + b"\xff" * 9 + b"\x01" for _ in range(number)]
    body = field(1, field(1, b"one")) + b"".join(entries + numbers)
    return HostileRequest("POST", "/api/v1/namespaces/default/configmaps", protobuf("ConfigMap", "v1", body), PROTOBUF)


def test_cost_of_protobuf_grows_like_its_bytes() -> None:
    assert DirectServer()(messages(10)).code == 201
    check_growth(lambda: cost([], messages(SMALL)), lambda: cost([], messages(LARGE)), "protobuf", 200)


@pytest.mark.parametrize("length", [11, 100_000])
def test_number_of_absurd_length_in_protobuf_is_refused(length: int) -> None:
    body = protobuf("ConfigMap", "v1", varint(15 << 3) + b"\xff" * length + b"\x01")
    assert DirectServer()(HostileRequest("POST", "/api/v1/namespaces/default/configmaps", body, PROTOBUF)).code == 400
