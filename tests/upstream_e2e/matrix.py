"""Run Kubernetes' topology specs on clusters with one fault each, to find the faults that the specs miss.

    make upstream-matrix                     # continues where it was stopped: hours
    make upstream-matrix ARGS="--at-once 3"
    make upstream-matrix ARGS="--mutant leaks-five-percent"

Each fault is tested once per version of Kubernetes. Its result is written to reports/upstream-e2e immediately, and
docs/faults-missed-upstream.md is generated from the results. The reference runs first, in as many parallel clusters as
the faults will use. If the reference does not pass, the command stops, because results for faults would be meaningless.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import HarnessError
from harness.judging.exit_codes import ExitCode
from tests.upstream_e2e import page, records, run_specs
from tests.upstream_e2e.specs import TOPOLOGY


def main(arguments: Sequence[str]) -> int:
    """Run the remaining faults, and write the page. Return 0, 1 if the reference does not pass, or 12."""
    parser = argparse.ArgumentParser(
        "make upstream-matrix", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--version", default="", help="version of Kubernetes (the latest in the cache)")
    parser.add_argument(
        "--mutant", action="append", default=[], help="test this mutant, even if it has a result; repeatable"
    )
    parser.add_argument("--most", type=int, default=1000, metavar="N", help="maximum number of mutants to test")
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="number of clusters that run concurrently (1)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of ginkgo (1)")
    options = parser.parse_args(arguments)
    known = records.read()
    try:
        suite = run_specs.CompiledSpecs.of(options.version, seed=options.seed)
        specs = suite.names(TOPOLOGY)
    except HarnessError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.DISTRUST
    code = ExitCode.PASSED
    left = list(records.left(known, suite.version, options.mutant))[: options.most]
    for faults in ([records.NO_FAULT] * options.at_once, left):
        for trial in _tried(suite, specs, faults, at_once=options.at_once):
            if trial is None:
                code = ExitCode.DISTRUST
                continue
            known[trial.mutant] = trial
            records.write(known)
            page.write(known)
            _report(trial)
            if trial.mutant == records.NO_FAULT and trial.noticed:
                return ExitCode.FAILED
        if records.NO_FAULT in faults and code:
            return code
    return code


def _tried(
    suite: run_specs.CompiledSpecs, specs: Sequence[str], faults: Sequence[str], *, at_once: int
) -> Iterator[records.SpecTrial | None]:
    """Yield the trial of each fault when it ends, or None if the trial could not run."""
    with ThreadPoolExecutor(at_once) as pool:
        tries = [pool.submit(_try, suite, specs, fault) for fault in faults]
        try:
            for each in as_completed(tries):
                yield each.result()
        except BaseException:  # Ctrl-C, or the caller stops the iteration
            suite.ending.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _try(suite: run_specs.CompiledSpecs, specs: Sequence[str], mutant: str) -> records.SpecTrial | None:
    fault = "" if mutant == records.NO_FAULT else mutant
    try:
        with (
            tempfile.TemporaryDirectory(prefix="trafficdist-e2e-") as folder,
            run_specs.cluster(control_plane=f"binaries:{suite.version}", mutant=fault) as kubeconfig,
        ):
            ends = run_specs.run(suite, kubeconfig, specs, Path(folder), at_once=len(specs))
    except HarnessError as error:
        sys.stderr.write(f"error: {mutant} has no result yet: {error}\n")
        return None
    made = {"kubernetes": suite.version, "commit": _commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    return records.trial_of(mutant, ends, seed=suite.seed, **made)


def _commit() -> str:
    """Return the short commit hash of this checkout; "" without git."""
    try:
        asked = ["git", "rev-parse", "--short", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=False, cwd=records.ROOT).stdout.strip()
    except OSError:
        return ""


def _report(trial: records.SpecTrial) -> None:
    seen = ", ".join(f"{spec} ({seconds:.0f} s)" for spec, seconds in trial.noticed.items()) or "passes all"
    sys.stdout.write(f"{trial.mutant}: {seen}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
