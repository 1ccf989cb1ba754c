"""Watches over HTTP: sends each change in the store to clients, as a line of JSON that contains one watch event.

A write only queues its change, so its cost does not depend on the number of clients. The server's thread takes the
whole queue, creates each line once, and sends it to all clients that selected the object.

Unread lines wait in the small buffer of the client's connection. A client whose buffer is full gets no more lines from
the queue. When it reads again, it catches up from the changes that the store remembers, as if it had started a new
watch. If the store no longer remembers them, the watch ends with 410, as in kube-apiserver. If all buffers together are
too large, the server closes the connections with the largest buffers.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

import orjson

from reference.apiserver import status
from reference.apiserver.connection import abort
from reference.apiserver.reads import parse_revision
from reference.apiserver.render import Renderer
from reference.apiserver.selectors import Selection
from reference.apiserver.store import Change, ChangeType, Store, StoredObject, TooOldError
from reference.client import ApiError, Key, key_of

MAX_WAITING_BYTES = 256 * 1024
"""The maximum number of unread bytes of one client, not counting the buffers of TLS and the socket."""

MAX_WAITING_BYTES_OF_ALL = 64 * 1024 * 1024
"""The maximum number of unread bytes of all clients together."""

MAX_WATCHES = 2000

CHUNK = 64 * 1024
"""The approximate number of bytes per write to a client that catches up. Writing single lines would be slow."""

PAUSE = 0.002
"""The time in seconds between deliveries, each of which costs a TLS record and a system call for every watcher."""

_PREFIX = {
    each: b'{"type":"%s","object":' % each.encode() for each in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """The parameters of a watch request, except the selectors. `initial` is `sendInitialEvents`, or None if absent."""

    resource_version: str = ""
    match: str = ""
    initial: bool | None = None
    bookmarks: bool = False


class Watcher:
    """One client's watch, used only in the server's thread. It writes HTTP/1.1 chunks directly to the transport."""

    def __init__(self, selection: Selection, renderer: Renderer, since: int, transport: asyncio.Transport) -> None:
        self.selection, self.renderer, self.since = selection, renderer, since
        self.sees = (selection.namespace, selection.source, renderer.form)
        """A cache key: watchers of the same resource with equal keys receive equal lines."""
        self.ended = False
        self.behind = True
        """True while the connection's task sends the initial state, or changes that the client did not read in time."""
        self.counted = 0
        """The number of unread bytes that `WatchHub` has counted for this watch."""
        self.initial: deque[Key] | None = None
        """The keys of the objects of the initial state (at the revision `since`) that are not yet sent."""
        self.marks_initial = False
        """True if a bookmark follows the initial state."""
        self._call = asyncio.Event()
        self.transport = transport

    @property
    def waiting(self) -> int:
        """The number of bytes in the transport's write buffer, which the client has not read."""
        return self.transport.get_write_buffer_size()

    def send(self, lines: bytes) -> None:
        """Send lines. If too many bytes would then be unread, set `behind` instead: the client catches up later."""
        if self.transport.is_closing():
            return
        if len(lines) + self.waiting > MAX_WAITING_BYTES:
            self.behind = True
            self._call.set()
        else:
            self.transport.write(b"%x\r\n%b\r\n" % (len(lines), lines))

    def end(self) -> None:
        self.ended = True
        self._call.set()

    async def called(self) -> None:
        """Wait until the watch has ended or has fallen behind."""
        await self._call.wait()
        self._call.clear()


def _send(watcher: Watcher, changes: list[Change], known: dict[object, bytes]) -> None:
    """Send changes to a watcher, or none if it falls behind. `known` caches lines for other watchers."""
    # A watch that began in the middle of the changes gets lines of its own.
    key = watcher.sees if watcher.since < changes[0].revision else watcher
    lines = known.get(key)
    if lines is None:
        lines = known[key] = _lines(watcher, changes)
    if lines:
        watcher.send(lines)
    if not watcher.behind:
        watcher.since = max(watcher.since, changes[-1].revision)


def _lines(watcher: Watcher, changes: list[Change]) -> bytes:
    new = (change for change in changes if change.revision > watcher.since)
    return b"".join(line_for(change, watcher.selection, watcher.renderer) for change in new)


class WatchHub:
    """Sends the store's changes to the watchers of one server. All methods except `_observe` run in the event loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store, self._loop = store, loop
        self._queue: deque[Change] = deque()
        self._woken = False
        self._closed = False
        self._last = 0.0
        self._watchers: dict[str, set[Watcher]] = {}
        self._waiting = 0  # the sum of `counted`, which is at least the sum of `waiting`

    def open(
        self, selection: Selection, renderer: Renderer, query: WatchQuery, transport: asyncio.Transport
    ) -> Watcher:
        """Start a watch. Raises `ApiError`: 400, 422, 429, 503, 504."""
        resource = renderer.route.resource
        with self._store.lock:
            if self._closed:
                raise status.unavailable()
            if sum(map(len, self._watchers.values())) >= MAX_WATCHES:
                raise status.too_many_watches(MAX_WATCHES)
            if resource not in self._watchers:
                self._watchers[resource] = set()
                self._store.observe([resource], self._observe)
            asked, current = parse_revision(query.resource_version), self._store.revision
            _check(query, asked, current)
            watcher = Watcher(selection, renderer, asked or current, transport)
            if query.initial or (query.initial is None and asked == 0):
                watcher.since = current
                watcher.initial = deque(sorted(self._store.keys(resource)))
                watcher.marks_initial = bool(query.initial and query.bookmarks)
            self._watchers[resource].add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers[watcher.renderer.route.resource].discard(watcher)
        self._waiting -= watcher.counted
        watcher.counted = 0

    def count(self, watcher: Watcher, more: int = 0) -> None:
        """Count a client's unread bytes and `more`. If the total is too large, disconnect the clients with the most."""
        if watcher not in self._watchers[watcher.renderer.route.resource]:
            return
        counted = watcher.waiting + more
        self._waiting += counted - watcher.counted
        watcher.counted = counted
        if self._waiting <= MAX_WAITING_BYTES_OF_ALL:
            return
        everyone = [each for some in self._watchers.values() for each in some]
        for each in everyone:
            each.counted = counted if each is watcher else each.waiting
        self._waiting = sum(each.counted for each in everyone)
        for each in sorted(everyone, key=lambda each: each.counted, reverse=True):
            if self._waiting <= MAX_WAITING_BYTES_OF_ALL:
                return
            self.leave(each)
            abort(each.transport)

    def bookmark(self, watcher: Watcher) -> None:
        """Send a BOOKMARK with the revision up to which the client has received all changes."""
        with self._store.lock:
            self._deliver()
            if not watcher.behind:  # if it is behind, it has not received all changes
                watcher.send(line("BOOKMARK", watcher.renderer.bookmark(self._store.revision, end_of_initial=False)))
                self.count(watcher)

    def missed(self, watcher: Watcher) -> bytes | None:
        """Return the next lines for a watcher that is behind, or None if it has caught up. Raises `ApiError` (410)."""
        lines, resource = bytearray(), watcher.renderer.route.resource
        with self._store.lock:
            try:
                changes = self._store.changes_since(resource, watcher.since)
            except TooOldError as error:
                raise status.expired(str(error)) from None
            if watcher.since > self._store.revision:
                said = f"too old resource version: {watcher.since}: this server is at {self._store.revision}"
                raise status.expired(said)
            if watcher.initial is not None:
                before = {key_of(each.new.object): each.old for each in reversed(changes)}
                while watcher.initial and len(lines) < CHUNK:
                    key = watcher.initial.popleft()
                    stored = before[key] if key in before else self._store.get(resource, key)
                    if stored is not None and watcher.selection.matches(stored.object):
                        lines += line("ADDED", watcher.renderer.json(stored))
                if watcher.marks_initial and not watcher.initial:
                    lines += line("BOOKMARK", watcher.renderer.bookmark(watcher.since, end_of_initial=True))
                watcher.initial = watcher.initial or None
                return bytes(lines)
            watcher.behind = bool(changes)
            for change in changes:
                lines += line_for(change, watcher.selection, watcher.renderer)
                watcher.since = change.revision
                if len(lines) >= CHUNK:
                    break
        return bytes(lines) if changes else None

    def end_all(self) -> None:
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.end()

    def close(self) -> None:
        """Stop following changes, and refuse new watches, because requests may still arrive while the server stops."""
        with self._store.lock:
            self._closed = True
            self._store.forget(self._observe)

    def _observe(self, change: Change) -> None:
        self._queue.append(change)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        due = self._last + PAUSE
        if due <= self._loop.time():
            self._deliver()
        else:
            self._loop.call_at(due, self._deliver)

    def _deliver(self) -> None:
        self._last = self._loop.time()
        with self._store.lock:
            changes = list(self._queue)
            self._queue.clear()
            self._woken = False
        for resource in {change.resource for change in changes}:
            of_resource, known = [change for change in changes if change.resource == resource], dict[object, bytes]()
            for watcher in tuple(self._watchers[resource]):
                if not watcher.behind:
                    _send(watcher, of_resource, known)
                    self.count(watcher)


def line(type_: str, json: bytes) -> bytes:
    return b"".join((_PREFIX[type_], json, b"}\n"))


def error_line(error: ApiError) -> bytes:
    return line("ERROR", orjson.dumps(error.status))


def line_for(change: Change, selection: Selection, renderer: Renderer) -> bytes:
    """Return the event of a change, or b"" if there is none. An object that leaves the selection is sent as DELETED."""
    seen = _seen(change, selection)
    return b"" if seen is None else line(seen[0], renderer.json(seen[1]))


def _seen(change: Change, selection: Selection) -> tuple[ChangeType, StoredObject] | None:
    before = change.old is not None and selection.matches(change.old.object)
    after = change.type != "DELETED" and selection.matches(change.new.object)
    if after:
        return ("MODIFIED" if before else "ADDED"), change.new
    if not before:
        return None
    if change.type == "DELETED":
        return "DELETED", change.new
    assert change.old is not None
    last = dict(change.old.object)  # as the client knew it, with the revision at which it left
    last["metadata"] = {**last["metadata"], "resourceVersion": str(change.revision)}
    return "DELETED", StoredObject(last, change.revision)


def _check(query: WatchQuery, asked: int, current: int) -> None:
    if query.initial is not None and query.match != "NotOlderThan":
        raise _forbidden_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if query.initial is None and query.match:
        raise _forbidden_match("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if asked > current and query.initial:
        raise status.too_large_version(asked, current)


def _forbidden_match(why: str) -> ApiError:
    message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {why}'
    return status.failure(422, "Invalid", message)
