"""Namespaces that are held to a Pod Security Standard. The texts are those of kube-apiserver 1.37.1 and 1.30.14."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from reference.apiserver import ApiServer
from reference.client import ApiError

CONTAINER = {
    "name": "c",
    "image": "i",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
SPEC = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [CONTAINER],
}


def changed(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that may run anywhere, but for these fields of its container's security context and of its spec."""
    made = copy.deepcopy(SPEC)
    made["containers"][0]["securityContext"] |= container or {}  # type: ignore[index]
    return {**made, **spec}


def refusal(api: ApiServer, level: str, spec: dict[str, Any]) -> str:
    labels = {"pod-security.kubernetes.io/enforce": level}
    api.create("namespaces", "", {"metadata": {"name": "held", "labels": labels}})
    try:
        api.create("pods", "held", {"metadata": {"name": "p"}, "spec": spec})
    except ApiError as error:
        return str(error).removeprefix(f'pods "p" is forbidden: violates PodSecurity "{level}:latest": ')
    return ""


def test_refusal_is_forbidden(api: ApiServer) -> None:
    api.patch("namespaces", "", "default", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
    with pytest.raises(ApiError, match='pods "p" is forbidden: violates PodSecurity "baseline:latest"') as refused:
        api.create("pods", "default", {"metadata": {"name": "p"}, "spec": changed(hostIPC=True)})
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_restricted_pod_runs_anywhere(api: ApiServer, level: str) -> None:
    assert not refusal(api, level, changed())
    assert not refusal(ApiServer(), level, changed({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}))


def test_plain_pod_is_told_all_that_it_lacks(api: ApiServer) -> None:
    plain = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
    assert refusal(api, "restricted", plain) == (
        'allowPrivilegeEscalation != false (containers "c", "d" must set '
        'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers "c", "d" must set '
        'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or containers "c", "d" must set '
        'securityContext.runAsNonRoot=true), seccompProfile (pod or containers "c", "d" must set '
        'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    assert not refusal(ApiServer(), "baseline", plain)


HOST_PORT = {**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}
UNCONFINED = {"seccompProfile": {"type": "Unconfined"}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (changed(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true, hostPID=true)"),
        (changed(containers=[HOST_PORT]), 'hostPort (container "c" uses hostPort 80)'),
        (changed({"privileged": True}), 'privileged (container "c" must not set securityContext.privileged=true)'),
        (changed(UNCONFINED),
         'seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")'),
    ],
)  # fmt: skip
def test_no_standard_lets_pods_at_the_host(api: ApiServer, spec: dict[str, Any], said: str) -> None:
    assert refusal(api, "baseline", spec) == refusal(ApiServer(), "restricted", spec) == said


@pytest.mark.parametrize(
    ("spec", "baseline", "restricted"),
    [
        (changed(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]), 'hostPath volumes (volume "v")',
         'restricted volume types (volume "v" uses restricted volume type "hostPath")'),
        (changed({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}),
         'non-default capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)',
         'unrestricted capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)'),
        (changed({"runAsUser": 0}), "", 'runAsUser=0 (container "c" must not set runAsUser=0)'),
        (changed({"runAsNonRoot": False}), "",
         'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)'),
    ],
)  # fmt: skip
def test_standards_differ(api: ApiServer, spec: dict[str, Any], baseline: str, restricted: str) -> None:
    assert refusal(api, "baseline", spec) == baseline
    assert refusal(ApiServer(), "restricted", spec) == restricted


def test_namespace_may_only_warn(http: Any, api: ApiServer) -> None:
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    api.create("namespaces", "", {"metadata": {"name": "held", "labels": labels}})
    pod = {"metadata": {"name": "p"}, "spec": changed(hostNetwork=True)}
    with http.open("POST", "/api/v1/namespaces/held/pods", pod) as answer:
        assert 'would violate PodSecurity \\"restricted:latest\\": host namespaces' in answer.headers["Warning"]
