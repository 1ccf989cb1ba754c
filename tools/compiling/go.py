"""Find and run the `go` command, with the user's own settings (GOPROXY, GONOSUMDB, credentials)."""

import collections
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.binaries.fetching import UndeliverableError
from harness.errors import UnavailableError

_TAIL = 12  # number of lines of Go's output in an error
_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_TOO_OLD = re.compile(r"requires go >= ?(\S+)|module requires Go (\S+)")
_NOT_FOUND = re.compile(
    r"40[34] |410 |unknown revision|invalid version|not found|no matching versions|reading file:.*no such file",
    re.IGNORECASE,
)
_MISSING_MODULE = re.compile(r"(\S+@v\S+): reading \S+: 40[34] ")
_NO_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|TLS handshake|connection re(?:set|fused)|module lookup disabled|"
    r"network is unreachable|proxyconnect|context deadline exceeded|50[234] ",
)


@dataclass(frozen=True, slots=True)
class Go:
    """A Go installation. `jobs` is the number of packages to compile in parallel, or 0 for the number of CPUs."""

    path: str
    version: str
    jobs: int = 0

    def environment(self) -> dict[str, str]:
        """Return the user's environment for `go`, without variables that would change the compiled binary."""
        theirs = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH")}
        ours = {"CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on"}
        return {**theirs, **ours, **({"GOMAXPROCS": str(self.jobs)} if self.jobs else {})}

    def run(self, *arguments: str, folder: Path) -> str:
        """Run a go command, and return its output. Raises `UnavailableError` or a subclass."""
        done = self._run(arguments, folder)
        if done.returncode != 0:
            raise error_of(done.stderr, arguments)
        return done.stdout

    def run_json(self, *arguments: str, folder: Path) -> Any:
        """Return the JSON that a go command prints. Raises the errors of `run`, also if the JSON has an `Error`."""
        done = self._run(arguments, folder)
        try:
            value = json.loads(done.stdout)
        except ValueError:
            raise error_of(done.stderr or done.stdout, arguments) from None
        if value.get("Error"):
            problem = value["Error"]
            raise error_of(problem if isinstance(problem, str) else str(problem.get("Err")), arguments)
        return value

    def follow(self, *arguments: str, folder: Path, line: Callable[[str], None]) -> None:
        """Run a long go command, and call `line` for each line of output. An exception in `line` stops the command."""
        process = subprocess.Popen(  # noqa: S603  the go command, with arguments that we made
            [self.path, *arguments],
            cwd=folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        tail: collections.deque[str] = collections.deque(maxlen=200)
        with process:
            try:
                for text in process.stderr or ():
                    tail.append(text)
                    line(text.rstrip())
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise error_of("".join(tail), arguments)

    def _run(self, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  the go command, with arguments that we made
            [self.path, *arguments], cwd=folder, env=self.environment(), capture_output=True, text=True, check=False
        )


def find_go(*, jobs: int = 0) -> Go:
    path = shutil.which("go")
    if path is None:
        raise UnavailableError(
            "compiling needs `go` on the PATH; install Go from https://go.dev/dl/, "
            "or download official binaries with --from release"
        )
    version = Go(path, "").run("env", "GOVERSION", folder=Path("/")).strip()
    return Go(path, version, jobs)


def error_of(output: str, arguments: Sequence[str]) -> UnavailableError:
    """Convert the output of a failed go command to an error that states how to fix the problem."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("go: downloading")]
    tail = "\n".join(lines[-_TAIL:]) or "no output"
    old = _TOO_OLD.search(output)
    if _DISK_FULL.search(output):
        return UnavailableError(
            "the disk is too full to compile; free some space (`go clean -cache` empties Go's cache), "
            f"or set GOCACHE, GOMODCACHE and TMPDIR to folders on another disk\n{tail}"
        )
    if old:
        return UnavailableError(
            f"Go {(old[1] or old[2]).rstrip(';,)')} or newer is needed; install it from https://go.dev/dl/, or let Go "
            f"fetch it with GOTOOLCHAIN=auto\n{tail}"
        )
    if _NO_NETWORK.search(output):
        return UnavailableError(
            f"the Go module proxy cannot be reached; check the network, or set GOPROXY to another proxy\n{tail}"
        )
    if missing := dict.fromkeys(_MISSING_MODULE.findall(output)):
        return UndeliverableError(f"the Go module proxy does not have {', '.join(missing)}")
    if _NOT_FOUND.search(output):
        return UndeliverableError(tail)
    return UnavailableError(f"`go {' '.join(arguments[:2])}` failed:\n{tail}")
