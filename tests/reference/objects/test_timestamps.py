"""Timestamps in the two formats of Kubernetes objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from reference.objects.timestamps import micro_timestamp, timestamp


def test_present_second_is_written_without_fractions() -> None:
    before = datetime.now(UTC)
    text = timestamp()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert before.replace(microsecond=0) <= datetime.fromisoformat(text) <= datetime.now(UTC)


def test_second_ahead_counts_from_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    assert before <= datetime.fromisoformat(timestamp(ahead=3600)) - timedelta(hours=1) <= datetime.now(UTC)


def test_present_microsecond_always_has_six_digits() -> None:
    before = datetime.now(UTC)
    text = micro_timestamp()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert before <= datetime.fromisoformat(text) <= datetime.now(UTC)
