"""A run that ends in any way, at any moment, leaves a report that says so, and nothing else.

Each row of the table is a run of three small requirements on a terminal of its own: it is ended in one way, at one
moment, on one backend. What is there before and after is compared: files in the temp folder and in memory, processes,
the output folder, and all objects of the cluster.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from harness.api.client import Api
from harness.api.kubeconfig import Kubeconfig
from harness.control_planes.processes import in_use
from harness.eventually import eventually
from harness.guest.snapshot import differences, snapshot
from harness.judging.exit_codes import ExitCode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AT = """
import os, pathlib, time

HERE = pathlib.Path(__file__).parent

def at(moment):
    (HERE / f"almost-{moment}").write_text(str(os.getpid()))
    (HERE / f"almost-{moment}").rename(HERE / f"at-{moment}")
    while (HERE / f"wait-{moment}").exists():
        time.sleep(0.02)
"""

SUITE = (
    AT
    + """
from harness.model.requirements import *
from harness.scenario.service import same_zone
from harness.scenario.traffic import expect_traffic

FEATURE = Feature("Routing", Profile.SERVICE_PROXY, True, "Routes.")

def must(slug):
    return requirement(f"KEP-1/{slug}", f"The {slug} holds.", level=MUST, features={FEATURE}, source="KEP-1, Design")

def see(cluster):
    service = cluster.create_service(traffic_distribution="PreferClose")
    a1, b1 = cluster.run_servers(on=["a1", "b1"])
    cluster.publish(service, [same_zone(a1), same_zone(b1)])
    expect_traffic(cluster, service, {"a1": {a1}})

@must("first")
def test_first(three_zones): see(three_zones)

@must("second")
def test_second(three_zones):
    see(three_zones)
    at("scenario")
    if (HERE / "fill").exists():
        with open((HERE / "fill").read_text(), "wb", buffering=0) as file:
            size = 1 << 16
            while size:
                try:
                    file.write(b"0" * size)
                except OSError:
                    size //= 2
    see(three_zones)

@must("third")
def test_third(three_zones): see(three_zones)
"""
)

CONFTEST = (
    AT
    + """
import pytest
import harness.plugin.ledger as ledger

write = ledger.write_reports
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

def slowly(*arguments):
    at("report")
    return write(*arguments)

ledger.write_reports = slowly
if WORKER == "gw1":
    at("start")

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    if WORKER == "gw0":
        at("idle")

def pytest_sessionfinish():
    if WORKER == "gw0":
        at("end")
"""
)

TRAFFICDIST = str(Path(sys.executable).with_name("trafficdist"))
MOMENTS = ("header", "scenario", "report")


@dataclass
class Terminal:
    """A run on a terminal of its own."""

    command: list[str]
    environment: dict[str, str]
    text: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.keys, screen = pty.openpty()
        self.process = subprocess.Popen(
            self.command,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=self.environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  no thread holds a lock here
        )
        os.close(screen)
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(OSError):  # nobody has the terminal open any more
                if select.select([self.keys], [], [], 0.05)[0]:
                    self.text += os.read(self.keys, 65536).decode(errors="replace")
                    continue
            if self.process.poll() is not None:
                return

    def close(self) -> None:
        """Close the terminal's window."""
        self._closed.set()
        self._reader.join()
        with contextlib.suppress(OSError):
            os.close(self.keys)

    def ctrl_c(self) -> None:
        os.write(self.keys, b"\x03")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(200)
        self._reader.join()
        return code


class Place:
    """Where runs take place: a backend, and all that a run could leave."""

    def __init__(self, folder: Path, backend: str, kubeconfig: Path | None) -> None:
        self.folder, self.backend, self.kubeconfig = folder, backend, kubeconfig
        self.suite, self.out, self.temp = folder / "suite", folder / "out", folder / "temp"
        self.suite.mkdir()
        self.temp.mkdir()
        (self.suite / "test_it.py").write_text(SUITE)
        (self.suite / "conftest.py").write_text(CONFTEST)
        self.mark = uuid.uuid4().hex
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("TRAFFICDIST_", "PYTEST_"))}
        own = {"TMPDIR": str(self.temp), "XDG_CACHE_HOME": str(folder / "cache"), "ENDS": self.mark, "TERM": "dumb"}
        self.environment = ours | own | {"PYTHONDONTWRITEBYTECODE": "1"}
        self.before = self.left()

    def command(self, *options: str, workers: int = 0) -> list[str]:
        where = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        what = [f"--suite={self.suite}", f"--output-dir={self.out}", f"--workers={workers}"]
        return [TRAFFICDIST, "run", f"--backend={self.backend}", *where, *what, *options]

    def begin(self, moment: str, *, workers: int, before: tuple[str, ...] = ()) -> Terminal:
        """Begin a run, and return at that moment of it; it goes on when `go_on` is called."""
        (self.suite / f"wait-{moment}").touch()
        run = Terminal([*before, *self.command(workers=workers)], self.environment)
        at = self.suite / f"at-{moment}"

        def reached() -> bool:
            assert run.process.poll() is None, run.text
            return "  results  " in run.text if moment == "header" else at.exists()

        eventually(reached, within=120, every=0.01, describe=f"the moment {moment}")
        return run

    def go_on(self) -> None:
        for each in self.suite.glob("wait-*"):
            each.unlink()

    def left(self) -> dict[Any, Any]:
        """What is there now: files, and objects of the cluster without what its own components write."""
        in_memory = [each for each in Path("/dev/shm").glob("trafficdist-*") if not in_use(each)]  # another's are
        files = [*self.temp.rglob("*"), *in_memory]
        found: dict[Any, Any] = {str(path): "a file" for path in files}
        if self.kubeconfig:
            with contextlib.closing(Api(Kubeconfig(str(self.kubeconfig)))) as api:
                objects = snapshot(api)
            found |= {key: each for key, each in objects.items() if "service-proxy-" not in str(key)}
        return found

    def processes(self) -> list[str]:
        """The processes that a run has started, and their children, which live."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"ENDS={self.mark}".encode() in (each / "environ").read_bytes():
                    found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def expect_clean(self) -> None:
        eventually(lambda: not self.processes(), within=2, describe=lambda: f"the end of {self.processes()}")
        assert list(differences(self.before, self.left())) == []

    def report(self) -> Any:
        return yaml.safe_load((self.out / "report.yaml").read_text())

    def verdicts(self) -> dict[str, str]:
        return {test["id"].partition("/")[2]: test["verdict"] for test in self.report()["tests"]}

    def hidden(self) -> list[str]:
        """Files of the output folder that are not for readers."""
        return sorted(path.name for path in self.out.glob(".*") if path.name != ".trafficdist")


@pytest.fixture(scope="module")
def somebodys_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster, by `cluster up`, for a user who has a key of her own too."""
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("runtime", "temp"):
        (folder / name).mkdir()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime"), "TMPDIR": str(folder / "temp")}
    file = folder / "kubeconfig"
    subprocess.run([TRAFFICDIST, "cluster", "up", f"--kubeconfig={file}"], check=True, env=environment)
    issued = trustme.CA().issue_cert("alice")
    made = yaml.safe_load(file.read_text())
    made["users"][0]["user"] |= {
        "client-key-data": base64.b64encode(issued.private_key_pem.bytes()).decode(),
        "client-certificate-data": base64.b64encode(issued.cert_chain_pems[0].bytes()).decode(),
    }
    own = folder / "own"
    own.write_text(yaml.safe_dump(made))
    yield own
    subprocess.run([TRAFFICDIST, "cluster", "down"], check=True, env=environment)
    own.unlink()
    assert [str(path) for path in folder.rglob("*") if not path.is_dir()] == []


@pytest.fixture(params=["netns", "kubeconfig"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kubeconfig = request.getfixturevalue("somebodys_cluster") if request.param == "kubeconfig" else None
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is for its owner alone
        Path(folder).chmod(0o777)
        yield Place(Path(folder), request.param, kubeconfig)


def again_and_again(run: Terminal) -> None:
    """Ctrl-C ten times a second, until the process has ended."""

    def press() -> None:
        until = time.monotonic() + 60
        while run.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                run.ctrl_c()
            time.sleep(0.1)

    threading.Thread(target=press, daemon=True).start()


INTERRUPTIONS: dict[str, Callable[[Terminal], object]] = {
    "ctrl-c": Terminal.ctrl_c,
    "ctrl-c-again-and-again": again_and_again,
    "sigterm": lambda run: run.process.terminate(),
    "sigterm-to-all": lambda run: os.killpg(run.process.pid, signal.SIGTERM),
    "closed-terminal": Terminal.close,
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", INTERRUPTIONS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_run_leaves_a_report_that_says_so(place: Place, moment: str, way: str, workers: int) -> None:
    run = place.begin(moment, workers=workers)
    INTERRUPTIONS[way](run)
    place.go_on()
    assert run.end() == ExitCode.INTERRUPTED, run.text
    assert place.report()["run"]["interrupted"] is True
    assert {"passed", "inconclusive"} >= set(place.verdicts().values())
    assert place.hidden() == []
    place.expect_clean()
    if "closed" not in way:
        assert "exit code 2" in run.text
        assert "Traceback" not in run.text


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_leaves_no_key_and_no_process_and_its_history(place: Place, moment: str) -> None:
    run = place.begin(moment, workers=2)
    run.process.kill()
    assert run.end() == -signal.SIGKILL
    eventually(lambda: not place.processes(), within=2, describe=lambda: f"the end of {place.processes()}")
    assert list(place.temp.rglob("*")) == []
    assert place.hidden() == [".parts"]
    if place.kubeconfig:
        command = [TRAFFICDIST, "cleanup", f"--kubeconfig={place.kubeconfig}"]
        subprocess.run(command, check=True, env=place.environment)
    place.expect_clean()
    place.go_on()
    again = subprocess.run(place.command(), check=False, env=place.environment)  # into the same folder
    assert (again.returncode, set(place.verdicts().values())) == (0, {"passed"})
    place.expect_clean()


@pytest.mark.parametrize("attempt", range(3))
def test_a_killed_worker_leaves_its_requirement_open_and_the_others_go_on(place: Place, attempt: int) -> None:
    run = place.begin("scenario", workers=2)
    os.kill(int((place.suite / "at-scenario").read_text()), signal.SIGKILL)
    place.go_on()
    assert run.end() == ExitCode.INCONCLUSIVE, (attempt, run.text)
    assert place.verdicts() == {"first": "passed", "second": "inconclusive", "third": "passed"}
    assert "KEP-1/second" in run.text
    assert place.hidden() == []
    place.expect_clean()


@pytest.mark.parametrize("moment", ["start", "idle", "end"])
def test_a_killed_worker_that_asks_nothing_leaves_nothing_open(place: Place, moment: str) -> None:
    """One that has not collected yet, one that waits until others have, and one that has nothing left to ask."""
    if moment == "idle":
        (place.suite / "wait-start").touch()  # while one starts the other is given nothing to ask
    run = place.begin(moment, workers=2)
    os.kill(int((place.suite / f"at-{moment}").read_text()), signal.SIGKILL)
    place.go_on()
    assert run.end() == 0, run.text
    assert place.verdicts() == {"first": "passed", "second": "passed", "third": "passed"}
    assert place.hidden() == []
    place.expect_clean()


BORN = """
import os, pathlib, signal, sys

HERE = pathlib.Path(__file__).parent
if "exec(eval(" in sys.orig_argv[-1]:  # execnet's, of a worker
    number = len(list(HERE.glob("born-*"))) + 1
    (HERE / f"born-{number}").touch()
    if (HERE / f"dies-{number}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("dies", "made"), [((1,), 3), ((2,), 3), ((1, 2, 4), 5)])
def test_a_worker_that_is_killed_when_it_is_made_is_made_again(place: Place, dies: Sequence[int], made: int) -> None:
    born = place.folder / "born"
    born.mkdir()
    (born / "sitecustomize.py").write_text(BORN)
    for each in dies:
        (born / f"dies-{each}").touch()
    place.environment["PYTHONPATH"] = str(born)
    run = Terminal(place.command(workers=2), place.environment)
    assert run.end() == 0, run.text
    assert len(list(born.glob("born-*"))) == made
    assert set(place.verdicts().values()) == {"passed"}
    assert "INTERNALERROR" not in run.text
    place.expect_clean()


def test_a_second_run_into_the_same_folder_is_refused(place: Place) -> None:
    run = place.begin("scenario", workers=0)
    second = subprocess.run(place.command(), capture_output=True, text=True, check=False, env=place.environment)
    assert (second.returncode, "another run writes into" in second.stderr) == (ExitCode.USAGE, True), second.stderr
    place.go_on()
    assert (run.end(), set(place.verdicts().values())) == (0, {"passed"}), run.text
    place.expect_clean()


ORDINARY = ("setpriv", "--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
"""For root, who has no limit of processes: another user, who may read the same files."""

LIMITS = {
    "files": ("bash", "-c", 'ulimit -n 64; exec "$@"', "-"),
    "processes": ("bash", "-c", 'ulimit -u 20; exec "$@"', "-"),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_is_too_low_is_one_line(place: Place, limit: str, workers: int) -> None:
    before = LIMITS[limit]
    if limit == "processes" and os.getuid() == 0:
        before = (*before, *ORDINARY)
    command = [*before, *place.command(workers=workers)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=place.environment)
    assert ran.returncode == ExitCode.DISTRUST, ran.stderr
    assert [line for line in ran.stderr.splitlines() if line] == [ran.stderr.strip()]
    assert ran.stderr.startswith("error: ")
    assert "raise `ulimit" in ran.stderr
    assert not place.out.exists()
    place.expect_clean()


DISK = """
mount -t tmpfs -o size=1m none "$1" || exit 77
out=$1 kept=$2; shift 2
"$@"; code=$?
cp -a "$out/." "$kept"; exit $code
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_full_disk_is_named_and_what_was_seen_is_kept(place: Place, workers: int) -> None:
    disk, kept = place.folder / "disk", place.folder / "kept"
    disk.mkdir()
    kept.mkdir()
    place.out = disk / "out"
    (place.suite / "fill").write_text(str(disk / "filler"))
    shell = ["unshare", "--mount", "--map-root-user", "bash", "-c", DISK, "-", str(disk), str(kept)]
    ran = subprocess.run(
        [*shell, *place.command(workers=workers)], capture_output=True, text=True, check=False, env=place.environment
    )
    if ran.returncode == 77:
        pytest.skip("no file system can be mounted here")
    said = ran.stdout + ran.stderr
    assert ran.returncode == ExitCode.DISTRUST, said
    assert "no room on the disk" in said or "No space left on device" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    judged = subprocess.run(
        [TRAFFICDIST, "judge", str(kept / "out"), "--format", "json"], capture_output=True, text=True, check=False
    )
    assert "KEP-1/first" in judged.stdout, judged.stderr
    place.expect_clean()
