"""The one form of times and durations in texts, and their one rounding in files.

The zero of each time in the texts about a scenario is the scenario's start. Texts have whole milliseconds, files have
tenths. Durations of tests have a thousandth of a second in files, and texts are made from this value.
"""


def since_start(seconds: float) -> str:
    """Format a time since the start of the scenario: `+1,645 ms`."""
    return f"{seconds * 1000:+,.0f} ms"


def whole(ms: float) -> str:
    """Format a length of time that is given in milliseconds, without the unit: `1,645`."""
    return f"{ms:,.0f}"


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def thousandths(seconds: float) -> float:
    """Round the duration of a test or a run in seconds, as in all files."""
    return round(seconds, 3)


def brief(seconds: float) -> str:
    return f"{thousandths(seconds):.1f}"
