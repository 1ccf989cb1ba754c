"""Tests the output and exit code of `trafficdist proxy check` with programs that have one fault each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from harness.commands import proxy_check
from harness.commands.main import main
from harness.commands.proxy_check import CHANGES, HINTS, REACHED, READY, STARTS, SYNCED, check
from harness.judging.exit_codes import ExitCode
from harness.netns import sandbox
from harness.netns.process import search_path
from harness.settings.options import resolve

BOOTED, SMOKE_TEST = [STARTS, READY, SYNCED], [REACHED, HINTS, CHANGES]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "small-proxy"
NEWS = 'self.objects[path][uid] = event["object"]'
KEPT = 'self.objects[path][uid] = kept(lambda old, new: {}, self.objects[path].get(uid), event["object"])'
FAULTS = {
    "ignores-hints": ("if near and all(", "if False and all("),
    "ignores-changed-hints": (
        NEWS,
        KEPT.format('[each["addresses"] for each in old] == [each["addresses"] for each in new]'),
    ),
    "keeps-removed": (NEWS, KEPT.format("len(new) < len(old)")),
    "dies": (NEWS, f"{NEWS}; end_at_a_slice(path)"),
    "follows-places": ("endpoints = read_endpoints(mine, ", "endpoints = placed(spec, mine, "),
    "never-ends": ("began = False", "began = stay_forever()"),
}
"""Code in the small proxy and its faulty replacement, which may call the functions in `FAULTY`."""

BEGIN = '\nif __name__ == "__main__":\n'
FAULTY = '''
def kept(same, old, new):
    """Return a slice as it was if this holds of its endpoints, before and now."""
    if old is None or "endpoints" not in new:
        return new
    return old if same(old["endpoints"] or [], new["endpoints"] or []) else new


def placed(spec, slices, *port):
    """Return endpoints with the zones where they are, if the field of their Service requests this."""
    places = {each["addresses"][0]: each.get("zone") for piece in slices for each in piece.get("endpoints") or ()}
    asked = spec.get("trafficDistribution")
    return [
        each._replace(zones=frozenset([places[each.address]] if asked else []))
        for each in read_endpoints(slices, *port)
    ]


def stay_forever():
    """Ignore SIGTERM, and write a long log."""
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log("x" * 2_000_000)


def end_at_a_slice(path):
    if "slices" in path:
        print("error: out of luck", flush=True)
        __import__("os")._exit(1)

'''

Check = Callable[..., tuple[ExitCode, str]]

pytestmark = pytest.mark.skipif(
    shutil.which("nft", path=search_path()) is None, reason="unavailable: nft is not installed"
)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.enter()
    monkeypatch.chdir(tmp_path)


def _check(proxy: str, **options: Any) -> tuple[ExitCode, str]:
    said: list[str] = []
    code = check(resolve({"proxy": proxy, "backend": "netns", **options}, environment={}), said.append)
    return code, "\n".join(said)


@pytest.fixture
def tiny(tmp_path: Path) -> Check:
    """Return a function that checks the documentation's small proxy, with one fault or with another command."""

    def checked(fault: str = "", **changes: Any) -> tuple[ExitCode, str]:
        program, recipe = tmp_path / "small_proxy.py", yaml.safe_load((EXAMPLE / "small-proxy.yaml").read_text("utf-8"))
        program.write_text(_with_fault(fault), encoding="utf-8")
        command = [sys.executable, str(program), *recipe["command"][2:]]
        recipe |= {"name": "tiny", "command": command, "ready": [{"log": "^serving"}], "requires": []} | changes
        (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
        return _check("tiny.yaml")

    return checked


def _with_fault(name: str) -> str:
    text = (EXAMPLE / "small_proxy.py").read_text(encoding="utf-8")
    if not name:
        return text
    right, wrong = FAULTS[name]
    assert (text.count(right), text.count(BEGIN)) == (1, 1)
    return text.replace(right, wrong).replace(BEGIN, FAULTY + BEGIN)


def _by_mark(said: str, mark: str) -> list[str]:
    return [line[10:] for line in said.splitlines() if line.startswith(f"  {mark.ljust(8)}")]


def _python(text: str) -> dict[str, Any]:
    return {"command": [sys.executable, "-c", text], "ready_seconds": 2}


def _evidence(tmp_path: Path, step: str) -> Path:
    return next(tmp_path.glob(f"trafficdist-results/checks/*/evidence/{step.replace(':', '').replace(' ', '-')}"))


def _logs(tmp_path: Path, step: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in _evidence(tmp_path, step).glob("tiny-*.log"))


def test_correct_proxy_passes_all_steps_and_leaves_nothing(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny()
    assert code is ExitCode.PASSED, said
    assert _by_mark(said, "ok")[1:] == [*BOOTED, *SMOKE_TEST]
    assert not (tmp_path / "trafficdist-results").exists()


def test_exited_proxy_is_reported_with_the_error_from_its_log(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny(**_python("import sys; print('starting'); print('bad flag: x\\nusage: y'); sys.exit(3)"))
    assert code is ExitCode.DISTRUST
    assert _by_mark(said, "FAILED") == [STARTS]
    assert "tiny on a1 exited with 3; the first error of its log, in line 2 of 3: bad flag: x\n" in said
    assert "next: run the recipe's command manually" in said
    assert _logs(tmp_path, BOOTED[0]) == "starting\nbad flag: x\nusage: y\n"


def test_unready_proxy_is_reported_with_its_failing_check(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny(**_python("import time; print('thinking', flush=True); time.sleep(60)"))
    assert code is ExitCode.DISTRUST
    assert (_by_mark(said, "ok")[1:], _by_mark(said, "FAILED")) == (BOOTED[:1], [BOOTED[1]])
    assert "no line of the log matches '^serving'; its log has no error, and ends with: thinking" in said
    assert _logs(tmp_path, BOOTED[1]) == "thinking\n"


def test_lagging_proxy_is_reported_with_check_and_node(tiny: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.backends.netns.BOOT_SECONDS", 1.0)
    code, said = tiny(synced=[{"http": {"port": 9}}])
    assert code is ExitCode.DISTRUST
    assert (_by_mark(said, "ok")[1:], _by_mark(said, "FAILED")) == (BOOTED[:2], BOOTED[2:])
    assert "tiny on a1: http port 9 /healthz: Connection refused" in said


def test_proxy_that_ignores_hints_skips_the_hint_change_step(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny("ignores-hints")
    assert code is ExitCode.FAILED
    assert (_by_mark(said, "ok")[1:], _by_mark(said, "FAILED")) == ([*BOOTED, REACHED], [HINTS])
    assert "next: the proxy must read `hints.forZones`" in said
    assert "tiny-a1.log: its log has no error, and ends with: serving" in said
    assert "serving\n" in _logs(tmp_path, HINTS)
    assert [*_evidence(tmp_path, HINTS).glob("rules-a1-*.txt")]


def test_proxy_that_ignores_hint_changes_fails_only_that_step(tiny: Check) -> None:
    code, said = tiny("ignores-changed-hints")
    assert code is ExitCode.FAILED
    assert (_by_mark(said, "ok")[1:], _by_mark(said, "FAILED")) == ([*BOOTED, REACHED, HINTS], [CHANGES])
    assert "does the proxy ignore hints when it compares endpoints" in said


def test_proxy_that_declares_no_hint_support_passes_the_other_steps(tiny: Check) -> None:
    code, said = tiny("ignores-hints", exempt_features=["ZoneHints"])
    assert code is ExitCode.PASSED
    assert _by_mark(said, "-") == [
        f"{each}: not checked, because the proxy does not claim ZoneHints" for each in SMOKE_TEST[1:]
    ]


@pytest.mark.parametrize("exempt", [[], ["ZoneHints"]])
def test_proxy_that_follows_places_can_declare_it(tiny: Check, exempt: list[str]) -> None:
    """Such a proxy does not reach all endpoints of a Service with the field, although the Service works."""
    code, said = tiny("follows-places", exempt_features=exempt)
    assert code is (ExitCode.PASSED if exempt else ExitCode.FAILED), said
    assert _by_mark(said, "ok")[1:] == [*BOOTED, REACHED]
    assert exempt or "uses the zones of endpoints instead, set `exempt_features: [ZoneHints]`" in said


def test_program_that_never_ends_and_writes_a_long_log_is_reported(tiny: Check) -> None:
    code, said = tiny("never-ends")
    assert code is ExitCode.PASSED
    assert sorted(_by_mark(said, "note")) == [
        f"tiny on {node} {what}"
        for node in ("a1", "b1")
        for what in (
            "ignores SIGTERM: it was killed after 5 s",
            "wrote a log of 2 MB; limits.log is its limit",
        )
    ]


def test_proxy_that_exits_during_a_step_is_reported_and_not_probed_again(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny("dies")
    assert code is ExitCode.INCONCLUSIVE
    assert (_by_mark(said, "UNKNOWN"), _by_mark(said, "-")) == ([REACHED], [])
    assert "exited with 1" in said
    assert ": error: out of luck\n" in said
    assert f"next: {proxy_check.ENDED}" in said
    assert "out of luck" in _logs(tmp_path, REACHED)


@pytest.mark.parametrize("options", [{}, {"kubernetes-version": "1.32"}])
def test_reference_passes_all_steps(options: dict[str, str]) -> None:
    code, said = _check("reference", **options)
    assert code is ExitCode.PASSED, said
    assert _by_mark(said, "ok")[1:] == [*BOOTED, *SMOKE_TEST]


@pytest.mark.parametrize(("steps", "quick"), [(ExitCode.PASSED, 1), (ExitCode.FAILED, 0)])
def test_quick_run_follows_when_all_steps_pass(steps: ExitCode, quick: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    monkeypatch.setattr(proxy_check, "check", lambda settings, say: steps)
    monkeypatch.setattr("harness.plugin.suite.run_pytest", lambda arguments: runs.append(arguments) or 11)
    done = CliRunner().invoke(main, ["proxy", "check", "reference", "--kubernetes-version", "1.34", "--keep", "never"])
    assert done.exit_code == (11 if quick else int(steps)), done.output
    wanted = {
        "--td-quick",
        "--td-backend=netns",
        "--td-proxy=reference",
        "--td-kubernetes-version=1.34",
        "--td-keep=never",
    }
    assert [set(each) for each in runs] == [wanted] * quick


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_quick_run_finds_a_proxy_that_keeps_removed_endpoints(tiny: Check, tmp_path: Path) -> None:
    code, said = tiny("keeps-removed")
    assert code is ExitCode.PASSED, said
    command = [str(Path(sys.executable).with_name("trafficdist")), "proxy", "check", "tiny.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.FAILED, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("✗") and "endpoint" in line], done.stdout


def test_evidence_is_kept_in_the_requested_folder_or_not_at_all(tiny: Check, tmp_path: Path) -> None:
    tiny(**_python("raise SystemExit('error: no')"))
    assert (tmp_path / "trafficdist-results").exists()
    code, said = _check("tiny.yaml", **{"output-dir": str(tmp_path / "here")})
    assert (code, str(tmp_path / "here" / "evidence") in said) == (ExitCode.DISTRUST, True)
    _, said = _check("tiny.yaml", keep="never")
    assert "evidence:" not in said
