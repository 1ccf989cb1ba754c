"""`trafficdist cluster`: start, list, enter and stop clusters that run in the background."""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from emulator import cluster_state
from emulator.cluster_state import READY, ClusterState
from emulator.kubelet.images import EMULATED_AGNHOST
from harness.errors import HarnessError, UnavailableError, UsageError
from harness.model.evidence_text import as_table
from harness.run.plan import check_claims
from harness.settings.claims import REFERENCE
from harness.settings.options import by_name, resolve
from harness.settings.settings import Settings

_BOOT_SECONDS = 60.0
_END_SECONDS = 10.0
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000


def up(name: str, topology: str = "", families: str = "", **options: Any) -> str:
    """Start a cluster in the background, and return usage instructions. Raises `UsageError`, `UnavailableError`."""
    settings = _settings({"topology": topology, "families": families, **options})
    check_claims(settings)
    from emulator.control_plane import implementation_of  # noqa: PLC0415  other commands need no control plane

    implementation_of(settings)  # report what is missing before anything starts
    began = time.monotonic()
    folder = cluster_state.folder_of(name)
    with _locked():
        running = cluster_state.load(name)
        if running is not None:
            raise UsageError(
                f"cluster {name!r} is already running (process {running.pid}); "
                f"end it with `trafficdist cluster down --name {name}`, or choose another --name"
            )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        _start(name, folder, settings)
    state = cluster_state.load(name)
    if state is None:
        raise UnavailableError(f"cluster {name!r} ended immediately after it was ready")
    return _introduction(state, time.monotonic() - began)


def _settings(options: dict[str, Any]) -> Settings:
    """Unlike `run`, allow mutants with a real control plane, and always use --follow released."""
    fault = resolve(by_name({"mutant": options.pop("mutant", "")})).mutant
    settings = resolve(by_name({"follow": "released", **options}))
    if fault and settings.proxy.kind != REFERENCE:
        raise UsageError(f"--mutant changes the reference, so it cannot be combined with --proxy {settings.proxy}")
    return dataclasses.replace(settings, mutant=fault)


def _start(name: str, folder: Path, settings: Settings) -> None:
    reading, writing = os.pipe()
    log = folder / "log"
    with log.open("wb") as output, os.fdopen(reading, "rb") as pipe:
        written = json.dumps(settings.to_json())
        command = [sys.executable, "-P", "-m", "emulator.daemon", name, str(folder), written, str(writing)]
        process = subprocess.Popen(  # noqa: S603  this interpreter, with arguments that were checked
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[writing],
            start_new_session=True,
        )
        os.close(writing)
        try:
            ready, _, _ = select.select([pipe], [], [], _BOOT_SECONDS)
            answer = pipe.read().decode() if ready else f"it was not ready within {_BOOT_SECONDS:.0f} s"
        except KeyboardInterrupt:
            _give_up(process, folder)
            raise
    if answer != READY:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        _give_up(process, folder)
        raise UnavailableError(
            f"cluster {name!r} did not start: {answer or tail or 'it ended without an error message'}"
        )
    process.returncode = 0  # avoids Popen's warning about a child that outlives this process


def _give_up(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def listing() -> str:
    states = cluster_state.running()
    if not states:
        return "No cluster is running. `trafficdist cluster up` starts one."
    rows = [("NAME", "PROCESS", "TOPOLOGY", "NODES", "KUBECONFIG")]
    rows += [(each.name, str(each.pid), each.topology, " ".join(each.zones), str(each.kubeconfig)) for each in states]
    return as_table(rows)


def down(name: str) -> str:
    """Stop a cluster, and wait until its process has ended. Raises `HarnessError` if the process does not end."""
    with _locked():
        state = cluster_state.load(name)
        if state is None:
            return f"Cluster {name} is not running."
        _end(state)
        shutil.rmtree(cluster_state.folder_of(name), ignore_errors=True)
    return f"Cluster {name} is down."


def _end(state: ClusterState) -> None:
    """End the process through a pidfd, because process ids are reused."""
    try:
        process = os.pidfd_open(state.pid)
    except ProcessLookupError:
        return
    try:
        if not state.alive:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, number)
            ended, _, _ = select.select([process], [], [], _END_SECONDS)
            if ended:
                return
    finally:
        os.close(process)
    raise HarnessError(f"process {state.pid} of cluster {state.name!r} did not end in time")


def execute(name: str, place: str, command: Sequence[str]) -> None:
    """Replace this process with `command` in the netns of a node, a pod or the external client. Raises `UsageError`.

    If the proxy runs each node in a control group (`isolation: [cgroup2]`), the command joins the group of its node,
    because the data plane may translate the addresses of sockets in that group.
    """
    state = _running(name)
    if place not in state.places:
        raise UsageError(f"cluster {name!r} has no {place!r}: it has {', '.join(state.places)}")
    network = os.open(state.places[place], os.O_RDONLY)
    if place in state.groups:
        Path(state.groups[place]).write_text(str(os.getpid()), encoding="ascii")
    if state.user_namespace:
        _enter(os.open(state.user_namespace, os.O_RDONLY), _CLONE_NEWUSER)
    _enter(network, _CLONE_NEWNET)
    try:
        os.execvp(command[0], list(command))  # noqa: S606  the user's own command
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror}") from None


def kubeconfig(name: str) -> Path:
    return _running(name).kubeconfig


def _running(name: str) -> ClusterState:
    state = cluster_state.load(name)
    if state is None:
        others = [each.name for each in cluster_state.running()]
        near = f"running: {', '.join(others)}" if others else "none is running; `trafficdist cluster up` starts one"
        raise UsageError(f"cluster {name!r} is not running; {near}")
    return state


def _enter(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        raise UnavailableError(f"cannot enter the namespace: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    lock = os.open(cluster_state.root(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _introduction(state: ClusterState, seconds: float) -> str:
    first = next(iter(state.zones))
    named = "" if state.name == "default" else f" --name {state.name}"
    nodes = " ".join(f"{node} ({zone})" for node, zone in state.zones.items())
    kubectl = f"kubectl --kubeconfig {shlex.quote(str(state.kubeconfig))}"
    service, host = state.service, state.service["clusterIP"]
    url = f"http://{f'[{host}]' if ':' in host else host}:{service['port']}/hostname"
    user = f"--user={state.user_namespace} --preserve-credentials " if state.user_namespace else ""
    on_first = shlex.quote(json.dumps({"spec": {"nodeName": first}}))
    return f"""Cluster {state.name} is ready after {seconds:.1f} s. Nodes and their zones: {nodes}

Look at it:
  {kubectl} get nodes,pods,services,endpointslices -o wide

Run a command in a node ({first}), a pod (web-{first}) or the external client (external):
  trafficdist cluster exec{named} {first} -- ip address
  nsenter {user}--net={state.places[first]} ip address

Connect to Service {service["name"]}, which prefers the client's zone; the pod that answers returns its name:
  trafficdist cluster exec{named} web-{first} -- curl -s {shlex.quote(url)}

Run a pod of your own; without a scheduler, it needs spec.nodeName:
  {kubectl} run mine --image={EMULATED_AGNHOST} --overrides={on_first} -- netexec
  {kubectl} get --raw /api/v1/namespaces/default/pods/mine:8080/proxy/hostname
  {kubectl} delete pod mine

Stop it:
  trafficdist cluster down{named}"""
