"""Tests the number of workers, which depends on the machine and its limits, the backend, and the selection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.run.workers import Machine, count_workers, predicted, this_machine
from harness.settings.options import resolve
from tests.conftest import workers_on

GIGABYTE = 1024**3
WHOLE = {f"KEP-1/r{number}": 0.7 for number in range(380)}


def settings(**options: Any) -> Any:
    return resolve({"backend": "netns", **options}, environment={})


@pytest.mark.parametrize(
    ("processors", "gigabytes", "options", "number"),
    [
        (2, 8, {}, 4),
        (1, 8, {}, 2),
        (8, 32, {}, 16),
        (8, 1, {}, 3),
        (2, 0.3, {}, 0),
        (2, 8, {"proxy": "kube-proxy"}, 2),
        (2, 8, {"backend": "kubeconfig"}, 4),
        (2, 8, {"backend": "kind"}, 2),
    ],
)
def test_full_run_uses_as_many_workers_as_the_machine_allows(
    processors: int, gigabytes: float, options: dict[str, str], number: int
) -> None:
    assert count_workers(settings(**options), WHOLE, Machine(processors, int(gigabytes * GIGABYTE))) == number


def test_few_requirements_run_without_workers() -> None:
    assert count_workers(settings(), {"KEP-1/a": 13.0}, Machine(8, 8 * GIGABYTE)) == 0


def test_no_more_workers_start_than_shorten_the_run() -> None:
    assert count_workers(settings(), {f"KEP-1/{each}": 10.0 for each in "abc"}, Machine(8, 8 * GIGABYTE)) == 3


def test_chosen_number_of_workers_is_never_slower_than_two() -> None:
    for processors in (1, 2, 3, 4, 8, 64):
        for requirements in (1, 2, 5, 20, 100, 380):
            seconds = dict(list(WHOLE.items())[:requirements])
            chosen = count_workers(settings(), seconds, Machine(processors, 64 * GIGABYTE))
            assert predicted(chosen, seconds, processors) <= predicted(2, seconds, processors)


def test_unknown_requirements_run_without_workers() -> None:
    assert count_workers(settings(), {}, Machine(8, 8 * GIGABYTE)) == 0


def test_tests_of_this_project_have_three_workers_on_two_processors() -> None:
    assert workers_on(Machine(2, 8 * GIGABYTE)) == 3
    assert workers_on(Machine(2, GIGABYTE)) == 2


def groups(folder: Path, own: str, **files: str) -> Machine:
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return this_machine(folder, folder / "own")


def test_limits_of_parent_control_groups_apply(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        "0::/box/run\n",
        box__cpu_DOT_max="50000 100000\n",
        box__run__cpu_DOT_max="max 100000\n",
        box__memory_DOT_max="1000000\n",
        box__memory_DOT_current="700000\n",
        box__memory_DOT_stat="anon 1\ninactive_file 200000\n",
    )
    assert found == Machine(1, 500_000)


def test_limits_apply_without_the_path_in_the_container(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        "0::/docker/4711\n",
        cpu_DOT_max="100000 100000",
        memory_DOT_max="300",
        memory_DOT_current="100",
    )
    assert found == Machine(1, 200)


def test_every_usable_processor_counts_without_limits(tmp_path: Path) -> None:
    found = groups(tmp_path, "0::/\n", cpu_DOT_max="max 100000\n", memory_DOT_max="max\n")
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.memory > 0
