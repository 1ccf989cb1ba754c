"""The scope of a verdict: an implementation's packets, or only its decisions.

Some data planes cannot run here, but their decision logic can. Then the rules of another implementation forward the
packets, and only the decisions are judged. Every report states this limitation.
"""

PACKETS, DECISIONS = "packets", "decisions"
JUDGES = (PACKETS, DECISIONS)
"""All scopes, with the default first."""

KEY = "(decisions): rules of another implementation carried out its decisions; its own data plane was not judged."


def mark(judges: str) -> str:
    """Return the suffix for an implementation's name, or "" if packets are judged."""
    return "" if judges == PACKETS else f"({judges})"
