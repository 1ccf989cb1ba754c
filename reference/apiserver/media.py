"""Media types: what a client accepts, and what it sent.

Reads are answered in JSON, as objects, as Tables (what kubectl prints) or as metadata only. A client that
prefers protobuf also says what else it takes (`application/vnd.kubernetes.protobuf, */*`), and then gets JSON; what it
sends in protobuf is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import orjson
import yaml

from reference.apiserver import protobuf, status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
READABLE = (JSON, YAML)
MAX_DEPTH = 100
"""Objects and lists within each other; those of Kubernetes' API have some twenty."""

MAX_YAML_BYTES = 256 * 1024
"""YAML is read a hundred times more slowly than JSON, and clients send it by hand."""

_YAML_NAMES = frozenset({YAML, "application/x-yaml", "text/yaml"})

Form = Literal["object", "table", "metadata"]
_FORMS: dict[str, Form] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The form of an answer."""

    form: Form = "object"
    meta_version: str = "v1"
    """Of `meta.k8s.io`, for Tables and metadata."""


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Answer | None:
    """The first of the acceptable media types that this server can write; None when there is none of them."""
    for entry in (accept or "*/*").split(","):
        media, parameters = parse(entry)
        version, form = parameters.get("v", "v1"), _FORMS.get(parameters.get("as", ""))
        if form is None or (form != "object" and version not in {"v1", "v1beta1"}):
            continue
        if media in {JSON, "*/*", "application/*"}:
            return Answer(form, meta_version=version)
    return None


def parse(entry: str) -> tuple[str, dict[str, str]]:
    """`application/json;as=Table;v=v1` as its type and its parameters."""
    media, *rest = (each.strip() for each in entry.split(";"))
    pairs = (each.partition("=") for each in rest)
    return media.lower(), {key.strip(): value.strip() for key, _, value in pairs}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _yaml(body: bytes) -> Any:
    """The value of a YAML document. An alias is refused: some hundred bytes of them can stand for gigabytes."""
    if len(body) > MAX_YAML_BYTES:
        raise status.failure(413, "RequestEntityTooLarge", f"a body in YAML may have {MAX_YAML_BYTES} bytes")
    depth = 0
    for event in yaml.parse(body, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("yaml: aliases are not accepted")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
    return yaml.load(body, _LOADER)  # noqa: S506 - a safe one


def _bounded(value: Any, body: bytes) -> Any:
    """The value, unless it is nested too deeply. Raises `ValueError`."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return value
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [each for one in level for each in _within(one)]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


_TOO_DEEP = f"exceeded max depth: objects and lists are nested more than {MAX_DEPTH} deep"


def _within(value: Any) -> Iterable[Any]:
    """Objects and lists in an object or a list."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (each for each in inside if isinstance(each, dict | list))


def decode(body: bytes, content_type: str) -> Any:
    """The value in a request's body, "" being JSON. Raises `ApiError`: 400, 415."""
    media = parse(content_type)[0]
    try:
        if media in {JSON, ""} or media.endswith("+json"):
            return _bounded(orjson.loads(body), body)
        if media in _YAML_NAMES or media.endswith("+yaml"):
            return orjson.loads(orjson.dumps(_yaml(body)))
        if media == PROTOBUF:
            return protobuf.read_object(body)
    except protobuf.UnknownKindError:
        raise status.unsupported_media(media, READABLE) from None
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise status.bad_request(f"couldn't decode the body of the request: {error}") from None
    raise status.unsupported_media(media, READABLE)
