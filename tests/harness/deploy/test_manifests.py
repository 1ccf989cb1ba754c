"""Tests that the manifests in deploy/ and action.yml agree with each other and use only existing options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.guest.labels import NAMESPACE
from harness.settings.options import BY_NAME, resolve
from tests.harness.deploy.workflow_runner import program

ROOT = Path(__file__).resolve().parents[3]
OF_COMMAND = {name for name, option in BY_NAME.items() if option.on_command_line}
ENVIRONMENT = {option.environment for option in BY_NAME.values()}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / name).read_text(encoding="utf-8")))


def by_kind(name: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in documents(name)}


def container_of_job() -> dict[str, Any]:
    [container] = by_kind("deploy/job.yaml")["Job"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def options_of(arguments: list[str]) -> set[str]:
    return {each.removeprefix("--").partition("=")[0] for each in arguments if each.startswith("--")}


def test_job_has_the_rights_of_the_published_role() -> None:
    job, roles = by_kind("deploy/job.yaml"), documents("deploy/rbac.yaml")
    binding = job["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] in {each["metadata"]["name"] for each in roles if each["kind"] == "ClusterRole"}
    subject = {**job["ServiceAccount"]["metadata"], "kind": "ServiceAccount"}
    assert binding["subjects"] == [subject]
    assert job["Job"]["spec"]["template"]["spec"]["serviceAccountName"] == subject["name"]


def test_job_is_outside_of_the_namespace_that_a_run_removes() -> None:
    job = by_kind("deploy/job.yaml")
    spaces = {each["metadata"].get("namespace") for each in job.values()} - {None}
    assert spaces == {job["Namespace"]["metadata"]["name"]}
    assert NAMESPACE not in spaces


@pytest.mark.parametrize("name", ["deploy/job.yaml", "deploy/results.yaml"])
def test_pods_meet_the_restricted_pod_security_standard(name: str) -> None:
    found = by_kind(name)
    pod = found["Pod"]["spec"] if "Pod" in found else found["Job"]["spec"]["template"]["spec"]
    [context] = [container["securityContext"] for container in pod["containers"]]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert {key for volume in pod["volumes"] for key in volume} <= {"name", "emptyDir", "persistentVolumeClaim"}


def test_job_keeps_its_results_on_a_volume_that_outlives_it() -> None:
    job, container = by_kind("deploy/job.yaml"), container_of_job()
    [folder] = [each.partition("=")[2] for each in container["args"] if each.startswith("--output-dir=")]
    [mount] = [each["name"] for each in container["volumeMounts"] if folder.startswith(each["mountPath"] + "/")]
    volumes = {each["name"]: each for each in job["Job"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes[mount]["persistentVolumeClaim"]["claimName"] == job["PersistentVolumeClaim"]["metadata"]["name"]


def pods_of_sharded_job() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the specification of the Job, of its pods' container, and of the container with the results."""
    found = by_kind("deploy/job-sharded.yaml")
    [container] = found["Job"]["spec"]["template"]["spec"]["containers"]
    [results] = found["Pod"]["spec"]["containers"]
    return found["Job"]["spec"], container, results


@pytest.mark.skipif(shutil.which("sh") is None, reason="unavailable: sh is not installed")
def test_each_pod_of_the_sharded_job_runs_its_own_shard(tmp_path: Path) -> None:
    job, container, _ = pods_of_sharded_job()
    assert (job["completionMode"], job["parallelism"]) == ("Indexed", job["completions"])
    program(tmp_path, "trafficdist", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    command = [*container["command"], *container["args"]]
    said = []
    for index in range(job["completions"]):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JOB_COMPLETION_INDEX": str(index)}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        words = ended.stdout.split()
        settings = resolve(dict(each.removeprefix("--").split("=") for each in words[1:]), environment={})
        said.append((words[0], settings.backend, settings.shard, settings.output_dir))
    count = job["completions"]
    assert said == [("run", "netns", f"{number + 1}/{count}", f"/results/{number}") for number in range(count)]


def test_pods_of_the_sharded_job_share_only_the_volume_of_their_results() -> None:
    job, container, results = pods_of_sharded_job()
    pod = job["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert container["volumeMounts"] == results["volumeMounts"]
    [claimed] = [each["persistentVolumeClaim"] for each in pod["volumes"] if "emptyDir" not in each]
    assert claimed == {"claimName": by_kind("deploy/job-sharded.yaml")["PersistentVolumeClaim"]["metadata"]["name"]}
    assert container["securityContext"]["privileged"] is True
    assert results["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_shard_that_fails_stops_no_other_shard_and_is_not_repeated() -> None:
    job, _, _ = pods_of_sharded_job()
    assert job["backoffLimitPerIndex"] == 0
    assert job.keys().isdisjoint({"backoffLimit", "maxFailedIndexes"})
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_all_manifests_run_the_same_image() -> None:
    names = ("job.yaml", "job-sharded.yaml", "results.yaml", "sonobuoy-plugin.yaml")
    texts = [(ROOT / "deploy" / name).read_text(encoding="utf-8") for name in names]
    assert len({image for text in texts for image in re.findall(r"image: (\S+)", text)}) == 1


@pytest.mark.parametrize(
    "name", ["deploy/job.yaml", "deploy/job-sharded.yaml", "deploy/sonobuoy-plugin.yaml", "action.yml"]
)
def test_every_option_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert options_of(re.findall(r"^\s*- (--[^\s]+)", text, flags=re.MULTILINE)) <= OF_COMMAND
    assert set(re.findall(r"TRAFFICDIST_[A-Z_]+", text)) <= ENVIRONMENT


def test_every_input_of_the_action_is_used_and_every_output_set() -> None:
    [action] = documents("action.yml")
    text = yaml.safe_dump(action["runs"])
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(action["inputs"])
    [run] = [step["run"] for step in action["runs"]["steps"] if step.get("id") == "run"]
    assert set(re.findall(r'echo "([a-z-]+)=', run)) == set(action["outputs"])


@pytest.mark.parametrize("backend", ["kubeconfig", "kind", "netns"])
def test_every_backend_goes_with_the_defaults_of_the_action(backend: str) -> None:
    [action] = documents("action.yml")
    inputs = {f"TRAFFICDIST_{name.replace('-', '_').upper()}": each for name, each in action["inputs"].items()}
    given = {name: each.get("default", "") for name, each in inputs.items() if name in ENVIRONMENT}
    assert resolve({}, environment=given | {"TRAFFICDIST_BACKEND": backend}).backend == backend


def test_image_is_made_from_every_package_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    text = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (\w+)/ ", text, flags=re.MULTILINE))
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert packages <= copied
    assert {f"!{package}" for package in packages} <= set(sent)


def test_image_is_pinned_and_runs_as_somebody_who_is_not_root() -> None:
    text = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}$", text, flags=re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.findall(r"^USER (\d+)", text, flags=re.MULTILINE) == ["65532"]
