"""Formats times and durations in the same way in all messages, and rounds them in the same way in all files."""


def since_start(seconds: float) -> str:
    """Format a time since the start of the scenario: `+1,645 ms`."""
    return f"{seconds * 1000:+,.0f} ms"


def whole(ms: float) -> str:
    """Format a duration in milliseconds, without its unit: `1,645`."""
    return f"{ms:,.0f}"


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def thousandths(seconds: float) -> float:
    """Round the duration of a test or a run, in seconds, to milliseconds. All files contain this rounded value."""
    return round(seconds, 3)


def brief(seconds: float) -> str:
    return f"{thousandths(seconds):.1f}"
