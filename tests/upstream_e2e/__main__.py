"""Run the Service specs of Kubernetes' own e2e suite on the embedded cluster, unmodified.

    make upstream-e2e VERSION=1.37

The control plane consists of etcd, kube-apiserver, kube-scheduler and kube-controller-manager of that version. The
proxies are the reference and then kube-proxy in two modes. The exit code is 0 if all specs of topology, EndpointSlices
and EndpointSlice mirroring pass, and all specs of Services that are not listed in `exempt.yaml`, which has a reason for
each of its specs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.judging.exit_codes import ExitCode
from tests.upstream_e2e import run_specs
from tests.upstream_e2e.spec_table import table
from tests.upstream_e2e.specs import GROUPS, SpecResult, read_exempt, unmet

FOLDER = Path(__file__).parents[2] / "trafficdist-results/upstream-e2e"


def proxies(version: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the options of `cluster up` for each implementation."""
    plane = {"control_plane": f"binaries:{version}"}
    return {
        "reference": plane,
        **{
            f"kube-proxy {mode}": {**plane, "proxy": f"kube-proxy:{version}", "mode": mode}
            for mode in ("nftables", "iptables")
        },
    }


def main(arguments: Sequence[str]) -> int:
    """Run the specs and print the table. Return the exit code: 0, 1, or 12 if a component is missing."""
    parser = argparse.ArgumentParser(
        "make upstream-e2e", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--version", default="", help="version of Kubernetes (the latest in the cache)")
    parser.add_argument("--group", action="append", choices=GROUPS, help="run this group only; repeatable")
    parser.add_argument(
        "--proxy", action="append", choices=list(proxies("")), help="run this implementation only; repeatable"
    )
    parser.add_argument("--at-once", type=int, default=7, metavar="N", help="number of specs that run concurrently (7)")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="folder for logs and reports")
    options = parser.parse_args(arguments)
    try:
        suite = run_specs.CompiledSpecs.of(options.version)
        names = suite.names(options.group or GROUPS)
        ran: dict[str, list[SpecResult]] = {}
        for name, made_of in proxies(suite.version).items():
            if name in (options.proxy or [name]):
                folder = options.into / name.replace(" ", "-")
                shutil.rmtree(folder, ignore_errors=True)
                with run_specs.cluster(**made_of) as kubeconfig:
                    ran[name] = run_specs.run(suite, kubeconfig, names, folder, at_once=options.at_once)
    except HarnessError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.DISTRUST
    exempt = read_exempt()
    sys.stdout.write(f"Kubernetes {suite.version}\n{table(ran, exempt)}\n")
    return int(any(any(unmet(name, ends, exempt)) for name, ends in ran.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
