"""Puts off the search for cycles while much is read that stays, and has none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def unsearched() -> Iterator[None]:
    """Let no cycles be looked for meanwhile: the collector would walk all that is read again and again."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()
