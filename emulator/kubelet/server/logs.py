"""Serve the log of a container as an HTTP response. If the client follows the log, the response continues."""

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web

from emulator.kubelet.container_log import ContainerLog, LogLine

_CHUNK = 1 << 16
_TRUE = frozenset({"true", "1"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of a log that a client requests. `since` is in seconds since the epoch, `limit` in bytes."""

    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since: float | None
    limit: int | None
    stream: str

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Wanted":
        """Parse a query. Raises `ValueError`."""
        number = {name: int(query[name]) for name in ("tailLines", "sinceSeconds", "limitBytes") if query.get(name)}
        since = None
        if "sinceSeconds" in number:
            since = time.time() - number["sinceSeconds"]
        elif query.get("sinceTime"):
            since = datetime.fromisoformat(query["sinceTime"]).timestamp()
        return cls(
            follow=query.get("follow") in _TRUE,
            previous=query.get("previous") in _TRUE,
            timestamps=query.get("timestamps") in _TRUE,
            tail=number.get("tailLines"),
            since=since,
            limit=number.get("limitBytes"),
            stream=query.get("stream", "All").lower(),
        )


async def serve(request: web.BaseRequest, log: ContainerLog, wanted: Wanted) -> web.StreamResponse:
    """Send these lines, and also later lines if the client follows the log."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    left = wanted.limit
    async for text in _texts(log, wanted):
        await response.write(text if left is None else text[:left])
        if left is not None and (left := left - len(text)) <= 0:
            break
    await response.write_eof()
    return response


async def _texts(log: ContainerLog, wanted: Wanted) -> AsyncIterator[bytes]:
    if not wanted.follow:
        for text in _joined(_shown(line, wanted) for line in log.lines(tail=wanted.tail, since=wanted.since)):
            yield text
        return
    async with contextlib.aclosing(log.follow(tail=wanted.tail, since=wanted.since)) as lines:
        async for line in lines:
            if text := _shown(line, wanted):
                yield text


def _shown(line: LogLine, wanted: Wanted) -> bytes:
    return line.shown(timestamps=wanted.timestamps) if wanted.stream in {"all", line.stream} else b""


def _joined(texts: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines into chunks, so that a long log needs only a few writes."""
    gathered = bytearray()
    for text in texts:
        gathered += text
        if len(gathered) >= _CHUNK:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)
