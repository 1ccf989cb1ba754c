"""The OpenAPI documents are valid and list exactly the operations that the server supports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from openapi_spec_validator import validate

import reference.apiserver
from harness.api.client import Api
from reference.apiserver.access import SERVED
from reference.apiserver.openapi import models_by_name
from tests.reference.apiserver.models_table import table

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # HEAD has no verb
SUBRESOURCES = (
    "",
    "/status",
    "/eviction",
    "/proxy",
    "/proxy/x",
    "/exec",
    "/finalize",
    "/scale",
    "/log",
    "/a/b/c",
)
NOT_SERVED = "could not find the requested resource"

Operations = set[tuple[str, str]]


def _operations(document: Any) -> Operations:
    return {(method.upper(), path) for path, item in document["paths"].items() for method in item}


def test_all_documents_are_valid(client: Api, openapi: dict[str, Any]) -> None:
    for each in (*openapi.values(), client.request("GET", "/openapi/v2").body):
        validate(each)


def _filled_in(path: str) -> str:
    values = {
        "{namespace}": "default",
        "{name}": "none",
        "{path}": "x",
        "{group}": "discovery.k8s.io",
        "{version}": "v1",
    }
    return re.sub(r"\{\w+\}", lambda found: values[found[0]], path)


def _candidates(client: Api, documented: Operations) -> Operations:
    """Return the methods of each path in the documents, and the methods of each resource in discovery."""
    paths = {path for _, path in documented} | {"/", "/healthz/ping", "/openapi", "/openapi/v4", *SERVED}
    groups = client.request("GET", "/apis").body["groups"]
    prefixes = ["/api/v1", *(f"/apis/{version['groupVersion']}" for each in groups for version in each["versions"])]
    for prefix in prefixes:
        plurals = {each["name"].partition("/")[0] for each in client.request("GET", prefix).body["resources"]}
        for scope in ("", "/namespaces/{namespace}"):
            for plural in plurals:
                paths |= {
                    f"{prefix}{scope}/{plural}",
                    *(f"{prefix}{scope}/{plural}/{{name}}{each}" for each in SUBRESOURCES),
                }
    return {(method, path) for path in paths for method in METHODS}


def _is_served(client: Api, method: str, path: str) -> bool:
    answer = client.request(method, _filled_in(path), None if method in {"GET", "OPTIONS"} else {})
    return answer.code != 405 and NOT_SERVED not in str(answer.body.get("message"))


def test_listed_paths_equal_the_served_ones(client: Api, openapi: dict[str, Any]) -> None:
    documented = set[tuple[str, str]]().union(*map(_operations, openapi.values()))
    asked = _candidates(client, documented)
    asked = {
        (method, path) for method, path in asked if path != "/" and not path.endswith("/proxy/x")
    }  # `/proxy/{path}`

    served = {each for each in asked if _is_served(client, *each)}

    documented = {(method, path) for method, path in documented if method in METHODS}
    assert (served - documented, documented - served) == (set(), set())


def test_each_parameter_that_the_server_reads_is_listed(openapi: dict[str, Any]) -> None:
    items = [item for document in openapi.values() for item in document["paths"].values()]
    listed = {p["name"] for item in items for each in item.values() for p in each["parameters"]}
    sources = "".join(each.read_text() for each in Path(reference.apiserver.__file__).parent.rglob("*.py"))
    read = set(re.findall(r'query(?:\.get|\.getall)?\(?, ?"(\w+)"|query\.get(?:all)?\("(\w+)"', sources))
    names = {name for each in read for name in each if name}
    assert {"limit", "timeoutSeconds", "dryRun"} <= names
    assert names == listed - {"namespace", "name", "path", "group", "version"}


def test_models_are_those_of_the_official_client() -> None:
    assert table() == models_by_name()
