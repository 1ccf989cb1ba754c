"""The metrics of this server: which feature gates it has, and whether they are on (KEP-3015 and others ask for it)."""

from __future__ import annotations

from reference.features import GATES, Features, Gate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"
_NAME = "kubernetes_feature_enabled"
_HEAD = f"# HELP {_NAME} [BETA] The stage of a feature gate, and whether it is on.\n# TYPE {_NAME} gauge\n"


def text(features: Features) -> bytes:
    """Return all gates of this version, and those that were asked for besides, as Prometheus text."""
    minor = features.version[1]
    there = {
        name: gate
        for name, gate in GATES.items()
        if name in features.gates or (gate.introduced <= minor and (gate.removed is None or minor < gate.removed))
    }
    lines = [
        f'{_NAME}{{name="{name}",stage="{_stage(gate, minor)}"}} {int(features.enabled(name))}\n'
        for name, gate in sorted(there.items())
    ]
    return (_HEAD + "".join(lines)).encode()


def _stage(gate: Gate, minor: int) -> str:
    if gate.locked is not None and minor >= gate.locked:
        return ""  # generally available
    return "BETA" if gate.on_by_default is not None and minor >= gate.on_by_default else "ALPHA"
