"""What the packets of a run follow: the implementation itself, or rules that carry out what it decides.

Some data planes cannot run here, and their decisions can: somebody else's rules then carry the packets, and what is
judged are the decisions alone. No report may look as if it were the other thing.
"""

from __future__ import annotations

PACKETS, DECISIONS = "packets", "decisions"
JUDGES = (PACKETS, DECISIONS)
"""What may be judged, the usual one first."""

KEY = "(decisions): rules of somebody else carried out what it decided; its own data plane was not judged."


def mark(judges: str) -> str:
    """Return what stands behind the name of an implementation: nothing if packets are judged."""
    return "" if judges == PACKETS else f"({judges})"
