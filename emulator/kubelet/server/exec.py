"""Run programs in containers for clients, over WebSockets, and then send a Status with the exit code."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from emulator.kubelet.running_container import RunningContainer
from emulator.kubelet.running_program import exit_code
from emulator.kubelet.sandbox import NoProgramError, SandboxProcess
from emulator.kubelet.server import channels
from emulator.kubelet.server.channels import V4, V5, Channel, Channels
from emulator.kubelet.standard_streams import StandardStreams, reading, writing
from harness.errors import HarnessError
from harness.model.manifests import Object

_STANDARD = ("stdin", "stdout", "stderr")
_CHANNELS = (*_STANDARD, "error", "resize")  # the index is the channel number
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class ExecOptions:
    argv: Sequence[str]
    streams: frozenset[str]
    tty: bool

    @classmethod
    def parse(cls, request: web.BaseRequest) -> "ExecOptions":
        """Parse the query of an exec request. Raises `ValueError` with the error message of a kubelet."""
        query = request.query
        tty = query.get("tty") == "1"
        named = {"stdin": "input", "stdout": "output", "stderr": "error"}
        streams = {name for name, key in named.items() if query.get(key) == "1"}
        if tty:
            streams.discard("stderr")
        if not streams:
            raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
        return cls(query.getall("command", []), frozenset({*streams, "error", *(("resize",) if tty else ())}), tty)


async def serve(request: web.BaseRequest, container: RunningContainer, options: ExecOptions) -> web.StreamResponse:
    """Upgrade the connection, run the program, and finally send a Status. Raises `ConnectionError`."""
    websocket = await channels.upgrade(request, (V5, V4))
    if websocket is None:
        # The message has no colon, because clients would parse a YAML mapping as a Status.
        text = f"the server accepts WebSockets with {V5} or {V4}, which kubectl uses since 1.31\n"
        return web.Response(status=403, text=text)
    every = Channels(websocket, len(_CHANNELS))
    named = dict(zip(_CHANNELS, every.every, strict=True))
    for name in named.keys() - options.streams:
        named.pop(name).ignore()
    first = next(name for name in ("stdout", "stderr", "error") if name in named)
    async with background(every.serve()) as gone:
        await named[first].write(b"")  # an empty message tells the client that it is connected
        await _run(container, options, named, gone)
    await websocket.close()  # wait for the client's last message if no other task reads
    return websocket


@contextlib.asynccontextmanager
async def background(coroutine: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _run(
    container: RunningContainer, options: ExecOptions, opened: Mapping[str, Channel], gone: asyncio.Task[None]
) -> None:
    running = asyncio.create_task(_run_to_its_end(container, options, opened))
    try:
        await asyncio.wait([running, gone], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ConnectionResetError("the client has disconnected")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await opened["error"].write(json.dumps(running.result()).encode())


async def _run_to_its_end(container: RunningContainer, options: ExecOptions, opened: Mapping[str, Channel]) -> Object:
    """Run a program, and return its final Status. Cancelling kills the program. Raises `ConnectionError`."""
    names = [name for name in _STANDARD if name in opened]
    with contextlib.closing(StandardStreams(names, tty=options.tty)) as standard:
        try:
            process = await asyncio.to_thread(container.exec, options.argv, standard)
        except (NoProgramError, HarnessError, OSError) as error:
            return _internal_error(f"error executing command in container: {error}")
        with contextlib.closing(process):
            standard.started()
            return _status(await _carry(process, standard, opened), options.argv)


async def _carry(process: SandboxProcess, standard: StandardStreams, opened: Mapping[str, Channel]) -> int:
    async with contextlib.AsyncExitStack() as inputs:
        if "stdin" in opened:
            await inputs.enter_async_context(background(_from_client(opened["stdin"], standard.take("stdin"))))
        if "resize" in opened:
            await inputs.enter_async_context(background(_resize(opened["resize"], standard)))
        try:
            async with asyncio.TaskGroup() as group:
                code = group.create_task(exit_code(process))
                for name in ("stdout", "stderr"):
                    if name in opened:
                        group.create_task(_to_client(standard.take(name), opened[name]))
        except* ConnectionError as gone:
            raise ConnectionResetError("the client has disconnected") from gone
    return code.result()


async def _to_client(descriptor: int, stream: Channel) -> None:
    async with reading(descriptor) as reader:
        while data := await _read(reader):
            await stream.write(data)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except OSError:  # EIO: all programs have closed the terminal
        return b""


async def _from_client(stream: Channel, descriptor: int) -> None:
    try:
        async with writing(descriptor) as writer:
            while data := await stream.read():
                writer.write(data)
                await writer.drain()
    except OSError:  # the program has closed its stdin
        pass
    finally:
        stream.ignore()


async def _resize(stream: Channel, standard: StandardStreams) -> None:
    """Set the terminal to the sizes that the client sends as consecutive JSON objects."""
    decoder, text = json.JSONDecoder(), ""
    while data := await stream.read():
        text += data.decode(errors="replace")
        with contextlib.suppress(ValueError):  # the remaining bytes of the object have not arrived yet
            while text := text.lstrip():
                size, end = decoder.raw_decode(text)
                text = text[end:]
                standard.resize(int(size["Width"]), int(size["Height"]))


def _status(code: int, argv: Sequence[str]) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    why = f"error executing command [{' '.join(argv)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {why}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _internal_error(why: str) -> Object:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "code": 500,
    }
