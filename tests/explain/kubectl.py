"""A minimal kubectl. It runs the commands of remedies through the API."""

from __future__ import annotations

import json
import shlex

from harness.api.client import Api, RefusedError, path_of

_RESOURCES = {"service": "services", "node": "nodes", "pod": "pods", "endpointslice": "endpointslices"}


def run(command: str, api: Api) -> None:
    """Run commands that are separated by `;`, though nothing is needed. Raises `ValueError` for unknown commands."""
    for each in command.removeprefix("nothing, or ").split(";"):
        _run(shlex.split(each), api)


def _run(words: list[str], api: Api) -> None:
    if words[:1] != ["kubectl"]:
        raise ValueError(f"{shlex.join(words)}: no command")
    rest, namespace = words[1:], ""
    if rest[0] == "-n":
        namespace, rest = rest[1], rest[2:]
    verb, resource, name, *more = [each for each in rest if each != "--overwrite"]
    kind = _RESOURCES[resource]
    match verb, more:
        case "patch", ["--type=json", "-p", patch]:
            path = path_of(kind, namespace, name)
            answer = api.request("PATCH", path, json.loads(patch), content_type="application/json-patch+json")
            if answer.code >= 400:
                raise RefusedError("PATCH", path, answer)
        case "patch", ["-p", patch]:
            api.patch(kind, namespace, name, json.loads(patch))
        case "annotate" | "label", [change]:
            key, _, value = change.removesuffix("-").partition("=")
            field = "labels" if verb == "label" else "annotations"
            api.patch(kind, namespace, name, {"metadata": {field: {key: None if change.endswith("-") else value}}})
        case "delete", []:
            api.delete(kind, namespace, name, grace_seconds=0)
        case _:
            raise ValueError(f"{shlex.join(words)}: not known here")
