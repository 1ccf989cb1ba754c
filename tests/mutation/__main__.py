"""Run generated mutants against the suite, and report which of them survive.

    make mutation ARGS="--sample 500 --seed 1"

The seed determines the order of mutations, which takes one mutation from each module in turn. The requirements of the
profile that judges a component run on each mutation, until one requirement fails. Results in the file are not repeated.
An interrupted run therefore continues, and a larger sample with the same seed extends a smaller one. The output shows
survivors as a diff, except those in `survivors.yaml`, which are equivalent, outside of the scope, or open. Mutations of
the first two kinds do not run. The exit code is 1 if any other mutant survives.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from harness.model.requirements import Profile
from tests.conformance.mutant_trials import SCENARIOS
from tests.conformance.requirement_durations import seconds
from tests.mutation import evaluation, line_coverage, survivors
from tests.mutation.mutations import Mutation, mutations
from tests.mutation.patched_import import ROOT, text_of

FOLDER = ROOT / "trafficdist-results/mutation"

JUDGES: Mapping[str, Profile] = {
    "reference.proxy": Profile.SERVICE_PROXY,
    "reference.endpointslice": Profile.ENDPOINTSLICE_CONTROLLER,
    "reference.apiserver": Profile.API_SERVER,
    "reference.pod_locator": Profile.DNS,
    "reference.dns": Profile.DNS,
}
"""Maps the package of a component to the profile that tests the component."""

MODULES = (
    *(f"reference.proxy.{name}" for name in ("decision", "state", "ruleset", "table", "flows", "objects", "changes")),
    *(
        f"reference.endpointslice.{name}"
        for name in ("hints", "cpu_hints", "plan", "endpoints", "conditions", "controller", "zones", "allocation")
    ),
    *(f"reference.apiserver.kinds.{name}" for name in ("service_validation", "service_update", "endpointslices")),
    *(f"reference.pod_locator.{name}" for name in ("location", "controller")),
    *(f"reference.dns.{name}" for name in ("records", "authority")),
)
"""The modules that are mutated by default: pure logic and controllers."""


def shuffled(modules: Iterable[str], seed: int) -> Iterator[Mutation]:
    """Yield the mutations of the modules, one from each module in turn. The seed determines the order."""
    orders = []
    for module in modules:
        found = mutations(module, text_of(module))
        random.Random(f"{seed} {module}").shuffle(found)
        orders.append(found)
    for turn in zip_longest(*orders):
        yield from (each for each in turn if each is not None)


class ResultsFile:
    """A file with one result per line. Each result is written immediately."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        self.lines: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                values = json.loads(line)
            except ValueError:  # the run was killed during a write
                continue
            if values["end"] in evaluation.ENDS:  # older versions had other names for some results
                self.lines[tuple(values["name"])] = values

    def note(self, mutation: Mutation, result: evaluation.MutantResult) -> None:
        """Write the result of a mutant."""
        values = {"name": mutation.name, "kind": mutation.kind, **asdict(result)}
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            self.lines[mutation.name] = values
            file.write(f"{json.dumps(values)}\n")

    def survived(self, mutation: Mutation) -> bool:
        """Return whether the mutant survived."""
        return self.lines[mutation.name]["end"] in {evaluation.SURVIVED, evaluation.INCONCLUSIVE}

    def killers(self, module: str, function: str) -> Counter[str]:
        """Return how often each requirement killed mutants of a module. Kills in the same function count tenfold."""
        found = Counter[str]()
        with self._lock:
            for (its_module, its_function, *_), values in self.lines.items():
                if its_module == module and values["end"] == evaluation.KILLED:
                    found[values["by"]] += 10 if its_function == function else 1
        return found


class MutationRunner:
    """Runs requirements on mutations. Requirements with the most expected kills per second run first."""

    def __init__(self, results: ResultsFile, reached: line_coverage.ExecutedLines, *, cluster: bool = False) -> None:
        self._results, self._reached, self._cluster = results, reached, cluster
        self._seconds = seconds()

    def order(self, mutation: Mutation) -> list[evaluation.Reading]:
        """Return the requirements and readings that may kill a mutation, in the order in which to run them.

        The released reading of a requirement runs after the KEP reading. Requirements about running components are
        last.
        """
        profiles = [next(profile for package, profile in JUDGES.items() if mutation.module.startswith(f"{package}."))]
        if self._cluster:
            profiles.append(Profile.CLUSTER)
        asked = [name for name, each in SCENARIOS.items() if each.requirement.profile in profiles]
        killers = self._results.killers(mutation.module, mutation.function)

        def cost(asked: evaluation.Reading) -> tuple[int, bool, bool, float]:
            name, reading = asked
            requirement = SCENARIOS[name].requirement
            likely = killers[name] + 0.1 * len(requirement.kills)
            seconds = (self._seconds.get(name, 1.0) + 0.3) / likely
            return profiles.index(requirement.profile), requirement.last, reading != "kep", seconds

        able = self._reached.executing(mutation, asked)
        return sorted(((name, reading) for name in able for reading in line_coverage.readings_of(name)), key=cost)

    def __call__(self, mutation: Mutation) -> evaluation.MutantResult:
        """Run the requirements on a mutation, and write the result."""
        text = mutation.apply(text_of(mutation.module))
        result = evaluation.judge(mutation.module, text, self.order(mutation))
        self._results.note(mutation, result)
        sys.stdout.write(f"{result.end:8} {result.seconds:5.1f} s  {mutation.module}: {mutation.becomes}\n")
        sys.stdout.flush()
        return result


def summary(results: Sequence[Mapping[str, Any]], known: Mapping[str, int]) -> str:
    """Return a summary of a sample in two lines. `known` has the number of listed survivors of each kind."""
    ends = Counter(each["end"] for each in results)
    dead = len(results) - ends[evaluation.SURVIVED] - ends[evaluation.INCONCLUSIVE]
    median = statistics.median(each["seconds"] for each in results)
    counts = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    kinds = ", ".join(f"{known.get(kind, 0)} {kind}" for kind in survivors.KINDS)
    of = len(results) - sum(known.get(kind, 0) for kind in survivors.SETTLED)
    return (
        f"{len(results)} mutants: {counts}; median {median:.1f} s\n"
        f"listed survivors: {kinds}; of those that the suite should detect {dead / of if of else 1:.1%} died\n"
    )


def main(arguments: Sequence[str]) -> int:
    """Run the remaining mutations of the sample, and report all results. Return the exit code."""
    parser = argparse.ArgumentParser(
        "make mutation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=500, help="number of mutants (500)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants (1)")
    parser.add_argument("--workers", type=int, default=2, help="how many run concurrently (2)")
    parser.add_argument(
        "--module",
        action="append",
        choices=_all_modules(),
        metavar="MODULE",
        help="use only mutants of this module; repeatable",
    )
    parser.add_argument(
        "--into", type=Path, default=FOLDER / "results.jsonl", metavar="FILE", help="file for the results"
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="also run the profile `cluster` on mutants that their own profile does not kill",
    )
    parser.add_argument("--again", action="store_true", help="run survivors again, except settled ones")
    parser.add_argument(
        "--settled", action="store_true", help="also run settled mutants: equivalent or outside of the scope"
    )
    parser.add_argument("--measure", action="store_true", help="measure again which requirements execute which lines")
    options = parser.parse_args(arguments)
    results = ResultsFile(options.into)
    sample = list(islice(shuffled(options.module or MODULES, options.seed), options.sample))
    listed = survivors.read()
    settled = {name for kind in survivors.SETTLED for name in listed[kind]}
    left = [
        each
        for each in sample
        if (options.settled or each.name not in settled)
        and (each.name not in results.lines or (options.again and results.survived(each)))
    ]
    if left:
        judge = MutationRunner(
            results,
            line_coverage.known(options.into.with_name("reach.json"), anew=options.measure),
            cluster=options.cluster,
        )
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(judge, left))
    return _report(sample, results, listed)


def _report(sample: Sequence[Mutation], results: ResultsFile, listed: Mapping[str, Collection[survivors.Name]]) -> int:
    tried = [each for each in sample if each.name in results.lines]
    survived = [each for each in tried if results.survived(each)]
    unknown = [each for each in survived if not any(each.name in some for some in listed.values())]
    for each in unknown:
        values = results.lines[each.name]
        inconclusive = "".join(f"  inconclusive: {name}: {text}\n" for name, text in values["inconclusive"].items())
        diff = each.difference(text_of(each.module))
        sys.stdout.write(f"\nsurvived {values['tried']} trials, {each.kind}:\n{diff}{inconclusive}")
    known = Counter(kind for kind, some in listed.items() for each in survived if each.name in some)
    if tried:
        sys.stdout.write(f"\n{summary([results.lines[each.name] for each in tried], known)}")
    sys.stdout.write(f"{len(sample) - len(tried)} others are settled, and did not run\n")
    return int(bool(unknown))


def _all_modules() -> list[str]:
    files = (file for package in JUDGES for file in ROOT.joinpath(*package.split(".")).rglob("*.py"))
    return sorted(".".join(each.relative_to(ROOT).with_suffix("").parts) for each in files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
