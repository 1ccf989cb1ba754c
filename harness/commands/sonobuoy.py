"""`python -m harness.commands.sonobuoy RUN-OPTIONS` runs `trafficdist run` as a plugin of Sonobuoy's worker. The worker
waits for a file `done` that contains the path of the results, and reads it only once. So this module writes `done`
atomically as its last step, even if the run fails or is killed. The worker packs the results, a folder with a file
`junit.xml`. Sonobuoy sets SONOBUOY_RESULTS_DIR and SONOBUOY_CONFIG_DIR, which may contain an options file.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from harness.judging.exit_codes import MEANINGS, ExitCode
from harness.run.folder import write_whole

PATIENCE = 20.0
"""Seconds for an interrupted run to clean up. By default, a pod gets SIGKILL 30 seconds after SIGTERM."""

_RUN = (sys.executable, "-c", "from harness.commands.main import main; main()", "run")


class InterruptibleProcess:
    """A child process that gets SIGINT if this process gets SIGTERM or SIGINT, and later SIGKILL if it does not end."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._interrupt())
        signal.signal(signal.SIGALRM, lambda *_: self._kill())

    def run(self, command: Sequence[str]) -> int:
        """Run the command until it ends. Return the exit code, or 128 + N for signal N, as a shell does."""
        self._process = subprocess.Popen(command, start_new_session=True)  # noqa: S603  our command with the user's options
        if self._interrupted:  # a signal arrived before the start
            self._interrupt()
        code = self._process.wait()
        self._kill()  # workers that a killed run left behind
        return code if code >= 0 else 128 - code

    def _interrupt(self) -> None:
        self._interrupted = True
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            signal.setitimer(signal.ITIMER_REAL, self._patience)

    def _kill(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def main(arguments: Sequence[str], environment: Mapping[str, str], *, patience: float = PATIENCE) -> int:
    """Run the suite, ensure that a JUnit file exists, and write the file `done`. Return the exit code of the run."""
    results = Path(environment.get("SONOBUOY_RESULTS_DIR") or "/tmp/results").absolute()  # noqa: S108  Sonobuoy's own
    folder = results / "trafficdist"
    child, code = InterruptibleProcess(patience), int(ExitCode.INTERNAL_ERROR)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (results / "done", folder / "junit.xml"):
            old.unlink(missing_ok=True)
        code = child.run(_command(arguments, environment, folder))
    finally:
        if not (folder / "junit.xml").exists():
            write_whole(folder / "junit.xml", junit_of_no_run(code))
        write_whole(results / "done", str(folder))  # without a newline, which the worker would add to the path
    return code


def _command(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> list[str]:
    command = [*_RUN, f"--output-dir={folder}"]
    options = Path(environment.get("SONOBUOY_CONFIG_DIR") or "/tmp/sonobuoy/config") / "trafficdist.yaml"  # noqa: S108
    return [*command, *([f"--options-file={options}"] if options.exists() else []), *arguments]


def junit_of_no_run(code: int) -> bytes:
    """Return a JUnit file with one failed test, for a run that ended before it wrote its results."""
    said = {int(each): text for each, text in MEANINGS.items()}.get(code, "see the log of the Sonobuoy plugin")
    suites = ElementTree.Element("testsuites", name="trafficdist")
    suite = ElementTree.SubElement(suites, "testsuite", name="trafficdist", tests="1", errors="1", failures="0")
    case = ElementTree.SubElement(suite, "testcase", classname="trafficdist", name="run", time="0")
    ElementTree.SubElement(case, "error", message=f"trafficdist run ended with {code}: {said}")
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
