"""Parse option values. Each function returns a value, or raises `UsageError` with the allowed values."""

import difflib
import os
import re
from collections.abc import Callable, Sequence

from harness.control_planes import choice
from harness.errors import UsageError
from harness.model.cluster_options import NO_CNI
from harness.model.files import fault_of_path, shown
from harness.model.limits import DEFAULTS, MOST
from harness.model.release import parse_gates

FEW = 8  # maximum number of known names in an error
LONG = 100  # maximum number of characters of a value in an error
MOST_WORKERS = 512  # each worker is a process
_HIGHEST_SEED = 2**63 - 1  # the largest number that every report format can hold


def _valid(parse: Callable[[str], object]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


control_plane = _valid(choice.parse_plane)
controller = _valid(choice.parse_controller)
gate = _valid(lambda text: parse_gates((text,)))


def mutant(text: str) -> str:
    from harness.settings.mutants import mutants

    if text not in mutants():
        raise UsageError(unknown_name(text, list(mutants()), "mutant"))
    return text


def shard(text: str) -> str:
    """Return a shard and the number of all shards, like 2/5."""
    found = re.fullmatch(r"([1-9]\d{0,2})/([1-9]\d{0,2})", text, re.ASCII)
    if not found or int(found[1]) > int(found[2]):
        raise UsageError(f"{text[:LONG]!r}: expected NUMBER/COUNT, with NUMBER from 1 to COUNT, like 2/5")
    return text


def patch(text: str) -> str:
    if not re.fullmatch(r"(\d+\.\d+)=\1\.\d+", text):
        raise UsageError(f"{text!r}: expected a minor version and one of its patches, like 1.30=1.30.14")
    return text


def draw(text: str) -> str:
    from harness.variation.axes import parse_draw

    return str(parse_draw(text)) if text else ""


def seed(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{text[:LONG]!r} is not a whole number") from None
    if not 0 <= number <= _HIGHEST_SEED:
        raise UsageError(f"{text[:LONG]!r} is not a number from 0 to {_HIGHEST_SEED}")
    return number


def path(text: str) -> str:
    """Return a path. The file does not have to exist."""
    if fault := fault_of_path(text):
        raise UsageError(f"{text[:LONG]!r} is not a path: {fault}")
    return text


def paths(text: str) -> str:
    for each in text.split(os.pathsep):
        path(each)
    return text


def cni(text: str) -> str:
    if text != NO_CNI and not os.path.isfile(path(text)):  # noqa: PTH113  a string, not yet a path
        raise UsageError(f"there is no file {shown(text)}")
    return text


def scenarios(text: str) -> str:
    """Return the path of a scenarios file. The suite validates its content after the cluster has booted."""
    from harness.model import strict_yaml

    loaded = strict_yaml.read(path(text), what="file of scenarios")
    if not isinstance(loaded, list) or not loaded or not all(isinstance(each, dict) for each in loaded):
        raise UsageError(f"file of scenarios {shown(text)}: expected a list of scenarios, as --generate prints them")
    return text


def kubernetes_version(text: str) -> str:
    if not re.fullmatch(r"v?1\.\d{1,3}(\.\d{1,3})?([-+][0-9A-Za-z.+-]{1,60})?", text, re.ASCII):
        raise UsageError(f"{text[:LONG]!r} is not a Kubernetes version: expected one like 1.31 or 1.31.2")
    return text


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1000.0:
        raise UsageError(f"{text!r} is not a number above 0 and below 1000")
    return number


def limit(text: str) -> str:
    name, _, number = text.partition("=")
    if name not in DEFAULTS or re.fullmatch(f"[0-9]{{1,6}}|{MOST}", number) is None:
        names = f"with NAME {' or '.join(DEFAULTS)}"
        raise UsageError(f"{text!r}: expected NAME=NUMBER, {names}, and NUMBER from 0 (no limit) to {MOST:,}")
    return text


def workers(text: str) -> str:
    if text == "auto":
        return text
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise UsageError(f"{text[:LONG]!r} is neither a number of processes (0: only this process) nor 'auto'")
    if int(text) > MOST_WORKERS:
        raise UsageError(f"{text}: too many processes: expected at most {MOST_WORKERS}, or 'auto'")
    return text


def unknown_name(name: str, allowed: Sequence[str], what: str) -> str:
    """Return an error message for an unknown name. It lists similar names, or else the first few known names."""
    name = name if len(name) <= LONG else f"{name[:LONG]}…"
    near = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
    few = sorted(allowed)[:FEW]
    more = f" and {len(allowed) - FEW} more" if len(allowed) > FEW else ""
    hint = f"did you mean {', '.join(near)}?" if near else f"allowed: {', '.join(few) or 'none'}{more}"
    return f"unknown {what} {name!r}; {hint}"
