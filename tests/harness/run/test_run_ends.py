"""Tests that a run that ends in any way, at any moment, writes a report with this fact and leaves nothing else behind.

Each row of the table is a run of three small requirements on a pseudo-terminal. The run ends in one way, at one moment,
on one backend. The test compares the state before and after the run (`RunEnvironment`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trustme
import yaml

from harness.eventually import eventually
from harness.judging.exit_codes import ExitCode
from tests.harness.run.terminals import TRAFFICDIST, RunEnvironment, TerminalRun, marked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MOMENTS = ("header", "scenario", "report")


@pytest.fixture(scope="module")
def somebodys_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a cluster with `cluster up`. Return a kubeconfig for a user who also has a client certificate."""
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("runtime", "temp"):
        (folder / name).mkdir()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime"), "TMPDIR": str(folder / "temp")}
    subprocess.run([TRAFFICDIST, "cluster", "up"], check=True, env=environment)
    file = folder / "runtime/trafficdist/default/kubeconfig"
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
def place(request: pytest.FixtureRequest) -> Iterator[RunEnvironment]:
    kubeconfig = request.getfixturevalue("somebodys_cluster") if request.param == "kubeconfig" else None
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is accessible only to its owner
        Path(folder).chmod(0o777)
        made = RunEnvironment(Path(folder), request.param, kubeconfig)
        yield made
        made.end_runs()


def again_and_again(run: TerminalRun) -> None:
    """Press Ctrl-C ten times a second until the process has ended."""

    def press() -> None:
        until = time.monotonic() + 60
        while run.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                run.ctrl_c()
            time.sleep(0.1)

    threading.Thread(target=press, daemon=True).start()


INTERRUPTIONS: dict[str, Callable[[TerminalRun], object]] = {
    "ctrl-c": TerminalRun.ctrl_c,
    "ctrl-c-again-and-again": again_and_again,
    "sigterm": lambda run: run.process.terminate(),
    "sigterm-to-all": lambda run: os.killpg(run.process.pid, signal.SIGTERM),
    "closed-terminal": TerminalRun.close,
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("way", INTERRUPTIONS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_interrupted_run_writes_a_report_marked_as_interrupted(
    place: RunEnvironment, moment: str, way: str, workers: int
) -> None:
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
def test_killed_run_leaves_its_history_and_no_key_or_process(place: RunEnvironment, moment: str) -> None:
    run = place.begin(moment, workers=2)
    run.process.kill()
    assert run.end() == -signal.SIGKILL
    eventually(lambda: not marked(place.mark), describe=lambda: f"the end of {marked(place.mark)}")
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
def test_a_killed_worker_leaves_its_requirement_open_and_the_others_go_on(place: RunEnvironment, attempt: int) -> None:
    run = place.begin("scenario", workers=2)
    os.kill(int((place.suite / "at-scenario").read_text()), signal.SIGKILL)
    place.go_on()
    assert run.end() == ExitCode.INCONCLUSIVE, (attempt, run.text)
    assert place.verdicts() == {"first": "passed", "second": "inconclusive", "third": "passed"}
    assert "KEP-1/second" in run.text
    assert place.hidden() == []
    place.expect_clean()


@pytest.mark.parametrize("moment", ["start", "idle", "end"])
def test_killed_idle_worker_leaves_no_open_requirement(place: RunEnvironment, moment: str) -> None:
    """The idle worker has not collected tests yet, or it waits for other workers, or it has no tests left."""
    if moment == "idle":
        (place.suite / "wait-start").touch()  # a worker gets no tests while another one starts
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
def test_worker_killed_at_start_is_started_again(place: RunEnvironment, dies: Sequence[int], made: int) -> None:
    born = place.folder / "born"
    born.mkdir()
    (born / "sitecustomize.py").write_text(BORN)
    for each in dies:
        (born / f"dies-{each}").touch()
    place.environment["PYTHONPATH"] = str(born)
    run = TerminalRun(place.command(workers=2), place.environment)
    assert run.end() == 0, run.text
    assert len(list(born.glob("born-*"))) == made
    assert set(place.verdicts().values()) == {"passed"}
    assert "INTERNALERROR" not in run.text
    place.expect_clean()


def test_a_second_run_into_the_same_folder_is_refused(place: RunEnvironment) -> None:
    run = place.begin("scenario", workers=0)
    second = subprocess.run(place.command(), capture_output=True, text=True, check=False, env=place.environment)
    assert (second.returncode, "another run is writing to" in second.stderr) == (ExitCode.USAGE, True), second.stderr
    place.go_on()
    assert (run.end(), set(place.verdicts().values())) == (0, {"passed"}), run.text
    place.expect_clean()


ORDINARY = ("setpriv", "--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
"""Root has no limit on processes, so run as another user who may read the same files."""

LIMITS = {
    "files": ("bash", "-c", 'ulimit -n 64; exec "$@"', "-"),
    "processes": ("bash", "-c", 'ulimit -u 20; exec "$@"', "-"),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("limit", LIMITS)
def test_low_limit_is_reported_in_one_line(place: RunEnvironment, limit: str, workers: int) -> None:
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
def test_full_disk_is_reported_and_observations_are_kept(place: RunEnvironment, workers: int) -> None:
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
        pytest.skip("this user cannot mount a file system")
    said = ran.stdout + ran.stderr
    assert ran.returncode == ExitCode.DISTRUST, said
    assert "the disk is full" in said or "No space left on device" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    judged = subprocess.run(
        [TRAFFICDIST, "judge", str(kept / "out"), "--format", "json"], capture_output=True, text=True, check=False
    )
    assert "KEP-1/first" in judged.stdout, judged.stderr
    place.expect_clean()
