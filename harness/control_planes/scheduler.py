"""kube-scheduler as a process of this machine, a client of the API server that a kubeconfig names."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme
import urllib3
import yaml

from harness.control_planes.processes import Processes, wait_until_ready
from harness.netns.process import Process

NAME = "kube-scheduler"
_SECONDS = 30.0  # that it has to be ready, before the time scale


def start_scheduler(processes: Processes, version: str, kubeconfig: Mapping[str, Any]) -> Process:
    """Run kube-scheduler of this version, and return when it is ready; it ends with the other `processes`.

    Raises `UnavailableError` with the remedy, and `DistrustError` with the end of its log.
    """
    program = processes.find(NAME, version)
    ca = trustme.CA()
    key, told = processes.folder / "scheduler.pem", processes.folder / "scheduler.kubeconfig"
    key.write_bytes(ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
    told.write_text(yaml.safe_dump(dict(kubeconfig)), encoding="utf-8")
    context = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    chosen: list[int] = []

    def arguments(ports: Sequence[int]) -> list[str | Path]:
        chosen[:] = ports
        return [
            program.place,
            f"--kubeconfig={told}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[0]}",
            f"--tls-cert-file={key}",
            f"--tls-private-key-file={key}",
            "--authentication-skip-lookup",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]

    with urllib3.PoolManager(ssl_context=context, retries=False, timeout=10.0) as http:

        def ready() -> bool:
            try:
                return http.request("GET", f"https://127.0.0.1:{chosen[0]}/readyz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        return processes.start_on_ports(NAME, 1, arguments, lambda it: wait_until_ready(it, ready, within=_SECONDS))
