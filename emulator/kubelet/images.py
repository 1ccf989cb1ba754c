"""The images that an embedded cluster has without pulling them: agnhost, busybox, pause, and an emulated agnhost.

agnhost is the real program, compiled into the component cache. busybox containers use the programs of this machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.kubelet.sandbox import NoProgramError
from harness.binaries import find
from harness.errors import UnavailableError

REGISTRY = "emulator.trafficdist.dev"
"""The registry of the emulated agnhost. No registry exists under this name."""

EMULATED_AGNHOST = f"{REGISTRY}/agnhost"
TOOLS = "/opt/agnhost"
"""A folder at the end of PATH, for programs of the agnhost image that this machine may lack."""

_AGNHOST = "/agnhost"
FILES: Mapping[str, str] = {f"{TOOLS}/nc": Path(__file__).with_name("nc.bash").read_text(encoding="ascii")}
"""Maps the path of a bash script `nc` to its text. The script supports the options that Kubernetes' e2e tests use."""


class CommandError(ValueError):
    """The command line is invalid. The container logs this message, and exits immediately after its start."""


@dataclass(frozen=True, slots=True)
class Netexec:
    """The parsed command `netexec`: its ports (UDP port -1 means none), and how many seconds it runs after SIGTERM."""

    http_port: int = 8080
    udp_port: int = 8081
    delay_shutdown: int = 0
    serves: bool = True
    """True for `netexec`, False for `pause`, which opens no ports."""

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Netexec":
        """Parse `netexec` with its flags, or `pause`, which is the default. Raises `CommandError`."""
        name, *flags = arguments or ("pause",)
        if name not in ("netexec", "pause"):
            raise CommandError(f'unknown command "{name}": the emulated agnhost supports netexec and pause')
        values = {"http-port": 8080, "udp-port": 8081, "delay-shutdown": 0}
        for flag in flags:
            key, _, value = flag.removeprefix("--").partition("=")
            if key not in values or not value.removeprefix("-").isdecimal():
                raise CommandError(f"unknown flag: {flag}: the emulated agnhost supports --{'=N, --'.join(values)}=N")
            values[key] = int(value)
        return cls(values["http-port"], values["udp-port"], values["delay-shutdown"], name == "netexec")


class MissingImageError(Exception):
    """The image is not available. The message is that of a kubelet that cannot pull the image."""


def programs_of(image: str) -> dict[str, Path]:
    """Return the programs to add to a container of this image, by path in the container. Raises `MissingImageError`."""
    why = "an embedded cluster has agnhost, busybox and pause only"
    if image.partition("/")[0].partition(":")[0].endswith(".invalid"):  # a registry that cannot exist (RFC 6761)
        why = "no such host"
    elif _repository(image) in ("busybox", "pause") or _is_emulated(image):
        return {}
    elif _repository(image) == "agnhost":
        try:
            return {_AGNHOST: find("agnhost")}
        except UnavailableError:
            fetch = "trafficdist components fetch agnhost --from source"
            why = f"agnhost is not in the cache; compile it with `{fetch}`, or use the image {EMULATED_AGNHOST}"
    raise MissingImageError(f'failed to pull image "{image}": {why}')


def command_of(image: str, command: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...] | Netexec:
    """Return the program or the emulated command of a container. Raises `NoProgramError` or `CommandError`."""
    repository = _repository(image)
    if repository == "pause":
        if command and command[0] != "/pause":
            raise NoProgramError(f'exec: "{command[0]}": executable file not found in $PATH')
        return Netexec(serves=False)
    if repository == "busybox":
        return (*command, *arguments) or ("sh",)
    program, *rest = *(command or (_AGNHOST,)), *(arguments or (() if command else ("pause",)))
    return Netexec.parse(rest) if _is_emulated(image) and program == _AGNHOST else (program, *rest)


def _repository(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _is_emulated(image: str) -> bool:
    return image.partition("@")[0].partition(":")[0] == EMULATED_AGNHOST
