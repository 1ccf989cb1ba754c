"""End the servers of an asyncio loop and their connections, before the loop is closed."""

import asyncio
from collections.abc import Collection, Iterable


async def end(servers: Iterable[asyncio.Server], connections: Collection[asyncio.Task[None]]) -> None:
    """Close servers, and wait for their connections to end. Each task is in `connections` while it runs."""
    for server in servers:
        server.close()
    await asyncio.sleep(0)  # a connection that was just accepted gets its task
    tasks = list(connections)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # now the sockets are closed
