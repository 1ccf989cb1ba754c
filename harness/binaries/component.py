"""The components of real clusters that can be fetched, with their Go modules and the formats of their versions. kind,
kubectl, `e2e` and `agnhost` are not components of a cluster, but are fetched in the same way. `e2e` runs Kubernetes'
own networking specs with our command `e2e.go`, and `agnhost` is the program in Kubernetes' test image.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.binaries.versions import Version, parse_version
from harness.errors import UnavailableError, UsageError

_ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Binary:
    name: str
    module: str
    package: str
    version_pattern: re.Pattern[str]
    """A regular expression that finds the version in the output of the binary. Its first group is the version."""
    staging: str = ""
    """A staging module (v0.34.2 for 1.34.2). Go module proxies often list more versions of it than of `module`."""
    version_arguments: tuple[str, ...] = ("--version",)  # arguments that make the binary print its version
    program: str = ""
    """The Go source of a command to compile, if the module does not contain this command. `package` is then "."."""

    @property
    def kubernetes(self) -> bool:
        return self.module == KUBERNETES_MODULE


KUBERNETES_MODULE = "k8s.io/kubernetes"


def _of_kubernetes(name: str, says: str = r"Kubernetes (v\S+)", *asked: str, package: str = "", **more: str) -> Binary:
    package = package or f"{KUBERNETES_MODULE}/cmd/{name}"
    staging = "k8s.io/component-base"
    return Binary(name, KUBERNETES_MODULE, package, re.compile(says), staging, asked or ("--version",), **more)


KUBEADM = _of_kubernetes("kubeadm", r"(v\S+)", "version", "--output=short")
KUBECTL = _of_kubernetes("kubectl", r"Client Version: (v\S+)", "version", "--client")
E2E = _of_kubernetes("e2e", package=".", program=(Path(__file__).parent / "e2e.go").read_text(encoding="utf-8"))
AGNHOST = _of_kubernetes("agnhost", r"app version (v\S+)", package=f"{KUBERNETES_MODULE}/test/images/agnhost")

_ETCD_MODULE = "go.etcd.io/etcd/server/v3"
ETCD = Binary("etcd", _ETCD_MODULE, _ETCD_MODULE, re.compile(r"etcd Version: (\S+)"))
_COREDNS_MODULE = "github.com/coredns/coredns"
COREDNS = Binary("coredns", _COREDNS_MODULE, _COREDNS_MODULE, re.compile(r"CoreDNS-(\S+)"))
KIND = Binary("kind", "sigs.k8s.io/kind", "sigs.k8s.io/kind", re.compile(r"kind version (\S+)"))

COMPONENTS: dict[str, Binary] = {
    each.name: each
    for each in (
        _of_kubernetes("kube-proxy"),
        _of_kubernetes("kube-controller-manager"),
        _of_kubernetes("kube-apiserver"),
        _of_kubernetes("kube-scheduler"),
        _of_kubernetes("kubelet"),
        KUBEADM,
        ETCD,
        COREDNS,
        KIND,
        KUBECTL,
        E2E,
        AGNHOST,
    )
}


def component_named(name: str) -> Binary:
    if name not in COMPONENTS:
        raise UsageError(f"component {name!r}: expected one of {', '.join(COMPONENTS)}")
    return COMPONENTS[name]


def version_of(component: Binary, binary: Path) -> Version:
    """Run a binary to find its version. Raises `UnavailableError` if the binary does not run or prints no version."""
    command = [str(binary), *component.version_arguments]
    shown = " ".join(command)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)  # noqa: S603
    except OSError as error:
        raise UnavailableError(f"{binary} does not run on this machine: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{shown} did not end within {_ASK_SECONDS:.0f} s") from None
    found = component.version_pattern.search(ended.stdout)
    version = parse_version(found[1]) if found else None
    if ended.returncode != 0 or version is None:
        words = (ended.stdout + ended.stderr).strip()[-300:] or "nothing"
        raise UnavailableError(f"{shown} does not print a version of {component.name}; it prints: {words}")
    return version
