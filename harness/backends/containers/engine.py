"""Runs commands of the container engine that kind uses, which is docker or podman."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from harness.errors import UnavailableError

PROVIDER = "KIND_EXPERIMENTAL_PROVIDER"  # the environment variable with the engine that kind uses
CLUSTER_LABEL = "io.x-k8s.kind.cluster"  # on kind's containers; the value is the cluster's name

_ENGINES = ("docker", "podman")
_SECONDS = 60.0
_TAIL = 600  # characters of an error message


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Facts about an engine and its machine. `root` is the folder with its images. `memory` is in bytes."""

    version: str
    root: str
    memory: int
    kernel: str
    cgroup: str  # "1" or "2"


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    name: str
    path: str

    def environment(self) -> dict[str, str]:
        return {PROVIDER: self.name}

    def ask(self, *arguments: str, text: str | None = None, seconds: float = _SECONDS) -> str:
        """Run a command of the engine with `text` as its stdin, and return its output. Raises `UnavailableError`."""
        done = self._run(arguments, text, seconds)
        if done.returncode != 0:
            raise self._explain(done.stderr or done.stdout, arguments)
        return done.stdout

    def execute(self, container: str, *command: str, text: str | None = None, seconds: float = _SECONDS) -> str:
        given = ["-i"] if text is not None else []
        return self.ask("exec", *given, container, *command, text=text, seconds=seconds)

    def clusters(self) -> list[str]:
        found = self.ask(
            "ps", "--all", "--filter", f"label={CLUSTER_LABEL}", "--format", f'{{{{.Label "{CLUSTER_LABEL}"}}}}'
        )
        return sorted(set(found.split()))

    def containers(self, cluster: str) -> list[str]:
        found = self.ask("ps", "--all", "--filter", f"label={CLUSTER_LABEL}={cluster}", "--format", "{{.Names}}")
        return sorted(found.split())

    def has_image(self, name: str) -> bool:
        return self._run(("image", "inspect", name), None, _SECONDS).returncode == 0

    def facts(self) -> EngineFacts:
        """Raises `UnavailableError` if the engine does not run."""
        info: dict[str, Any] = json.loads(self.ask("info", "--format", "{{json .}}"))
        if self.name == "podman":
            host, store = info["host"], info["store"]
            cgroup = str(host.get("cgroupVersion", "")).removeprefix("v")
            return EngineFacts(info["version"]["Version"], store["graphRoot"], host["memTotal"], host["kernel"], cgroup)
        return EngineFacts(
            info.get("ServerVersion", ""),
            info.get("DockerRootDir", ""),
            info.get("MemTotal", 0),
            info.get("KernelVersion", ""),
            info.get("CgroupVersion", ""),
        )

    def _run(self, arguments: tuple[str, ...], text: str | None, seconds: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(  # noqa: S603  the engine that the person installed
                [self.path, *arguments], input=text, capture_output=True, text=True, timeout=seconds, check=False
            )
        except OSError as error:
            raise UnavailableError(f"{self.path} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"`{self.name} {arguments[0]}` did not end within {seconds:.0f} s") from None

    def _explain(self, words: str, arguments: tuple[str, ...]) -> UnavailableError:
        text = words.strip()[-_TAIL:]
        if "permission denied" in text and "sock" in text:
            return UnavailableError(
                f"{self.name} runs, but you lack access to it; join its group (`sudo usermod -aG {self.name} $USER`, "
                f"then log in again)\n{text}"
            )
        if any(words in text for words in ("Cannot connect to", "error during connect", "failed to connect to")):
            return UnavailableError(
                f"{self.name} does not answer; start it (`sudo systemctl start {self.name}`), or set its address "
                f"(DOCKER_HOST)\n{text}"
            )
        return UnavailableError(f"`{self.name} {' '.join(arguments[:2])}` failed: {text or 'it printed nothing'}")


def find_engine() -> ContainerEngine:
    """Find the engine that the environment selects for kind, else docker, else podman. Raises `UnavailableError`."""
    chosen = os.environ.get(PROVIDER, "")
    if chosen and chosen not in _ENGINES:
        raise UnavailableError(f"{PROVIDER}={chosen}: this suite can use {' and '.join(_ENGINES)}")
    for name in [chosen] if chosen else _ENGINES:
        path = shutil.which(name)
        if path is not None:
            return ContainerEngine(name, path)
    wanted = chosen or " or ".join(_ENGINES)
    raise UnavailableError(
        f"no {wanted} on the PATH, and kind needs one for its nodes; install a container engine "
        "(on Debian and Ubuntu: apt-get install docker.io)"
    )
