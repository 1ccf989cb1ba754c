"""Create the API objects of a recipe in order, like `kubectl apply --server-side`, before its programs start."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.api.client import Api, Object
from harness.errors import InconclusiveError, StartError, UsageError
from harness.eventually import eventually
from harness.model import strict_yaml

SERVED_SECONDS = 20.0
_DEFINITION = "CustomResourceDefinition"
_APPLY = "application/apply-patch+yaml"


def parse_objects(given: Any, folder: Path, name: str = "objects") -> tuple[Object, ...]:
    """Parse a list of manifests, or of YAML files in a folder, into objects. Raises `UsageError` with the key."""
    if not isinstance(given, list):
        raise UsageError(f"key {name}: expected a list of manifests, or of YAML files with manifests")
    found = []
    for number, each in enumerate(given):
        key = f"key {name}[{number}]"
        try:
            listed = strict_yaml.read_all(folder / each, what="file") if isinstance(each, str) else [each]
        except UsageError as error:
            raise UsageError(f"{key}: {error}") from None
        for one in listed:
            _check(one, key)
        found += listed
    return tuple(found)


def _check(given: Any, key: str) -> None:
    if not isinstance(given, dict):
        raise UsageError(f"{key}: expected a manifest, a mapping with apiVersion, kind and metadata.name")
    metadata = given.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    wanted = {"apiVersion": given.get("apiVersion"), "kind": given.get("kind"), "metadata.name": named.get("name")}
    for name, value in wanted.items():
        if not value or not isinstance(value, str):
            raise UsageError(f"{key}: {name} is missing or not a string")
    if not isinstance(named.get("namespace", ""), str):
        raise UsageError(f"{key}: metadata.namespace is not a string")


def apply(api: Api, objects: tuple[Object, ...], who: str) -> None:
    """Apply the objects in order. `who`, the recipe or option of the objects, starts the message of a `StartError`."""
    for each in objects:
        what = f"{who}: object {each['kind']} {each['metadata']['name']}"
        path = _path_of(api, each, what)
        query = {"fieldManager": "trafficdist-recipe", "force": "true"}
        answer = api.request("PATCH", path, each, content_type=_APPLY, query=query)
        if answer.code >= 400:
            raise StartError(f"{what} is refused: {answer.code} {answer.body.get('message', '')}", exited=True)
        if each["kind"] == _DEFINITION:
            _await_served(api, path, what)


def _path_of(api: Api, manifest: Object, what: str) -> str:
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    served = next((each for each in _served(api, version) if each["kind"] == manifest["kind"]), None)
    if served is None:
        raise StartError(f"{what}: the API server does not serve this kind in {version}", exited=True)
    namespace = f"/namespaces/{quote(metadata.get('namespace', 'default'), safe='')}" if served["namespaced"] else ""
    return f"{_root(version)}{namespace}/{served['name']}/{quote(metadata['name'], safe='')}"


def _served(api: Api, version: str) -> list[Object]:
    """Return the resources of a group and version without subresources, or none if the API server does not serve it."""
    answer = api.request("GET", _root(version))
    listed = answer.body.get("resources") or () if answer.code == 200 else ()
    return [each for each in listed if "/" not in each["name"]]


def _root(version: str) -> str:
    return f"/apis/{quote(version)}" if "/" in version else f"/api/{quote(version)}"


def _await_served(api: Api, path: str, what: str) -> None:
    lacking = "the condition Established"

    def served() -> bool:
        nonlocal lacking
        found = api.request("GET", path).body
        conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
        established = conditions.get("Established") or {}
        lacking = f"the condition Established ({established.get('message', 'not set yet')})"
        if established.get("status") != "True":
            return False
        spec = found["spec"]
        for version in [f"{spec['group']}/{each['name']}" for each in spec["versions"] if each.get("served")]:
            lacking = f"the API server to serve {version}"
            if all(each["kind"] != spec["names"]["kind"] for each in _served(api, version)):
                return False
        return True

    try:
        eventually(served, within=SERVED_SECONDS, describe=lambda: lacking, every=0.05, error=InconclusiveError)
    except InconclusiveError as error:
        raise StartError(f"{what}: {error}", exited=True) from error
