"""Steps of a scenario, which Allure shows with their durations. Without Allure, steps have no effect."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import allure

_P = ParamSpec("_P")
_R = TypeVar("_R")


def step(title: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Report each call of a function as a step. `title` may use arguments, as in "delete Service {service.name}"."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def stepped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            __tracebackhide__ = True
            with allure.step(title.format_map(signature.bind(*args, **kwargs).arguments)):
                return function(*args, **kwargs)

        return stepped

    return decorate
