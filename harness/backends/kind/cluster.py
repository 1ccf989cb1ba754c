"""Creates one kind cluster, waits until it is ready, and deletes it at the end unless it is kept. The kind command ends
with this process, even after `kill -9`. `remove_leftovers` deletes the containers of an interrupted command.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from harness.api.client import Api, Object
from harness.api.connection import find
from harness.backends.any_cluster.node_evidence import KUBE_PROXY, ProxySelector
from harness.backends.containers.engine import ContainerEngine
from harness.backends.kind.checks import KindTools, require
from harness.backends.kind.cluster_folder import PREFIX, ClusterFolder
from harness.backends.kind.components import ABILITIES, KindComponents
from harness.backends.kind.config import (
    CONTROL_PLANE,
    WITHOUT_PROXY,
    KindConfig,
    manifest,
    node_names,
    parse_images,
)
from harness.backends.kind.installer import ProxyInstaller, images_of, load_images, require_images
from harness.backends.kind.leftovers import remove
from harness.backends.kind.nodes import lift_icmp_limit, ready_nodes
from harness.backends.kind.proxy_pods import ProxyPods
from harness.backends.kind.workloads import selector_of
from harness.errors import HarnessError, UnavailableError
from harness.eventually import eventually
from harness.guest.labels import checked_run_id, new_run_id
from harness.guest.lease import silent
from harness.guest.leftovers import Say
from harness.model.abilities import Ability
from harness.model.cluster_options import NO_CNI
from harness.model.release import Release
from harness.model.topology import THREE_ZONES, Topology
from harness.netns import process
from harness.recipes.installation import Installation, images_in
from harness.recipes.objects import apply, parse_objects
from harness.recipes.recipe import Recipe

CREATE_SECONDS = 1200.0  # seconds before `time_scale` is applied; the node image may have to be downloaded slowly
READY_SECONDS = 300.0
_LOOK = 0.5
_TAIL = 12  # lines of kind's output in an error
_NOISE = re.compile(r"[^\x20-\x7e]+")  # kind prints emojis
_NO_IMAGE = re.compile(r'failed to pull image "([^"]+)"')


class KindCluster:
    """A kind cluster. It can be started only once. `node_names` maps the topology's nodes to kind's names."""

    def __init__(
        self,
        topology: Topology = THREE_ZONES,
        *,
        families: Sequence[str] = ("IPv4",),
        mode: str = "iptables",
        image: str | Mapping[str, str] = "",
        feature_gates: Mapping[str, bool] | None = None,
        run_id: str = "",
        keep: bool = False,
        cni: str = "",
        proxy: Recipe | None = None,
        say: Say = silent,
    ) -> None:
        """`cni` is a manifest file that replaces kind's network plugin, or "none". `image` is a text for
        `parse_images`, or a mapping from node roles to images. If there is a `proxy`, it replaces kube-proxy, and
        `mode` is one of its modes. Raises `UsageError`.
        """
        images = parse_images(image) if isinstance(image, str) else dict(image)
        of_kube_proxy = WITHOUT_PROXY if proxy else mode
        self.wanted = KindConfig(topology, tuple(families), of_kube_proxy, dict(feature_gates or {}), images, not cni)
        self._cni = Path(cni) if cni not in ("", NO_CNI) else None
        self._proxy = proxy
        self._mode = mode
        self.name = f"{PREFIX}{checked_run_id(run_id) if run_id else new_run_id()}"
        self.node_names = node_names(topology, self.name)
        self.control_plane = f"{self.name}-{CONTROL_PLANE}"
        self._keep = keep
        self._say = say
        self._state = ClusterFolder(self.name)
        self._exists = False
        self._tools: KindTools | None = None

    @property
    def kubeconfig(self) -> Path:
        return self._state.kubeconfig

    def found(self) -> Self:
        """Use a cluster that another process of the run created. Raises `UnavailableError`."""
        self._tools = require(self.wanted)
        return self

    def start(self) -> Self:
        """Create the cluster, and return when every node is ready. Raises `UnavailableError`."""
        self._tools = tools = require(self.wanted)
        if self._proxy:
            require_images(tools, self._proxy)
        if not self._state.take():
            raise UnavailableError(f"kind cluster {self.name} belongs to another running process")
        self._exists = True
        try:
            self._create(tools)
            self._load_images(tools)
            with contextlib.closing(Api(find(str(self.kubeconfig)))) as api:
                self._install(api)
            for node in self.node_names.values():
                lift_icmp_limit(tools.engine, node)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Delete the cluster, or print how to use it if it is kept. Idempotent."""
        if self._exists:
            self._exists = False
            self._delete()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def components(
        self, api: Api, booted: Release | None = None, *, patches: Mapping[str, str] | None = None
    ) -> KindComponents:
        """Return the object that changes the cluster's components. `booted` is the release of the node images."""
        own = self._installation.daemon_sets if self._installation else ()
        return KindComponents(
            self._engine,
            api,
            control_plane=self.control_plane,
            node_names=self.node_names,
            booted=booted or Release(gates=self.wanted.gates, follows="released"),
            patches=patches,
            stays=self._keep,
            own_proxies=ProxyPods(api, self._proxy.name, own) if self._proxy else None,
        )

    def proxy_places(self, api: Api) -> tuple[ProxySelector, ...]:
        ready = self._installation.ready if self._installation else ()
        found = [ProxySelector(each.name, each.namespace, selector_of(api, each)) for each in ready]
        return tuple(found) or (KUBE_PROXY,)

    @property
    def abilities(self) -> frozenset[Ability]:
        stays = self._installation is not None and not self._installation.daemon_sets
        return ABILITIES - {Ability.RESTART_PROXY} if stays else ABILITIES

    @property
    def services(self) -> Mapping[str, Any]:
        return self._proxy.services if self._proxy else {}

    @property
    def facts(self) -> dict[str, str]:
        """The report's entry on the pod network, or {} if the network is kind's default."""
        if self.wanted.default_cni:
            return {}
        who = self._cni or self._proxy
        return {"podNetwork": f"of {who.name}" if who else "none"}

    @property
    def _installation(self) -> Installation | None:
        return self._proxy.installation if self._proxy else None

    def _install(self, api: Api) -> None:
        if self._cni:
            self._say(f"network plugin of {self._cni.name} is installed")
            apply(api, self._network(), f"--cni {self._cni}")
        if self._proxy is None:
            self._wait_until_ready(api)
            return
        nodes = {self.control_plane: CONTROL_PLANE, **{theirs: ours for ours, theirs in self.node_names.items()}}
        families = tuple(self.wanted.families)
        installer = ProxyInstaller(api, self._proxy, self._mode, self.name, families, nodes, self.kubeconfig, self._say)
        installer.apply(self._state.log)
        brings_network = not self.wanted.default_cni and not self._cni
        if brings_network:
            installer.wait()  # an error of the installation explains unready nodes
        self._wait_until_ready(api)
        if not brings_network:
            installer.wait()

    def _network(self) -> tuple[Object, ...]:
        return parse_objects([str(self._cni.absolute())], Path("/")) if self._cni else ()

    def _load_images(self, tools: KindTools) -> None:
        named = [*images_in(self._network()), *(images_of(self._proxy) if self._proxy else [])]
        if named:
            load_images(tools, self.name, named, self._state.log, self._say)

    @property
    def _engine(self) -> ContainerEngine:
        if self._tools is None:
            raise UnavailableError(f"kind cluster {self.name} does not exist yet")
        return self._tools.engine

    def _create(self, tools: KindTools) -> None:
        self._say(f"kind {tools.kind_version} creates cluster {self.name} with {tools.engine.name}")
        for note in tools.notes:
            self._say(f"note: {note}")
        text = yaml.safe_dump(manifest(self.wanted, name=self.name), sort_keys=False)
        self._state.manifest.write_text(text, encoding="utf-8")
        files: list[str | Path] = ["--config", self._state.manifest, "--kubeconfig", self.kubeconfig]
        keep = ["--retain"] if self._keep else []
        command: list[str | Path] = [tools.kind, "create", "cluster", "--name", self.name, *files, *keep]
        running = process.start("kind", command, log=self._state.log, environment=tools.engine.environment())
        try:
            eventually(
                lambda: self._has_ended(running),
                within=CREATE_SECONDS,
                every=_LOOK,
                describe="kind to create the cluster",
                error=UnavailableError,
            )
        finally:
            running.stop()
        if not self.kubeconfig.exists():  # kind writes this file last
            raise explain(running.said(), tools.notes)
        self.kubeconfig.chmod(0o600)

    def _has_ended(self, running: process.Process) -> bool:
        alive = running.alive  # read first, so that the last output is not missed
        for line in running.news().splitlines():
            if step := progress_step(line):
                self._say(step)
        return not alive

    def _wait_until_ready(self, api: Api) -> None:
        wanted = {self.control_plane, *self.node_names.values()}
        shown = -1

        def all_ready() -> bool:
            nonlocal shown
            ready = ready_nodes(api) & wanted
            if len(ready) != shown:
                shown = len(ready)
                self._say(f"{shown} of {len(wanted)} nodes are ready")
            if ready != wanted:
                raise AssertionError(f"not ready: {', '.join(sorted(wanted - ready))}")
            return True

        eventually(
            all_ready,
            within=READY_SECONDS,
            every=_LOOK,
            describe=f"the nodes of {self.name}",
            error=lambda text: explain(text, self._tools.notes if self._tools else ()),
        )

    def _delete(self) -> None:
        if self._keep and self._engine.containers(self.name):
            self._state.kept.touch()
            self._state.let_go()
            self._say(f"kind cluster {self.name} is kept: KUBECONFIG={self.kubeconfig}")
            self._say(f"`kind delete cluster --name {self.name}` deletes it")
            return
        remove(self._engine, self.name, self._state)


def progress_step(line: str) -> str:
    text = " ".join(_NOISE.sub(" ", line).split())
    return text.removesuffix(" ...") if line.lstrip().startswith("•") else ""


def without_stacks(lines: Sequence[str]) -> list[str]:
    """Return the lines without Go stack traces, which kubeadm prints after errors."""
    places = [line.startswith("\t") and ".go:" in line for line in lines]
    functions = [*places[1:], False]
    return [line for line, *stack in zip(lines, places, functions, strict=True) if not any(stack)]


def explain(words: str, notes: Sequence[str] = ()) -> HarnessError:
    lines = without_stacks([line for line in words.splitlines() if line.strip()])
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR:")]
    tail = "\n".join(lines[errors[-1] if errors else 0 :][-_TAIL:]) or "it printed nothing"
    image = _NO_IMAGE.search(words)
    if image:
        return UnavailableError(
            f"node image {image[1]} cannot be pulled; check the network and the name (--kind-image), or load the image "
            f"on this machine with `docker pull` or `docker load` (or with podman)\n{lines[-1]}"
        )
    hints = "".join(f"\nPossible cause: {note}" for note in notes)
    return UnavailableError(
        f"the kind cluster did not become ready; to inspect it, set keep-cluster in an options file\n{tail}{hints}"
    )
