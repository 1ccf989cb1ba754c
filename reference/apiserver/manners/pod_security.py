"""Pod Security Standards: the checks of pods in a namespace that enforces one.

A namespace says so with the label `pod-security.kubernetes.io/enforce`. The checks are those that a pod of this
project, or one written by hand, can fail: host namespaces and ports, privileges, capabilities, volumes, users and
seccomp. Those of SELinux, AppArmor, procMount, sysctls and Windows are not made. The words are those of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reference.client import Object

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
_PREFIX = "pod-security.kubernetes.io/"
_DEFAULT_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SECCOMP = ("RuntimeDefault", "Localhost")

Spec = Object


def level(namespace: Object, mode: str) -> str:
    """Return the standard of a namespace; `mode` is "enforce" or "warn"."""
    labels = namespace["metadata"].get("labels") or {}
    return str(labels.get(_PREFIX + mode) or PRIVILEGED)


def violations(pod: Object, standard: str) -> str:
    """Return a sentence about everything in a pod that a standard forbids, "" if there is nothing."""
    checks = {BASELINE: (*_OF_BOTH, *_OF_BASELINE), RESTRICTED: (*_OF_BOTH, *_OF_RESTRICTED)}.get(standard, ())
    spec = pod.get("spec") or {}
    said = [f"{name} ({detail})" for name, check in checks if (detail := check(spec))]
    return f'violate PodSecurity "{standard}:latest": {", ".join(said)}' if said else ""


def _host_namespaces(spec: Spec) -> str:
    return ", ".join(f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))


def _host_paths(spec: Spec) -> str:
    return _named("volume", [each.get("name", "") for each in spec.get("volumes") or [] if "hostPath" in each])


def _host_ports(spec: Spec) -> str:
    found = {
        each.get("name", ""): [port["hostPort"] for port in each.get("ports") or [] if port.get("hostPort")]
        for each in _containers(spec)
    }
    ports = sorted({str(port) for every in found.values() for port in every})
    who = _named("container", [name for name, every in found.items() if every])
    return f"{who} {_uses(found)} hostPort{'s' if len(ports) > 1 else ''} {', '.join(ports)}" if ports else ""


def _uses(found: dict[str, list[int]]) -> str:
    return "use" if sum(map(bool, found.values())) > 1 else "uses"


def _privileged(spec: Spec) -> str:
    who = _those(spec, lambda context: context.get("privileged"))
    return f"{who} must not set securityContext.privileged=true" if who else ""


def _added(spec: Spec) -> str:
    return _capabilities(spec, _DEFAULT_CAPABILITIES)


def _capabilities(spec: Spec, allowed: frozenset[str]) -> str:
    def odd(context: Object) -> list[str]:
        return [each for each in (context.get("capabilities") or {}).get("add") or [] if each not in allowed]

    who = _those(spec, odd)
    names = sorted({name for each in _containers(spec) for name in odd(each.get("securityContext") or {})})
    shown = ", ".join(f'"{name}"' for name in names)
    return f"{who} must not include {shown} in securityContext.capabilities.add" if who else ""


def _escalation(spec: Spec) -> str:
    who = _those(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    return f"{who} must set securityContext.allowPrivilegeEscalation=false" if who else ""


def _dropped(spec: Spec) -> str:
    who = _those(spec, lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or []))
    said = [f'{who} must set securityContext.capabilities.drop=["ALL"]'] if who else []
    added = _capabilities(spec, frozenset({"NET_BIND_SERVICE"}))
    return "; ".join([*said, *([added] if added else [])])


def _volume_types(spec: Spec) -> str:
    odd = {each.get("name", ""): sorted(each.keys() - _VOLUMES - {"name"}) for each in spec.get("volumes") or []}
    types = sorted({kind for kinds in odd.values() for kind in kinds})
    who = _named("volume", [name for name, kinds in odd.items() if kinds])
    shown = ", ".join(f'"{kind}"' for kind in types)
    several = "" if sum(map(bool, odd.values())) > 1 else "s"
    return f"{who} use{several} restricted volume type{'s' if len(types) > 1 else ''} {shown}" if types else ""


def _non_root(spec: Spec) -> str:
    of_pod = (spec.get("securityContext") or {}).get("runAsNonRoot")
    said = ["pod must not set securityContext.runAsNonRoot=false"] if of_pod is False else []
    if who := _those(spec, lambda context: context.get("runAsNonRoot") is False):
        said.append(f"{who} must not set securityContext.runAsNonRoot=false")
    if said:
        return "; ".join(said)
    who = _those(spec, lambda context: not context.get("runAsNonRoot", of_pod))
    return f"pod or {who} must set securityContext.runAsNonRoot=true" if who else ""


def _root(spec: Spec) -> str:
    of_pod = (spec.get("securityContext") or {}).get("runAsUser") == 0
    who = _those(spec, lambda context: context.get("runAsUser") == 0)
    every = [*(["pod"] if of_pod else []), *([who] if who else [])]
    return f"{' and '.join(every)} must not set runAsUser=0" if every else ""


def _unconfined(spec: Spec) -> str:
    of_pod = _profile(spec.get("securityContext") or {}) == "Unconfined"
    who = _those(spec, lambda context: _profile(context) == "Unconfined")
    every = [*(["pod"] if of_pod else []), *([who] if who else [])]
    return f'{" and ".join(every)} must not set securityContext.seccompProfile.type to "Unconfined"' if every else ""


def _seccomp(spec: Spec) -> str:
    if said := _unconfined(spec):
        return said
    of_pod = _profile(spec.get("securityContext") or {})
    who = _those(spec, lambda context: (_profile(context) or of_pod) not in _SECCOMP)
    said = f'must set securityContext.seccompProfile.type to "{_SECCOMP[0]}" or "{_SECCOMP[1]}"'
    return f"pod or {who} {said}" if who else ""


def _profile(context: Object) -> Any:
    return (context.get("seccompProfile") or {}).get("type")


_Checks = tuple[tuple[str, Callable[[Spec], str]], ...]
_OF_BOTH: _Checks = (
    ("host namespaces", _host_namespaces),
    ("hostPort", _host_ports),
    ("privileged", _privileged),
)
_OF_BASELINE: _Checks = (
    ("hostPath volumes", _host_paths),
    ("non-default capabilities", _added),
    ("seccompProfile", _unconfined),
)
_OF_RESTRICTED: _Checks = (
    ("allowPrivilegeEscalation != false", _escalation),
    ("unrestricted capabilities", _dropped),
    ("restricted volume types", _volume_types),
    ("runAsNonRoot != true", _non_root),
    ("runAsUser=0", _root),
    ("seccompProfile", _seccomp),
)


def _containers(spec: Spec) -> Iterator[Object]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or []


def _those(spec: Spec, wrong: Callable[[Object], object]) -> str:
    """The containers whose security context is wrong."""
    names = [each.get("name", "") for each in _containers(spec) if wrong(each.get("securityContext") or {})]
    return _named("container", names)


def _named(what: str, names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names)
    return f"{what}{'s' if len(names) > 1 else ''} {shown}" if names else ""
