"""Tests how the first error in a log is found: by its level or its words. Help texts and later errors do not count."""

from __future__ import annotations

import pytest

from harness.model.program_log import fault_in

KLOG = """\
I1123 06:41:53.000001  7 server.go:1] "failed calls are tried again" error="none"
W1123 06:41:53.000002  7 server.go:2] cannot read sysctl
E1123 06:41:53.000003  7 server.go:3] "Error running ProxyServer" err="no such mode"
E1123 06:41:53.000004  7 run.go:4] "command failed" err="no such mode"
"""
PYTHON = """\
starting
Traceback (most recent call last):
  File "proxy.py", line 3, in <module>
    failed()
ValueError: no zone
cleaning up failed
"""


@pytest.mark.parametrize(
    ("log", "number", "text"),
    [
        (KLOG, 3, 'E1123 06:41:53.000003  7 server.go:3] "Error running ProxyServer" err="no such mode"'),
        (PYTHON, 5, "ValueError: no zone"),
        ("starting\nError: unknown flag: --nodes\nUsage:\n  proxy [flags]\n", 2, "Error: unknown flag: --nodes"),
        ('level=info msg="no error yet"\nlevel=fatal msg="stop"\n', 2, 'level=fatal msg="stop"'),
        ('{"level":"info","msg":"bad"}\n{"level":"error","msg":"x"}\n', 2, '{"level":"error","msg":"x"}'),
        ("2026-11-23 06:41:53 INFO bad luck\n2026-11-23 06:41:53 [ERROR] x\n", 2, "2026-11-23 06:41:53 [ERROR] x"),
        ('{\n    "code": 7,\n    "msg": "no bridge"\n}\n', 3, '"msg": "no bridge"'),
        ("warning: cannot set rlimit\npanic: nil map\n", 2, "panic: nil map"),
    ],
)
def test_first_error_is_found_by_its_level_or_by_its_words(log: str, number: int, text: str) -> None:
    where = f"in line {number} of {len(log.splitlines())}"
    assert fault_in(log) == f"the first error of its log, {where}: {text}"


def test_log_without_an_error_is_summarized_by_its_last_line() -> None:
    assert fault_in("I am well\nthinking\n\n") == "its log has no error, and ends with: thinking"


def test_empty_log_is_reported() -> None:
    assert fault_in(" \n") == "its log is empty"


def test_fault_is_one_line_of_bounded_length() -> None:
    told = fault_in("starting\n" + "error " * 10_000)
    assert told.startswith("the first error of its log, in line 2 of 2: error")
    assert len(told) < 600
