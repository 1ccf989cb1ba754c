"""Count the verdicts of the reference on machines that are busy, slow, or that stop programs.

    python benchmarks/busy_machine.py [--quick] [--rounds N] [--conditions NAME...] [-- OPTION...]

Each round runs two whole profiles under each condition. No verdict may be `failed`, because the reference is correct;
the goal for `inconclusive` is at most 1 %. The options after `--` go to `trafficdist run`.

| condition | what happens during the run |
|---|---|
| `quiet`, `loops-4`, `loops-16` | 0, 4 or 16 programs that never wait |
| `half-cpu` | the control group of the run has half a CPU |
| `stops` | every 5 s, a random worker is stopped for 2 s |
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from harness.run_delay import family

PROFILES = ["service-proxy", "endpointslice-controller"]
CONDITIONS = ["quiet", "loops-4", "loops-16", "half-cpu", "stops"]
EVERY, STOPPED = 5.0, 2.0


def main() -> int:
    """Print one line per run, and the total. Return 1 if a verdict is `failed`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=CONDITIONS)
    parser.add_argument("options", nargs="*")
    parser.add_argument("--quick", action="store_true", help="only `trafficdist run --quick`")
    given = parser.parse_args()
    options = given.options + ["--quick"] * given.quick
    total: Counter[str] = Counter()
    for condition in given.conditions * given.rounds:
        for profile in PROFILES:
            total += run(condition, profile, options)
    verdicts = total.total()
    print(f"{verdicts} verdicts: {total['failed']} failed, {total['inconclusive'] / max(1, verdicts):.2%} inconclusive")
    return 1 if total["failed"] else 0


def run(condition: str, profile: str, options: list[str]) -> Counter[str]:
    """Run one profile under one condition, print the result, and return the number of its verdicts by kind.

    The results of a run with a failed requirement are kept.
    """
    folder = Path(tempfile.mkdtemp(prefix="busy-machine-"))
    results = folder / "results"
    command = [sys.executable, "-m", "trafficdist", "run", "--profile", profile, "--output-dir", str(results), *options]
    begin = time.monotonic()
    with busy_loops(condition), control_group(condition) as group, (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=lambda: join(group))  # noqa: PLW1509
        with stopped_workers(condition, process.pid):
            code = process.wait()
    took = time.monotonic() - begin
    judged = [
        test for test in yaml.safe_load((results / "report.yaml").read_text())["tests"] if test["verdict"] != "skipped"
    ]
    verdicts = Counter[str](test["verdict"] for test in judged)
    print(f"{condition:15} {profile:25} exit code {code}, {took:4.0f} s: {dict(verdicts)}", flush=True)
    for test in judged:
        if test["verdict"] != "passed":
            print(f"    {test['verdict']}: {test['id']}: {test['message'] or test['reason']}", flush=True)
    if verdicts["failed"]:
        print(f"    results: {results}", flush=True)
    else:
        shutil.rmtree(folder)
    return verdicts


@contextlib.contextmanager
def busy_loops(condition: str) -> Iterator[None]:
    """Start the busy loops of a condition, and end them."""
    number = int(condition.removeprefix("loops-")) if condition.startswith("loops-") else 0
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def control_group(condition: str) -> Iterator[Path | None]:
    """Create a control group with half a CPU (version 1 or 2), if the condition requires it."""
    if condition != "half-cpu":
        yield None
        return
    root = Path("/sys/fs/cgroup")
    if (root / "cpu").is_dir():
        group, limits = (
            root / "cpu" / f"half-{os.getpid()}",
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
        )
    else:
        group, limits = root / f"half-{os.getpid()}", {"cpu.max": "50000 100000"}
    group.mkdir()
    try:
        for name, value in limits.items():
            (group / name).write_text(value)
        yield group
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def join(group: Path | None) -> None:
    """Put this process into a control group."""
    if group:
        (group / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def stopped_workers(condition: str, run: int) -> Iterator[None]:
    """Stop a random child of the run for 2 s every 5 s, if the condition requires it."""
    ended = threading.Event()
    chosen = random.Random(1)

    def stop() -> None:
        while not ended.wait(EVERY - STOPPED):
            workers = sorted(int(each.name) for each in family(Path(f"/proc/{run}")) if is_worker(each))
            if not workers:
                continue
            worker = chosen.choice(workers)
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)
                ended.wait(STOPPED)
                os.kill(worker, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    if condition == "stops":
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.ident:
            thread.join()


def is_worker(process: Path) -> bool:
    """Return whether a process is a worker of pytest-xdist."""
    with contextlib.suppress(OSError):
        return b"execnet" in (process / "cmdline").read_bytes()
    return False


if __name__ == "__main__":
    sys.exit(main())
