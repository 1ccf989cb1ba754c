"""The labels and names that identify the objects that the suite creates or changes on a cluster."""

import re
import secrets
import string

from harness.errors import UsageError

RUN_LABEL = "trafficdist.dev/run"

BEFORE_ANNOTATION = "trafficdist.dev/before"
"""The annotation that stores the former state of a node that a run changed (`harness.guest.nodes`)."""

NAMESPACE = "trafficdist"
LEASE = "run"

_LENGTH = 8
_ID = re.compile(rf"[a-z0-9]{{{_LENGTH}}}")


def new_run_id() -> str:
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(_LENGTH))


def checked_run_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise UsageError(f"run id {text!r}: expected {_LENGTH} lower-case letters and digits")
    return text


def run_labels(run_id: str) -> dict[str, str]:
    return {RUN_LABEL: run_id}
