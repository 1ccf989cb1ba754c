"""Serve the log of a container as an HTTP response. For a client that follows the log, later lines are also sent."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web

from emulator.kubelet.container_log import ContainerLog, LogLine

_TRUE = frozenset({"true", "1"})


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The part of a log that a client requests. `since` is in seconds since the epoch, `limit` in bytes."""

    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since: float | None
    limit: int | None
    stream: str

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "LogOptions":
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


async def serve(request: web.BaseRequest, log: ContainerLog, options: LogOptions) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    left = options.limit
    async for text in _texts(log, options):
        await response.write(text if left is None else text[:left])
        if left is not None and (left := left - len(text)) <= 0:
            break
    await response.write_eof()
    return response


async def _texts(log: ContainerLog, options: LogOptions) -> AsyncIterator[bytes]:
    if not options.follow:
        yield b"".join(_shown(line, options) for line in log.lines(tail=options.tail, since=options.since))
        return
    async with contextlib.aclosing(log.follow(tail=options.tail, since=options.since)) as lines:
        async for line in lines:
            if text := _shown(line, options):
                yield text


def _shown(line: LogLine, options: LogOptions) -> bytes:
    return line.shown(timestamps=options.timestamps) if options.stream in {"all", line.stream} else b""
