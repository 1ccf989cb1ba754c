"""Media types. Responses are JSON, which clients that prefer protobuf also accept. Request bodies may be protobuf."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import orjson
import yaml

from reference.apiserver import protobuf, status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
READABLE = (JSON, YAML)
MAX_DEPTH = 100
"""The maximum nesting depth of a request body. Objects of the Kubernetes API have about twenty levels."""

MAX_YAML_BYTES = 256 * 1024
"""The maximum size of a YAML body. Parsing YAML takes a hundred times as long as parsing JSON."""

_YAML_NAMES = frozenset({YAML, "application/x-yaml", "text/yaml"})

Form = Literal["object", "table", "metadata"]
_FORMS: dict[str, Form] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The form of a response. `meta_version` is the version of `meta.k8s.io`, for Tables and metadata."""

    form: Form = "object"
    meta_version: str = "v1"


@lru_cache(maxsize=256)
def negotiate(accept: str) -> ResponseForm | None:
    """Return the response form for the first media type in `accept` that this server can write, or None."""
    for entry in (accept or "*/*").split(","):
        media, parameters = parse(entry)
        version, form = parameters.get("v", "v1"), _FORMS.get(parameters.get("as", ""))
        if form is None or (form != "object" and version not in {"v1", "v1beta1"}):
            continue
        if media in {JSON, "*/*", "application/*"}:
            return ResponseForm(form, meta_version=version)
    return None


def parse(entry: str) -> tuple[str, dict[str, str]]:
    """Split a media type such as `application/json;as=Table;v=v1` into the type and its parameters."""
    media, *rest = (each.strip() for each in entry.split(";"))
    pairs = (each.partition("=") for each in rest)
    return media.lower(), {key.strip(): value.strip() for key, _, value in pairs}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the base class is one of two
    """A YAML loader that reads numbers as Kubernetes does."""


def _number(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a YAML constructor that rejects long numbers, and reads `1:30` as a string, unlike YAML 1.1."""

    def constructed(loader: Any, node: Any) -> Any:
        if len(node.value) > _MAX_NUMBER:
            raise ValueError(f"yaml: a number has more than {_MAX_NUMBER} characters")
        return node.value if ":" in node.value else construct(loader, node)

    return constructed


_MAX_NUMBER = 100
for _tag, _construct in (("int", yaml.SafeLoader.construct_yaml_int), ("float", yaml.SafeLoader.construct_yaml_float)):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _number(_construct))


def _yaml(body: bytes) -> Any:
    """Parse YAML without aliases, because a few hundred bytes with aliases can expand to gigabytes."""
    if len(body) > MAX_YAML_BYTES:
        raise status.too_large(f"a YAML body may have at most {MAX_YAML_BYTES} bytes")
    depth = 0
    for event in yaml.parse(body, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("yaml: aliases are not accepted")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
    return yaml.load(body, _Loader)  # noqa: S506 - a safe one


def bounded(value: Any) -> Any:
    """Return the value unchanged. Raises `ValueError` if it is nested deeper than MAX_DEPTH."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [each for one in level for each in _within(one)]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


_TOO_DEEP = f"exceeded max depth: objects and lists are nested more than {MAX_DEPTH} deep"


def _within(value: Any) -> Iterable[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (each for each in inside if isinstance(each, dict | list))


def _json(body: bytes) -> Any:
    value = orjson.loads(body)
    return value if body.count(b"[") + body.count(b"{") <= MAX_DEPTH else bounded(value)


def decode(body: bytes, content_type: str) -> Any:
    """Return the value of a request body. An empty content type means JSON. Raises `ApiError`: 400, 415."""
    media = parse(content_type)[0]
    try:
        if media in {JSON, ""} or media.endswith("+json"):
            return _json(body)
        if media in _YAML_NAMES or media.endswith("+yaml"):
            if body.lstrip(b" \t\r\n").startswith(b"{"):  # kubectl applies JSON as YAML
                with suppress(orjson.JSONDecodeError):
                    return _json(body)
            return orjson.loads(orjson.dumps(_yaml(body)))
        if media == PROTOBUF:
            return bounded(protobuf.read_object(body))
    except protobuf.UnknownKindError:
        raise status.unsupported_media(media, READABLE) from None
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise status.bad_request(f"couldn't decode the body of the request: {error}") from None
    raise status.unsupported_media(media, READABLE)
