"""Optional dependencies, which an extra of the distribution installs."""

import sys
from importlib.util import find_spec
from pathlib import Path

from harness.errors import UnavailableError

_COMMANDS = {  # by the file that an installer leaves in an environment that it made
    "pipx_metadata.json": "pipx inject trafficdist {packages}",
    "uv-receipt.toml": "uv pip install --python {prefix} {packages}",
    "": "pip install 'trafficdist[{extra}]'",
}


def require(*packages: str, extra: str, feature: str) -> None:
    """Raise `UnavailableError` with the command that installs these packages, if any is missing."""
    if missing := [each for each in packages if find_spec(each) is None]:
        command = next(_COMMANDS[file] for file in _COMMANDS if Path(sys.prefix, file).exists())
        shown = command.format(packages=" ".join(missing), extra=extra, prefix=sys.prefix)
        raise UnavailableError(f"{feature} needs the Python package {', '.join(missing)}; install it with `{shown}`")
