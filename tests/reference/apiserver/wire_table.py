"""Generate `wire.json`, the field numbers and types of Kubernetes' kinds, from the tags in Kubernetes' Go types.

    python -m tests.reference.apiserver.wire_table API APIMACHINERY > reference/apiserver/wire.json

API and APIMACHINERY are the folders of the Go modules k8s.io/api and k8s.io/apimachinery. Run this only when a new
release adds fields.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_GROUPS = {
    "core": "core/v1", "discovery": "discovery/v1", "events": "events/v1", "coordination": "coordination/v1",
    "networking": "networking/v1", "policy": "policy/v1", "authentication": "authentication/v1",
    "authorization": "authorization/v1",
}  # fmt: skip
_KINDS = {
    "v1": ("core", ("Namespace", "Node", "Pod", "Service", "Event", "ConfigMap", "Secret")),
    "meta.k8s.io/v1": ("meta", ("DeleteOptions",)),
    "discovery.k8s.io/v1": ("discovery", ("EndpointSlice",)),
    "events.k8s.io/v1": ("events", ("Event",)),
    "coordination.k8s.io/v1": ("coordination", ("Lease",)),
    "networking.k8s.io/v1": ("networking", ("ServiceCIDR",)),
    "policy/v1": ("policy", ("Eviction",)),
    "authentication.k8s.io/v1": ("authentication", ("SelfSubjectReview",)),
    "authorization.k8s.io/v1": ("authorization", ("SelfSubjectAccessReview",)),
}  # fmt: skip
_LEAVES = {
    "string": "string", "bool": "bool", "int": "int", "int32": "int", "int64": "int", "byte": "bytes",
    "meta.Time": "time", "meta.MicroTime": "microtime", "resource.Quantity": "quantity",
    "intstr.IntOrString": "int or string", "meta.FieldsV1": "json", "runtime.RawExtension": "json",
    "types.UID": "string",
}  # fmt: skip
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) ([\w.\[\]]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:\w+ +)?([\w.*\[\]]+) +`(.*protobuf:.*)`", re.MULTILINE)
_ALIASES = {"metav1": "meta", "corev1": "core", "v1": "core"}

Types = dict[str, str]


def table(api: Path, machinery: Path) -> dict[str, dict[str, object]]:
    """Return all kinds with their fields."""
    sources = {name: api / path for name, path in _GROUPS.items()} | {"meta": machinery / "pkg/apis/meta/v1"}
    structs: dict[str, list[tuple[str, str]]] = {}
    named: Types = {}
    for group, folder in sources.items():
        text = "\n".join(path.read_text() for path in sorted(folder.glob("*types.go")))
        structs |= {f"{group}.{name}": _FIELD.findall(body) for name, body in _STRUCT.findall(text)}
        named |= {f"{group}.{name}": _qualified(of, group) for name, of in _NAMED.findall(text)}
    kinds = {f"{version} {kind}": f"{group}.{kind}" for version, (group, names) in _KINDS.items() for kind in names}
    messages: dict[str, object] = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in messages:
            group = name.partition(".")[0]
            fields = [_field(go, tags, group, named) for go, tags in structs[name]]
            known = structs.keys() | set(_LEAVES.values())
            messages[name] = {number: entry for number, entry in fields if entry[1] in known}
            waiting += [entry[1] for _, entry in fields if entry[1] in structs]
    return {"kinds": dict(kinds), "messages": dict(sorted(messages.items()))}


def _field(go: str, tags: str, group: str, named: Types) -> tuple[str, list[str]]:
    """Return the field number and a list: JSON name ("" if inlined), type, and flags (list, map, or omitted when 0)."""
    json_tag, protobuf = (_tag(tags, name).split(",") for name in ("json", "protobuf"))
    pointer, go = go.startswith("*"), _qualified(go.lstrip("*"), group)
    go = named.get(go, go)
    how = "omitted" if not pointer and {"omitempty", "omitzero"} & set(json_tag) else ""
    if go.startswith("map["):
        how, go = "map", go.partition("]")[2]
    elif go.startswith("[]") and go != "[]byte":
        how, go = "list", go[2:]
    go = _qualified(go.removeprefix("[]").lstrip("*"), group)
    go = named.get(go, go)
    return protobuf[1], [json_tag[0], _LEAVES.get(go, go), how]


def _tag(tags: str, name: str) -> str:
    found = re.search(rf'{name}:"([^"]*)"', tags)
    return found[1] if found else ""


def _qualified(go: str, group: str) -> str:
    """Return a Go type name with its group.

    For example, `metav1.Time` becomes `meta.Time`, and `Pod` becomes `core.Pod`.
    """
    prefix, _, rest = re.fullmatch(r"((?:map\[[\w.]+\]|\[\])*)(\*?)(.*)", go).groups()  # type: ignore[union-attr]
    if "." in rest:
        package, _, name = rest.partition(".")
        return f"{prefix}{_ALIASES.get(package, package)}.{name}"
    return f"{prefix}{rest}" if rest in _LEAVES else f"{prefix}{group}.{rest}"


def _lines(made: dict[str, dict[str, object]]) -> Iterator[str]:
    for name, part in made.items():
        entries = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
        yield f"{json.dumps(name)}: {{\n{entries}\n}}"


def main(arguments: Sequence[str]) -> None:
    """Print the table, one message per line."""
    api, machinery = (Path(each) for each in arguments)
    sys.stdout.write("{" + ",\n".join(_lines(table(api, machinery))) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
