"""Runs the jobs of a GitHub workflow on this machine, with unchanged scripts and with simulated actions.

Scripts run as on a GitHub runner: with `bash -e`, the variables of job and step, and the files GITHUB_OUTPUT,
GITHUB_PATH and GITHUB_STEP_SUMMARY.
The simulated actions are checkout, cache, upload-artifact and download-artifact. For actions that install a language,
the language on this machine is used.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.harness.deploy.expressions import evaluate, fill

_SECONDS = 1200
_OF_OTHERS = ("GITHUB_", "RUNNER_", "PYTEST_")
_NOT_IN_NAMES = '":<>|*?\r\n'  # upload-artifact rejects a path with one of these characters

SUDO = """#!/bin/sh
keep=no
while :; do
  case $1 in
    --preserve-env) keep=yes ;;
    --set-home) ;;
    -*) echo "sudo: unknown option $1" >&2; exit 1 ;;
    *) break ;;
  esac
  shift
done
roots="AS_ROOT=yes PATH=${0%/*}/root:/usr/sbin:/usr/bin:/sbin:/bin"
if [ $keep = yes ]; then exec env $roots "$@"; else exec env -i $roots "$@"; fi
"""
"""A sudo without root, with the environment of a GitHub runner. Folder `root` beside it may have fake programs."""

GH = f"""#!{sys.executable}
import json, pathlib, sys
file = pathlib.Path(__file__).with_name("issues.json")
issues = json.loads(file.read_text()) if file.exists() else []
match sys.argv[1:3]:
    case ["issue", "list"]:
        print(json.dumps([{{"number": number, "title": each[0]}} for number, each in enumerate(issues)]))
    case ["issue", "create"]:
        issues.append([sys.argv[3].removeprefix("--title="), sys.stdin.read()])
    case ["issue", "comment"]:
        issues[int(sys.argv[3])].append(sys.stdin.read())
    case other:
        assert other == ["label", "create"], other
file.write_text(json.dumps(issues))
"""
"""A gh that keeps issues in a file beside itself."""


def program(folder: Path, name: str, text: str) -> None:
    """Write an executable file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(stat.S_IRWXU)


def kept_issues(programs: Path) -> list[list[str]]:
    """Return the title, text and comments of each issue that `GH` in this folder keeps."""
    file = programs / "issues.json"
    return list(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def scheduled_run(run_id: str) -> dict[str, Any]:
    """Return the `github` context of a scheduled run."""
    return {
        "run_id": run_id,
        "run_attempt": "1",
        "event_name": "schedule",
        "ref_name": "main",
        "event": {"repository": {"default_branch": "main"}},
        "token": "none",
        "server_url": "https://github.example",
        "repository": "acme/trafficdist",
    }


class StepFailedError(AssertionError):
    """A failed step of a job."""


@dataclass(frozen=True)
class FakeGitHub:
    """The state outside of jobs, in a folder: caches by key, and the artifacts of one run.

    `seen` are the contexts of the run.
    """

    folder: Path
    seen: Mapping[str, Any]

    def restore(self, key: str, prefixes: list[str]) -> Path | None:
        """Return the cache with this key, or the newest one whose key starts with a prefix."""
        caches = sorted((self.folder / "caches").glob("*"), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        exact = [each for each in caches if each.name == key]
        return next(iter(exact + [each for p in prefixes for each in caches if each.name.startswith(p)]), None)

    @property
    def caches(self) -> Path:
        return self.folder / "caches"

    @property
    def artifacts(self) -> Path:
        """Return the folder for the artifacts of this run."""
        return self.folder / "artifacts" / self.seen["github"]["run_id"]


@dataclass
class WorkflowJob:
    """A running job. `left_out` has steps that do not run here, with reasons. `told` has the result of each step."""

    text: Mapping[str, Any]
    github: FakeGitHub
    workspace: Path
    source: Path
    matrix: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True)
        self._files = self.workspace.parent / f"{self.workspace.name}-files"
        self._files.mkdir()
        self._kept: list[tuple[str, list[str]]] = []
        self._steps: dict[str, Any] = {}
        self._job_env = {name: self._fill(value) for name, value in self.text.get("env", {}).items()}

    @property
    def summary(self) -> str:
        """Return the job's summary."""
        return self._file("GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")

    @property
    def outputs(self) -> dict[str, str]:
        """Return the outputs of the job."""
        return {name: self._fill(value) for name, value in self.text.get("outputs", {}).items()}

    def run(self) -> None:
        """Run the steps. Raises `StepFailedError` at the end if a step has failed."""
        for step in self.text["steps"]:
            name = next(str(step[key]) for key in ("name", "uses", "run") if key in step)
            if not self._wanted(step):
                self.told[name] = "not run: its condition does not hold"
            elif name in self.left_out:
                self.told[name] = f"left out: {self.left_out[name]}"
            else:
                self._step(name, step)
        if self.failed:
            raise StepFailedError("\n".join(f"{name}: {became}" for name, became in self.told.items()))
        for key, paths in self._kept:
            self._keep(key, paths)

    def _step(self, name: str, step: Mapping[str, Any]) -> None:
        try:
            if "uses" in step:
                self._use(step["uses"].partition("@")[0], step.get("with", {}))
            else:
                self._script(step)
            self.told[name] = "ran"
        except StepFailedError as error:
            self.failed = True
            self.told[name] = f"failed: {error}"

    def _wanted(self, step: Mapping[str, Any]) -> bool:
        condition = str(step.get("if", "success()"))
        holds = bool(self._evaluate(condition))
        return holds and not (self.failed and not any(f"{each}()" in condition for each in ("cancelled", "always")))

    def _script(self, step: Mapping[str, Any]) -> None:
        variables = {name: self._fill(value) for name, value in step.get("env", {}).items()}
        output = self._file(f"GITHUB_OUTPUT-{len(self.told)}")
        environment = self.environment() | variables | {"GITHUB_OUTPUT": str(output)}
        done = subprocess.run(
            ["bash", "-e", "-c", self._fill(step["run"])], cwd=self.workspace, env=environment, check=False,
            timeout=_SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise StepFailedError(f"exit code {done.returncode}\n{done.stdout[-3000:]}")
        lines = output.read_text(encoding="utf-8").splitlines()
        self._steps[step.get("id", "")] = {"outputs": dict(line.split("=", 1) for line in lines)}

    def environment(self) -> dict[str, str]:
        """Return the environment of a step, without the variables of the step itself."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
        mine |= {"CI": "true", "GITHUB_ACTIONS": "true", **self._job_env, **self.extra}
        mine |= {name: str(self._file(name)) for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        added = self._file("GITHUB_PATH").read_text(encoding="utf-8").split()
        return mine | {"PATH": ":".join([*reversed(added), mine["PATH"]])}

    def _file(self, name: str) -> Path:
        (self._files / name).touch()
        return self._files / name

    def _use(self, action: str, given: Mapping[str, Any]) -> None:
        inputs = {name: self._fill(value) for name, value in given.items() if isinstance(value, str)}
        match action:
            case "actions/checkout":
                command = ["git", "clone", "--quiet", str(self.source), str(self.workspace)]
                subprocess.run(command, check=True, timeout=60)
            case "actions/setup-python" | "actions/setup-go" | "actions/setup-node":
                pass  # use this machine's own
            case "actions/cache":
                self._restore(inputs["key"], inputs["path"].split(), inputs.get("restore-keys", "").split())
            case "actions/upload-artifact":
                self._upload(inputs["name"], inputs["path"].split())
            case "actions/download-artifact":
                self._download(inputs["pattern"], inputs["path"])
            case _:
                raise StepFailedError(f"nothing is known of action {action}")

    def _restore(self, key: str, paths: list[str], prefixes: list[str]) -> None:
        found = self.github.restore(key, prefixes)
        if found is not None:
            shutil.copytree(found, self.workspace, dirs_exist_ok=True)
        if found is None or found.name != key:
            self._kept.append((key, paths))

    def _keep(self, key: str, paths: list[str]) -> None:
        for path in paths:
            if (self.workspace / path).exists():
                shutil.copytree(self.workspace / path, self.github.caches / key / path)

    def _upload(self, name: str, paths: list[str]) -> None:
        """Keep the paths relative to the workspace. A single path is the root of the artifact.

        Files whose name starts with a dot are skipped.
        """
        for path in paths:
            if (self.workspace / path).exists():
                target = self.github.artifacts / name / (path if len(paths) > 1 else "")
                shutil.copytree(self.workspace / path, target, ignore=shutil.ignore_patterns(".*"))
        uploaded = self.github.artifacts / name
        refused = [each for each in uploaded.rglob("*") if set(str(each.relative_to(uploaded))) & set(_NOT_IN_NAMES)]
        if refused:
            raise StepFailedError(f"upload-artifact refuses such names: {refused[0].relative_to(uploaded)}")

    def _download(self, pattern: str, path: str) -> None:
        """Without `name` and `merge-multiple`, each artifact is put into a folder with its name."""
        for artifact in self.github.artifacts.glob(pattern):
            shutil.copytree(artifact, self.workspace / path / artifact.name)

    def _fill(self, text: Any) -> str:
        return fill(str(text), self._values(), self._functions())

    def _evaluate(self, condition: str) -> Any:
        return evaluate(condition, self._values(), self._functions())

    def _values(self) -> dict[str, Any]:
        return {**self.github.seen, "matrix": self.matrix, "env": getattr(self, "_job_env", {}), "steps": self._steps}

    def _functions(self) -> dict[str, Any]:
        return {
            "cancelled": lambda: False,
            "success": lambda: not self.failed,
            "hashFiles": lambda pattern: "".join(sorted(str(each) for each in self.workspace.glob(pattern))),
        }


def workflow(name: str, source: Path) -> dict[str, Any]:
    """Return a workflow of this checkout."""
    return dict(yaml.safe_load((source / ".github/workflows" / name).read_text(encoding="utf-8")))
