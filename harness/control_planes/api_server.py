"""Runs etcd and kube-apiserver as local processes for one cluster. etcd does not sync to disk. The API server serves
only the API groups that scenarios and components use, which halves its start time. Some admission plugins are disabled,
because the harness does their work itself: service accounts, taints of unready nodes, and priorities.
"""

import base64
import contextlib
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme

from harness.api.client import Api
from harness.control_planes.control_plane import KubeletCertificates
from harness.control_planes.processes import Processes, wait_until_ready
from harness.model.release import Release
from harness.netns.addresses import SERVICE_CIDRS
from harness.netns.process import Process

_SECONDS = 60.0  # seconds for a component to become ready, before `time_scale` is applied
_GROUPS = (
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "networking.k8s.io/v1",
)
_FEW_GROUPS = f"--runtime-config=api/all=false,api/v1=true,{','.join(f'{group}=true' for group in _GROUPS)}"
_NOT_ASKED = (  # admission plugins for tasks of the harness, and for groups that are not served
    "DefaultStorageClass",
    "PersistentVolumeClaimResize",
    "Priority",
    "RuntimeClass",
    "ServiceAccount",
    "TaintNodesByCondition",
)
_FORWARDED = "localhost"  # host name in the certificate, for clients that do not connect over loopback


class LocalApiServer:
    """One etcd and one kube-apiserver. Another release of kube-apiserver can replace the running one on its port."""

    _of_groups: Sequence[str] = ("--endpoint-reconciler-type=none", _FEW_GROUPS)

    def __init__(self, processes: Processes, *, egress: Path) -> None:
        """The file `egress` configures access to pods and kubelets. Raises `UnavailableError` if etcd is missing."""
        self._processes = processes
        self._egress_file = egress
        self.kubelets = KubeletCertificates()
        self._etcd = processes.find("etcd")
        self._server: Process | None = None
        self._token = secrets.token_urlsafe(24)
        self._ca = trustme.CA()
        self._clients = 0
        self.port = 0
        self.version = ""

    def _start_etcd(self) -> None:
        self._write_secrets()
        self._processes.start_on_ports(
            "etcd",
            2,
            self._etcd_arguments,
            lambda etcd: wait_until_ready(etcd, lambda: _listens(self._clients), within=_SECONDS),
        )

    def start_api_server(self, release: Release) -> None:
        """Start or replace kube-apiserver. etcd keeps the stored objects. Raises `UnavailableError`."""
        program = self._processes.find("kube-apiserver", release.version)
        self.stop_api_server()

        def arguments(ports: Sequence[int]) -> list[str | Path]:
            self.port = ports[0] if not self.version else self.port  # after the first start, clients rely on this port
            return [program.place, *self._arguments(), *gate_arguments(release.gates)]

        self._server = self._processes.start_on_ports("kube-apiserver", 1, arguments, self._wait)
        self.version = program.version

    def stop_api_server(self) -> None:
        self._processes.kill(self._server)
        self._server = None

    def kubeconfig(self) -> dict[str, Any]:
        certificate = base64.b64encode(self._ca.cert_pem.bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": certificate}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "trafficdist", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "trafficdist", "context": {"cluster": "trafficdist", "user": "admin"}}],
            "current-context": "trafficdist",
        }

    def _wait(self, process: Process) -> None:
        with contextlib.closing(Api(self.kubeconfig())) as api:
            wait_until_ready(process, lambda: api.request("GET", "/readyz").code == 200, within=_SECONDS)

    def _etcd_arguments(self, ports: Sequence[int]) -> list[str | Path]:
        self._clients = ports[0]
        clients_url, peers_url = (f"http://127.0.0.1:{port}" for port in ports)
        return [
            self._etcd.place,
            f"--data-dir={self._file('etcd')}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={clients_url}",
            f"--advertise-client-urls={clients_url}",
            f"--listen-peer-urls={peers_url}",
            f"--initial-advertise-peer-urls={peers_url}",
            f"--initial-cluster=default={peers_url}",
        ]

    def _arguments(self) -> list[str]:
        key = self._file("tls.pem")
        return [
            f"--etcd-servers=http://127.0.0.1:{self._clients}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--advertise-address=192.0.2.1",  # unused: no Service leads to the API server
            *self._of_groups,
            f"--cert-dir={self._processes.folder}",
            f"--egress-selector-config-file={self._egress_file}",
            f"--tls-cert-file={key}",
            f"--tls-private-key-file={key}",
            f"--kubelet-certificate-authority={self._file('kubelets.pem')}",
            f"--kubelet-client-certificate={self._file('kubelet-client.pem')}",
            f"--kubelet-client-key={self._file('kubelet-client.pem')}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--token-auth-file={self._file('tokens.csv')}",
            "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={','.join(SERVICE_CIDRS.values())}",
            "--enable-priority-and-fairness=false",
            f"--disable-admission-plugins={','.join(_NOT_ASKED)}",
        ]

    def _write_secrets(self) -> None:
        certificate = self._ca.issue_cert("127.0.0.1", _FORWARDED, key_type=trustme.KeyType.RSA)
        _write(self._file("tls.pem"), certificate.private_key_and_cert_chain_pem.bytes())
        _write(self._file("kubelets.pem"), self.kubelets.authority_pem)
        _write(self._file("kubelet-client.pem"), self.kubelets.client_pem)
        _write(self._file("tokens.csv"), f"{self._token},admin,admin,system:masters\n".encode())

    def _file(self, name: str) -> Path:
        return self._processes.folder / name


def gate_arguments(gates: Mapping[str, bool]) -> list[str]:
    texts = [f"{name}={str(on).lower()}" for name, on in sorted(gates.items())]
    return [f"--feature-gates={','.join(texts)}"] if texts else []


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(("127.0.0.1", port)) == 0
