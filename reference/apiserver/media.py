"""Media types: what a client accepts, and what it sent.

Reads are answered in JSON, as objects, as Tables (what kubectl prints) or as metadata only. A client that
prefers protobuf also says what else it takes (`application/vnd.kubernetes.protobuf, */*`), and then gets JSON; what it
sends in protobuf is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import orjson
import yaml

from reference.apiserver import protobuf, status

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
READABLE = (JSON, YAML)
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


def decode(body: bytes, content_type: str) -> Any:
    """The value in a request's body, "" being JSON. Raises `ApiError`: 400, 415."""
    media = parse(content_type)[0]
    try:
        if media in {JSON, ""} or media.endswith("+json"):
            return orjson.loads(body)
        if media in _YAML_NAMES or media.endswith("+yaml"):
            return orjson.loads(orjson.dumps(yaml.safe_load(body)))
        if media == PROTOBUF:
            return protobuf.read_object(body)
    except protobuf.UnknownKindError:
        raise status.unsupported_media(media, READABLE) from None
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise status.bad_request(f"couldn't decode the body of the request: {error}") from None
    raise status.unsupported_media(media, READABLE)
