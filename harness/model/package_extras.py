"""Optional dependencies, which an extra of the distribution installs."""

from importlib.util import find_spec

from harness.errors import UnavailableError


def require(*packages: str, extra: str, feature: str) -> None:
    """Raise `UnavailableError` with the command that installs these packages, if any is missing."""
    if missing := [each for each in packages if find_spec(each) is None]:
        raise UnavailableError(
            f"{feature} needs Python package {', '.join(missing)}; install it with `pip install 'trafficdist[{extra}]'`"
        )
