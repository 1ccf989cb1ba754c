"""A program that runs for a client: its streams are the client's, and its end is told as a Status of the API."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from emulator.kubelet.sandbox import NoProgramError, SandboxProcess
from emulator.kubelet.server.descriptors import Descriptors, reading, writing
from emulator.kubelet.server.streams import Stream
from harness.errors import HarnessError

Object = dict[str, Any]

_CHUNK = 1 << 16
STANDARD = ("stdin", "stdout", "stderr")


class Runs(Protocol):
    """A container in which programs can be started."""

    def exec(self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, tty: bool = False) -> SandboxProcess:
        """Start a program; see `RunningContainer.exec`."""


async def run(container: Runs, argv: Sequence[str], streams: Mapping[str, Stream], *, tty: bool) -> Object:
    """Run a program until it has ended and all that it wrote is sent. Return the Status that says how it ended.

    It is killed if this is cancelled. Raises `ConnectionError` if the client has gone.
    """
    with contextlib.ExitStack() as held:
        descriptors = Descriptors([name for name in STANDARD if name in streams], tty=tty)
        held.callback(descriptors.close)
        try:
            process = await asyncio.to_thread(
                container.exec,
                argv,
                stdin=descriptors.stdin,
                stdout=descriptors.stdout,
                stderr=descriptors.stderr,
                tty=tty,
            )
        except (NoProgramError, HarnessError, OSError) as error:
            return _internal_error(f"error executing command in container: {error}")
        held.callback(process.close)
        descriptors.started()
        return _status(await _carry(process, descriptors, streams), argv)


async def _carry(process: SandboxProcess, descriptors: Descriptors, streams: Mapping[str, Stream]) -> int:
    """Carry bytes between a program and its client; return its exit code."""
    outputs = [(streams[name], descriptors.take(name)) for name in descriptors.outputs]
    beside = []
    if (stdin := descriptors.take("stdin")) is not None:
        beside.append(asyncio.create_task(_from_client(streams["stdin"], stdin)))
    if "resize" in streams:
        beside.append(asyncio.create_task(_resize(streams["resize"], descriptors)))
    try:
        async with asyncio.TaskGroup() as group:
            code = group.create_task(_exit_code(process))
            for stream, descriptor in outputs:
                assert descriptor is not None
                group.create_task(_to_client(descriptor, stream))
    except* ConnectionError as gone:
        raise ConnectionResetError("the client has gone") from gone
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    return code.result()


async def _exit_code(process: SandboxProcess) -> int:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.fileno(), ended.set)
    try:
        while (code := process.poll()) is None:
            ended.clear()
            await ended.wait()
    finally:
        loop.remove_reader(process.fileno())
    return code


async def _to_client(descriptor: int, stream: Stream) -> None:
    async with reading(descriptor) as reader:
        while data := await _read(reader):
            await stream.write(data)


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except OSError:  # EIO: nobody has the terminal open any more
        return b""


async def _from_client(stream: Stream, descriptor: int) -> None:
    try:
        async with writing(descriptor) as writer:
            while data := await stream.read():
                writer.write(data)
                await writer.drain()
    except OSError:  # the program reads no more
        pass
    finally:
        stream.ignore()


async def _resize(stream: Stream, descriptors: Descriptors) -> None:
    """Take sizes as JSON objects, one after the other."""
    decoder, text = json.JSONDecoder(), ""
    while data := await stream.read():
        text += data.decode(errors="replace")
        with contextlib.suppress(ValueError):  # the rest of it is still to come
            while text := text.lstrip():
                size, end = decoder.raw_decode(text)
                text = text[end:]
                descriptors.resize(int(size["Width"]), int(size["Height"]))


def _status(code: int, argv: Sequence[str]) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    said = f"error executing command [{' '.join(argv)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {said}",
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
