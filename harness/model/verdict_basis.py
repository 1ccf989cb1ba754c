"""The basis of verdicts: an implementation's packets, or only its decisions if its data plane cannot run here."""

PACKETS, DECISIONS = "packets", "decisions"
JUDGES = (PACKETS, DECISIONS)  # all scopes, with the default first

KEY = "(decisions): rules of another implementation carried out its decisions; its own data plane was not judged."


def mark(judges: str) -> str:
    return "" if judges == PACKETS else f"({judges})"
