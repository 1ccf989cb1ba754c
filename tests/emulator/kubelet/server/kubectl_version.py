"""The version of the kubectl on PATH."""

import functools
import json
import re
import shutil
import subprocess


@functools.cache
def kubectl_version() -> tuple[int, int]:
    """Return the major and the minor version of kubectl, or (0, 0) without kubectl."""
    if shutil.which("kubectl") is None:
        return 0, 0
    done = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    version = json.loads(done.stdout)["clientVersion"]
    return int(version["major"]), int(re.findall(r"\d+", version["minor"])[0])
