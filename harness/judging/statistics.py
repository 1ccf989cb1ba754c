"""Computes how many probes a check needs to achieve its stated error rates.

Proxies pick endpoints at random, so a check can be wrong. It states the smallest fault that it detects, and the
probability of missing this fault. A fault usually affects some connections of every client, or all connections of one
client. So each check has two thresholds for the share of wrong answers: a small one for all clients with the same
expectation together, and a larger one for each client alone. All bounds apply to a proxy that picks an endpoint for
every connection independently and with equal probabilities. With a round-robin proxy, fewer probes reach all endpoints.
"""

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

LEAST_RATE = 1e-9
"""The lower limit of error rates. Smaller rates would need too many probes and too much time to compute."""

DEFAULT_LEAK = 0.05
DEFAULT_MISS = 1e-6
DEFAULT_ALONE = 0.2
DEFAULT_ALARM = 1e-9  # a whole run asks this question thousands of times


@dataclass(frozen=True, slots=True)
class Rates:
    """The error rates of a check: the smallest shares of wrong answers to detect, and the probability of missing them.

    All clients together detect a share `leak` of wrong answers. Each client alone detects a share `alone` of wrong
    answers, or `leak` if `leak` is larger. If there is only one client, it detects `leak`. `chances` is how many times
    a fault can go unnoticed by chance. It is two if a wait precedes the window, because wrong observations during the
    wait only restart the wait. The total probability of missing a fault is below `miss`. `alarm` is the probability
    that a client misses one of its endpoints by chance, although all endpoints are equally likely.
    """

    leak: float = DEFAULT_LEAK
    miss: float = DEFAULT_MISS
    alone: float = DEFAULT_ALONE
    chances: int = 2
    alarm: float = DEFAULT_ALARM

    def __post_init__(self) -> None:
        rates = (self.leak, self.miss, self.alone, self.alarm)
        if not all(LEAST_RATE <= each < 1 for each in rates) or not 1 <= self.chances <= 9:
            text = f"leak {self.leak}, miss {self.miss}, alone {self.alone}, alarm {self.alarm}, chances {self.chances}"
            raise ValueError(f"expected error rates from {LEAST_RATE:g} to below 1, and 1 to 9 chances, not {text}")

    def laxer(self, than: "Rates") -> bool:
        """Return whether a window with these rates may miss a fault that a window with the rates `than` detects."""
        alone = max(self.leak, than.alone)
        return self.leak > than.leak or self.miss > than.miss or self.alone > alone

    def by_itself(self, clients: int) -> float:
        """Return the smallest share of wrong answers that each of this many clients detects alone."""
        return max(self.leak, self.alone) if clients > 1 else self.leak

    def samples(self, clients: int) -> int:
        miss = self.miss / self.chances
        together = math.ceil(samples_for_leak(self.leak, miss) / clients)
        return max(together, samples_for_leak(self.by_itself(clients), miss))

    def smallest_fault(self, clients: int) -> str:
        """Return, for the report, the smallest shares of wrong answers that clients detect together and alone."""
        alone = self.by_itself(clients)
        text = _percent(self.leak)
        return text if alone == self.leak else f"{text} at {clients} clients, {_percent(alone)} at one"


DEFAULT_RATES = Rates()
LAXEST = Rates(leak=0.5)  # the most lenient error rates that a window of the suite may have


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """The number of probes of each client in a check, and the check's error rates. `false_alarm` and `miss` are the
    maximum probabilities that a correct proxy fails, and that a faulty proxy passes.
    """

    kind: str
    samples: int
    false_alarm: float
    smallest_fault: str
    miss: float

    def detects(self) -> tuple[str, str, float]:
        """Return the kind of check, the smallest fault that it detects, and the probability of missing this fault."""
        return self.kind, self.smallest_fault, self.miss

    def check(self, clients: int = 1) -> dict[str, str | int | float]:
        """Return the plan for the report, with the sum of the false-alarm probabilities of all clients."""
        return {
            "kind": self.kind,
            "samples": self.samples,
            "falseAlarm": _rounded_up(min(1.0, clients * self.false_alarm)),
            "smallestFault": self.smallest_fault,
            "miss": self.miss,
        }


@cache
def samples_for_leak(leak: float, miss: float) -> int:
    """Return the number of probes that miss a share `leak` of wrong answers with a probability of at most `miss`."""
    rates = Rates(leak, miss)
    return _smallest(lambda n: (1 - rates.leak) ** n <= rates.miss, math.log(miss) / math.log1p(-leak))


def samples_for_members(count: int, miss: float) -> int:
    """Return the number of probes that miss one of `count` equal endpoints with a probability of at most `miss`."""
    if count < 1:
        raise ValueError(f"expected at least one endpoint, not {count}")
    if not 0 < miss < 1:
        raise ValueError(f"expected an error rate between 0 and 1, not {miss}")
    if count == 1:
        return 1
    guess = math.log(miss / count) / math.log1p(-1 / count)
    return _smallest(lambda n: unseen_bound(count, n) <= miss, guess)


def unseen_bound(count: int, samples: int) -> float:
    """Return a union bound on the probability that `samples` probes miss one of `count` equally likely endpoints."""
    return min(1.0, count * (1 - 1 / count) ** samples)


def allowed_set(count: int, rates: Rates = DEFAULT_RATES, *, clients: int = 1) -> SamplePlan:
    """Return the plan for "every answer comes from these `count` endpoints, and each of them answers". A false alarm is
    possible only for an endpoint that never answered. `clients` is how many clients would see the same faults.
    """
    samples = max(rates.samples(clients), samples_for_members(count, rates.alarm))
    return SamplePlan("allowed-set", samples, unseen_bound(count, samples), rates.smallest_fault(clients), rates.miss)


def every_probe(kind: Literal["silence", "no-loss"], rates: Rates = DEFAULT_RATES, *, clients: int = 1) -> SamplePlan:
    """Return the plan for "there is no answer" or "every request gets an allowed answer", without false alarms."""
    return SamplePlan(kind, rates.samples(clients), 0.0, rates.smallest_fault(clients), rates.miss)


@cache
def even_shares(count: int, rates: Rates = DEFAULT_RATES) -> SamplePlan:
    """Return the plan for "each of these `count` endpoints gets an equal share". The smallest fault is one endpoint
    that gets twice, or half, the traffic of each other endpoint. The number of probes is the smallest multiple of 10
    for which the probability of missing this fault, and the total false-alarm probability, are at most `rates.miss`.
    """
    if count < 2:
        raise ValueError(f"expected at least two endpoints to compare shares, not {count}")
    fair, double, half = 1 / count, 2 / (count + 1), 1 / (2 * count - 1)
    for samples in itertools.count(10, 10):
        fewest, most = share_bounds(samples, count, rates.miss)
        if max(at_most(most, samples, double), 1 - at_most(fewest - 1, samples, half)) <= rates.miss:
            break
    false_alarm = count * (at_most(fewest - 1, samples, fair) + 1 - at_most(most, samples, fair))
    return SamplePlan("even-shares", samples, max(0.0, false_alarm), "2:1 between endpoints", rates.miss)


def share_bounds(samples: int, count: int, alarm: float) -> tuple[int, int]:
    """Return bounds on an endpoint's answers. All `count` endpoints meet them with probability 1 - `alarm` or more."""
    tail = alarm / (2 * count)
    probabilities = _binomial(samples, 1 / count)
    return _tail_length(probabilities, tail), samples - _tail_length(probabilities[::-1], tail)


@cache
def bounded_load(count: int, percent: int) -> tuple[int, int]:
    """Return how many probes show that none of `count` endpoints gets more than `percent` % above an equal share, and
    the maximum number of answers of one endpoint. The smallest fault is one endpoint with one and a half times the
    allowed traffic. If all endpoints get exactly the allowed traffic, the total false-alarm probability is at most
    `DEFAULT_RATES.miss`.
    """
    may = (1 + percent / 100) / count
    if not 0 < 1.5 * may < 1:
        raise ValueError(f"with {count} endpoints, no number of probes can detect more than {percent} % overload")
    for samples in itertools.count(100, 100):
        bound = most(samples, may, DEFAULT_RATES.miss / count)
        if at_most(bound, samples, 1.5 * may) <= DEFAULT_RATES.miss:
            break
    return samples, bound


def at_most(successes: int, samples: int, chance: float) -> float:
    """Return the probability of at most `successes` successes in `samples` trials."""
    return math.fsum(_binomial(samples, chance)[: max(0, successes + 1)])


def most(samples: int, chance: float, tail: float) -> int:
    """Return the number of successes that is exceeded with a probability of at most `tail`."""
    return samples - _tail_length(_binomial(samples, chance)[::-1], tail)


def _binomial(samples: int, chance: float) -> list[float]:
    """Return the probability of each number of successes. Logarithms avoid the overflow of factorials."""
    constant = math.lgamma(samples + 1)
    up, down = math.log(chance), math.log1p(-chance)
    return [
        math.exp(constant - math.lgamma(k + 1) - math.lgamma(samples - k + 1) + k * up + (samples - k) * down)
        for k in range(samples + 1)
    ]


def _tail_length(probabilities: Sequence[float], tail: float) -> int:
    return sum(total <= tail for total in itertools.accumulate(probabilities))


def _smallest(enough: Callable[[int], bool], guess: float) -> int:
    """Return the smallest n for which `enough` is true. `guess` may have a rounding error."""
    n = max(1, math.ceil(guess) - 1)
    while not enough(n):
        n += 1
    return n


def _percent(share: float) -> str:
    return f"{share * 100:g}% leak"


def _rounded_up(bound: float) -> float:
    """Round a bound up to two digits, which is readable in reports and keeps the bound valid."""
    if bound < sys.float_info.min:
        return 0.0
    exponent = math.floor(math.log10(bound))
    return float(f"{math.ceil(bound / 10.0 ** (exponent - 1))}e{exponent - 1}")
