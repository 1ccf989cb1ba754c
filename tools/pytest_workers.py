"""Print the number of pytest workers for this project's tests, which use the processor more than they wait.

python -m tools.pytest_workers
"""

import math
import sys

from harness.run.workers import MEGABYTE, Machine, this_machine


def count(machine: Machine) -> int:
    """Return the number of workers for this machine."""
    return max(1, min(math.ceil(1.5 * machine.cpus), machine.memory // (500 * MEGABYTE)))


if __name__ == "__main__":
    here = this_machine()
    number = count(here)
    sys.stderr.write(f"workers {number}: {here.cpus} CPUs, {here.memory // MEGABYTE} MB of memory\n")
    sys.stdout.write(f"{number}\n")
