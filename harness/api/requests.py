"""Show a scenario's API requests in the style of kubectl: `+1,645 ms  create endpointslice web-1 -n td-3`."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http.client import responses
from urllib.parse import parse_qsl

from harness.model.times import since_start

MOST_LINES = 1000

_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete", "GET": "get"}

_FLAGS = {"labelSelector": "-l ", "fieldSelector": "--field-selector=", "gracePeriodSeconds": "--grace-period="}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request: its time (monotonic seconds), status code (0: no response), and client ("": this process)."""

    at: float
    method: str
    path: str
    code: int
    name: str = ""
    query: str = ""
    by: str = ""

    @property
    def read(self) -> str:
        """Return a description like "list nodes" or "watch pods by name", or "" if the request is not a read."""
        place = _place(self.path)
        if self.method != "GET" or not place.resource:
            return ""
        one = " by name" if "fieldSelector=metadata.name" in self.query else ""
        return f"{'watch' if 'watch=' in self.query else 'get' if place.name else 'list'} {place.resource}{one}"


@dataclass(frozen=True, slots=True)
class _ResourcePath:
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def as_text(asked: Iterable[ApiRequest], namespace: str, *, zero: float) -> str:
    """Return the requests since `zero` (monotonic s), one per line. Consecutive equal requests share a line."""
    mine = [each for each in asked if each.at >= zero and _concerns(each, namespace)]
    mine.sort(key=lambda each: each.at)
    lines = list(_lines(mine, zero))
    cut = len(lines) - MOST_LINES
    if cut > 0:
        half = MOST_LINES // 2
        lines[half:-half] = [f"… {cut} more lines omitted …"]
    head = [
        f"Requests of the scenario in namespace {namespace}, and changes to cluster-scoped objects.",
        "Times are relative to the start of the scenario.",
        "",
    ]
    return "\n".join([*head, *(lines or ["none"]), ""])


def _lines(asked: Sequence[ApiRequest], zero: float) -> Iterator[str]:
    for words, alike in itertools.groupby(asked, _in_words):
        times = [each.at - zero for each in alike]
        again = f"  ({len(times)} times, the last at {since_start(times[-1])})" if len(times) > 1 else ""
        yield f"{since_start(times[0]):>12}  {words}{again}"


def _concerns(asked: ApiRequest, namespace: str) -> bool:
    place = _place(asked.path)
    if place.resource == "namespaces":
        return namespace in (place.name, asked.name)
    if place.namespace:
        return place.namespace == namespace and "watch=" not in asked.query
    return asked.method != "GET" and not asked.by and place.resource != "leases"


def _in_words(asked: ApiRequest) -> str:
    place = _place(asked.path)
    name = place.name or asked.name
    verb = _VERBS.get(asked.method, asked.method.lower())
    kind = (place.resource.removesuffix("s") if name else place.resource) or asked.path
    words = [verb, kind, *([name] if name else []), *(["-n", place.namespace] if place.namespace else [])]
    if place.subresource == "eviction":
        words[0] = "evict"
    elif place.subresource:
        words.append(f"--subresource={place.subresource}")
    words += [_FLAGS.get(name, f"?{name}=") + value for name, value in parse_qsl(asked.query, keep_blank_values=True)]
    if not asked.code:
        words.append("→ no answer")
    elif asked.code >= 400:
        words.append(f"→ {asked.code} {responses.get(asked.code, '')}".rstrip())
    return " ".join([*words, *([f"by {asked.by}"] if asked.by else [])])


def _place(path: str) -> _ResourcePath:
    """Parse `/api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`. All parts except the resource are optional."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    return _ResourcePath(resource, namespace, name, subresource)
