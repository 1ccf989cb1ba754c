"""The scope of a verdict: an implementation's packets, or only its decisions.

Some data planes cannot run here, but their decisions can: then rules of another implementation carry the packets, and
only the decisions are judged. Every report says so.
"""

from __future__ import annotations

PACKETS, DECISIONS = "packets", "decisions"
JUDGES = (PACKETS, DECISIONS)
"""The scopes, with the default first."""

KEY = "(decisions): rules of another implementation carried out its decisions; its own data plane was not judged."


def mark(judges: str) -> str:
    """Return the suffix of an implementation's name: "" if packets are judged."""
    return "" if judges == PACKETS else f"({judges})"
