"""Tests the resolvers that scenarios query."""

from __future__ import annotations

import pytest

from harness.scenario.dns_answers import resolvers


@pytest.mark.parametrize("dig", [True, False])
def test_dig_runs_last_and_only_if_installed(monkeypatch: pytest.MonkeyPatch, dig: bool) -> None:
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}" if dig else None)
    names = [each.name for each in resolvers()]
    assert names == ["the C library", "dnspython", *(["dig"] if dig else [])]
