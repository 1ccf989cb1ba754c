"""Count false failures. A run against a correct implementation must never have the verdict `failed`.

    python -m tests.conformance.false_failures [--runs 100] [--of 20] [--workers 2] [--into FILE]

Each run judges the reference by some requirements of each profile. The number of the run determines the requirements.
Every second run competes with a busy loop on each core. FILE has one line per run, and runs in FILE are not repeated,
so an interrupted series continues. For example, `--runs 10` in each of ten nights makes a hundred runs. The exit code
is 1 if any run in FILE has a failure.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.judging import history, judge
from harness.model.requirements import Profile
from tests.conformance.mutant_trials import SCENARIOS

TRAFFICDIST = Path(sys.executable).with_name("trafficdist")
INTO = Path("trafficdist-results/false-failures.jsonl")
BUSY = "while True: pass"


def main() -> int:
    """Execute the missing runs, print each result, and print a summary. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="further runs, until there are a hundred")
    parser.add_argument("--of", type=int, default=20, help="requirements of each profile in a run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--into", type=Path, default=INTO, metavar="FILE")
    options = parser.parse_args()
    options.into.parent.mkdir(parents=True, exist_ok=True)
    done = runs_in(options.into)
    for number in range(len(done), min(100, len(done) + options.runs)):
        done.append(one_run(number, options.of, options.workers))
        with options.into.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(done[-1])}\n")
        sys.stdout.write(f"{as_text(done[-1])}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{summary(done)}\n")
    return 1 if any(each["verdicts"].get("failed") for each in done) else 0


def runs_in(file: Path) -> list[dict[str, Any]]:
    """Return the runs that are already complete."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def one_run(number: int, of: int, workers: int) -> dict[str, Any]:
    """Run the requirements of the run with this number against the reference. Return the result."""
    busy = number % 2 == 1
    ids = drawn(number, of)
    with tempfile.TemporaryDirectory() as folder, busy_loops(os.cpu_count() or 1 if busy else 0):
        out = Path(folder, "run")
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [TRAFFICDIST, "run", *ids, "--output-dir", out, "-n", str(workers)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not (out / "run.jsonl").exists():
            raise SystemExit(f"run {number} left no history, exit code {ended.returncode}: {ended.stdout[-2000:]}")
        results = judge.judge(history.read(out / "run.jsonl").records, out / "run.jsonl").derived()
    results = [each for each in results if each.requirement.id in ids]
    return {
        "run": number,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "busy": busy,
        "code": ended.returncode,
        "seconds": round(time.monotonic() - begin, 1),
        "processorSeconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "verdicts": dict(Counter(str(each.verdict) for each in results)),
        "unmet": {
            each.requirement.id: f"{each.verdict}: {each.message}"
            for each in results
            if each.verdict in ("failed", "inconclusive")
        },
    }


def drawn(number: int, of: int) -> list[str]:
    """Return the requirement ids of a run. Each profile contributes the same number of requirements."""
    chance = random.Random(number)
    found = []
    for profile in Profile:
        ids = sorted(name for name, each in SCENARIOS.items() if each.requirement.profile == profile)
        found += chance.sample(ids, min(of, len(ids)))
    return found


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run this number of busy loops in separate processes."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def as_text(run: dict[str, Any]) -> str:
    """Return one line for the run and one line for each unmet requirement."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(run["verdicts"].items()))
    beside = ", beside busy loops" if run["busy"] else ""
    unmet = [f"  {name}: {said}" for name, said in run["unmet"].items()]
    return "\n".join([f"run {run['run']}{beside}: {verdicts} in {run['seconds']} s", *unmet])


def summary(runs: list[dict[str, Any]]) -> str:
    """Return a summary of all runs, separately for runs with and without busy loops."""
    lines = []
    for busy in (False, True):
        some = [each for each in runs if each["busy"] is busy]
        verdicts = sum((Counter(each["verdicts"]) for each in some), Counter[str]())
        told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "nothing"
        lines.append(f"{len(some)} runs {'beside busy loops' if busy else 'without'}: {told}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
