"""Parses the command line of a container: agnhost's command and its flags, or a program of this machine.

Pure. Flags that agnhost refuses are refused with its words; an error names flags that only an embedded cluster lacks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from emulator.kubelet.sandbox import NoProgramError

ENTRYPOINTS = ("/agnhost", "agnhost")
PAUSE_ENTRYPOINTS = ("/pause",)

_INTEGER = re.compile(r"[+-]?\d+")
_INTEGERS = {"http-port": 8080, "udp-port": 8081, "sctp-port": -1, "delay-shutdown": 0}
_SWITCHES = {"http": True, "tcp": False, "udp": False, "close": False}
_NOT_HERE = ("tls-cert-file", "tls-private-key-file", "http-override", "udp-listen-addresses")


class CommandError(ValueError):
    """The container ends as soon as it is started, and logs this text."""


@dataclass(frozen=True, slots=True)
class Netexec:
    """`agnhost netexec`: its ports (a UDP port of -1: none), and how long (s) it goes on after SIGTERM."""

    http_port: int = 8080
    udp_port: int = 8081
    delay_shutdown: int = 0
    exit_code: int = field(default=0, init=False)
    """The exit code on SIGTERM."""


@dataclass(frozen=True, slots=True)
class Pause:
    """`agnhost pause` (ends with 2), or the image of that name (ends with 0); neither opens a socket."""

    exit_code: int = 2
    delay_shutdown: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class ServeHostname:
    """`agnhost serve-hostname`: its port, and how it serves there; it goes on for a minute after SIGTERM."""

    port: int = 9376
    http: bool = True
    tcp: bool = False
    udp: bool = False
    close: bool = False
    exit_code: int = field(default=0, init=False)
    delay_shutdown: int = field(default=60, init=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A program of this machine with its arguments."""

    argv: tuple[str, ...]


Command = Netexec | ServeHostname | Pause


def parse(image: str, command: Sequence[str], arguments: Sequence[str]) -> Command | Program:
    """Return the command of a container of this image with this `command` and `args`.

    Raises `NoProgramError` if the image has no such program, `CommandError` if it refuses its command line.
    """
    if image == "pause":
        if command and command[0] not in PAUSE_ENTRYPOINTS:
            raise NoProgramError(f'exec: "{command[0]}": executable file not found in $PATH')
        return Pause(exit_code=0)
    if image == "busybox":
        return Program((*command, *arguments) or ("sh",))
    entrypoint, *given = [*(command or ENTRYPOINTS[:1]), *(arguments or ([] if command else ["pause"]))]
    if entrypoint not in ENTRYPOINTS:
        return Program((entrypoint, *given))
    if not given:
        raise CommandError("no command of agnhost given")
    name, *flags = given
    if name == "pause":
        return Pause()
    if name == "serve-hostname":
        return _serve_hostname(flags)
    if name != "netexec":
        known = "netexec, pause and serve-hostname"
        raise CommandError(f'unknown command "{name}" for "app": an embedded cluster has {known}')
    return _netexec(flags)


def _serve_hostname(flags: Sequence[str]) -> ServeHostname:
    switches, port, left = dict(_SWITCHES), 9376, list(flags)
    while left:
        flag = left.pop(0)
        if not flag.startswith("--"):
            raise CommandError(f'unknown command "{flag}" for "app serve-hostname"')
        name, sign, value = flag[2:].partition("=")
        if name in switches:
            switches[name] = _boolean(name, value if sign else "true")
        elif name == "port":
            if not sign and not left:
                raise CommandError(f"flag needs an argument: --{name}")
            port = _integer(name, value if sign else left.pop(0))
        else:
            raise CommandError(f"unknown flag: --{name}")
    if switches["http"] and (switches["tcp"] or switches["udp"]):
        raise CommandError("Can't server TCP/UDP mode and HTTP mode at the same time")
    return ServeHostname(port, **switches)


def _boolean(name: str, text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    why = f'strconv.ParseBool: parsing "{text}": invalid syntax'
    raise CommandError(f'invalid argument "{text}" for "--{name}" flag: {why}')


def _netexec(flags: Sequence[str]) -> Netexec:
    values, left = dict(_INTEGERS), list(flags)
    while left:
        flag = left.pop(0)
        if not flag.startswith("--"):
            raise CommandError(f'unknown command "{flag}" for "app netexec"')
        name, sign, value = flag[2:].partition("=")
        if name in _NOT_HERE:
            raise CommandError(f"--{name} is not available in an embedded cluster")
        if name not in values:
            raise CommandError(f"unknown flag: --{name}")
        if not sign:
            if not left:
                raise CommandError(f"flag needs an argument: --{name}")
            value = left.pop(0)
        values[name] = _integer(name, value)
    if values["sctp-port"] != -1:
        raise CommandError("--sctp-port is not available in an embedded cluster")
    return Netexec(values["http-port"], values["udp-port"], values["delay-shutdown"])


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise CommandError(f'invalid argument "{text}" for "--{name}" flag: {why}')
    return int(text)
