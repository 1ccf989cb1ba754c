"""The bytes of an HTTP connection after its upgrade to SPDY, which aiohttp does not know."""

from __future__ import annotations

import asyncio

from aiohttp import web

_CHUNK = 1 << 16
_VERSION = "X-Stream-Protocol-Version"
_UPGRADE = "SPDY/3.1"


class Upgraded:
    """A wire; see `Wire`. Made by `to_spdy`."""

    def __init__(self, reader: asyncio.StreamReader, response: web.StreamResponse) -> None:
        self._reader = reader
        self.response = response
        """What the handler of the request returns in the end."""

    async def read(self) -> bytes:
        """Return some bytes; none at the end."""
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self.response.write(data)


async def to_spdy(request: web.BaseRequest, protocol: str) -> Upgraded | web.Response:
    """Switch to SPDY with this protocol in it; the connection ends with the request.

    Returns a refusal if the client does not ask for that. Raises `ConnectionError`.
    """
    offered = {each.strip() for text in request.headers.getall(_VERSION, []) for each in text.split(",")}
    if _UPGRADE.lower() not in request.headers.get("Upgrade", "").lower():
        return web.Response(status=400, text="unable to upgrade: missing upgrade headers in request\n")
    if protocol not in offered:
        said = f"unable to upgrade: unable to negotiate protocol: server accepts [{protocol}]\n"
        return web.Response(status=403, text=said, headers={"X-Accepted-Stream-Protocol-Versions": protocol})
    if request.transport is None:
        raise ConnectionResetError("the client has gone")
    reader = asyncio.StreamReader()
    reader.set_transport(request.transport)
    request.protocol.set_parser(_Feeder(reader))  # type: ignore[arg-type]  # it calls these two methods only
    response = web.StreamResponse(
        status=101, headers={"Connection": "Upgrade", "Upgrade": _UPGRADE, _VERSION: protocol}
    )
    response.force_close()
    await response.prepare(request)
    return Upgraded(reader, response)


class _Feeder:
    """What comes goes to a reader, which holds the client back when there is too much."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes; return that there may be more."""
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        """Note that the client has gone."""
        self._reader.feed_eof()
