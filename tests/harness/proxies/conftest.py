"""Fake proxies. Fake proxies are small Python programs that exit, hang, never become ready, or write a log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.backends.implementation import reference
from harness.backends.netns import NetnsBackend
from harness.eventually import eventually
from harness.model.topology import grid
from harness.netns import sandbox
from harness.netns.namespace import Namespace
from harness.proxies.executable import ExecutableProxy
from harness.recipes.recipe import OF_PROXY, parse_recipe

_HEAD = """
import http.server, os, signal, sys, threading, time
def serve(code=lambda: 200):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(code()); self.end_headers(); self.wfile.write(b"up 1")
        def log_message(self, *_): pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 10256), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
"""

BODIES = {
    "runs": "serve(); print('serving', flush=True); signal.pause()",
    "exits": "print('starting\\nbad flag: --nodes\\nUsage:\\n  --node NAME', flush=True); sys.exit(3)",
    "hangs": "print('thinking', flush=True); signal.pause()",
    "unready": "serve(lambda: 503); print('waiting for nothing', flush=True); signal.pause()",
    "dies": "serve(); time.sleep(0.5); print('out of luck', flush=True); os._exit(4)",
    "dies-when-told": "serve(); told = __file__ + '.told'\nwhile not os.path.exists(told): time.sleep(0.01)\n"
    "print('out of luck', flush=True); os._exit(4)",
    "stubborn": "signal.signal(15, signal.SIG_IGN); serve(); print('no', flush=True)\nwhile True: signal.pause()",
}

MARK = "stat -Lc %i /proc/self/ns/pid"
"""A shell command that prints the number of the PID namespace of a node's programs."""

MakeFake = Callable[[str], list[str]]
Boot = Callable[..., NetnsBackend]

ONE_NODE = grid("one-node", {"a": 1})


@pytest.fixture(autouse=True, scope="session")
def _sandbox() -> None:
    sandbox.enter()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.create() as created:
        yield created


@pytest.fixture
def fake(tmp_path: Path) -> MakeFake:
    """Return a function that turns the name of a behaviour into the command of a fake proxy."""

    def make(what: str) -> list[str]:
        script = tmp_path / f"{what}.py"
        script.write_text(f"{_HEAD}\n{BODIES[what]}\n", encoding="utf-8")
        return [sys.executable, str(script)]

    return make


def processes_in(pid_namespace: int) -> list[str]:
    """Return the processes in a PID namespace, including zombies."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (each / "ns/pid").stat().st_ino == pid_namespace:
                found.append(f"{each.name} {(each / 'comm').read_text().strip()}")
    return found


def program(name: str, script: str, **more: Any) -> dict[str, Any]:
    """Return a program that runs until it is stopped. Its script prints "up" when it is ready."""
    return {"name": name, "command": ["sh", "-c", f"{script}; exec sleep 600"], "ready": [{"log": "^up"}]} | more


@contextlib.contextmanager
def checking(recipe: dict[str, Any], folder: Path, *, until: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `proxy check` on a recipe in this folder.

    Enter the block when file `until` exists. Kill the command at the end.
    """
    (folder / "fake.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    running = subprocess.Popen(
        [str(Path(sys.executable).with_name("trafficdist")), "proxy", "check", str(folder / "fake.yaml")],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},  # for the files that it leaves when it is killed
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: until.exists() or running.poll() is not None, describe="its start")
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.fixture
def boot(fake: MakeFake) -> Iterator[Boot]:
    """Return a function that boots a cluster with a fake proxy. The cluster has one node unless `topology` is given."""
    booted: list[NetnsBackend] = []

    def make(what: str, *, topology: Any = ONE_NODE, control_plane: Any = None, **changes: Any) -> NetnsBackend:
        recipe = parse_recipe(
            {"name": "fake", "quiet_seconds": 0}
            | ({} if "programs" in changes else {"command": fake(what), "ready": [{"http": {"port": 10256}}]})
            | changes,
            OF_PROXY,
        )

        def proxy(plane: Any, pod_cidrs: Any) -> ExecutableProxy:
            return ExecutableProxy(plane, recipe, pod_cidrs=pod_cidrs)

        implementation = replace(
            reference(),
            proxy=proxy,
            services=recipe.services,
            control_plane=control_plane or reference().control_plane,
        )
        booted.append(NetnsBackend(topology, implementation=implementation))
        return booted[-1].start()

    yield make
    for each in booted:
        each.close()
