"""Tests completion with click's protocol, which the scripts for bash, zsh and fish use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.commands.main import main
from harness.plugin.suite import catalogue
from harness.run import suite_files
from mutants import BENIGN, MUTANTS

PROGRAM = "trafficdist"


def complete(line: str, *, shell: str = "bash") -> list[str]:
    """Return the completions of a command line. The cursor is at its end."""
    words = line.split(" ")
    count = str(len(words) - 1)
    told = {"COMP_WORDS": line, "COMP_CWORD": count if shell != "fish" else words[-1]}
    result = CliRunner().invoke(main, [], prog_name=PROGRAM, env={"_TRAFFICDIST_COMPLETE": f"{shell}_complete", **told})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    return lines[1::3] if shell == "zsh" else [each.partition(",")[2].partition("\t")[0] for each in lines]


NODE_IDS = ["KEP-3015/node-then-zone-then-anywhere"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_completes_ids(shell: str) -> None:
    assert complete("trafficdist run --run-test KEP-3015/node-then", shell=shell) == NODE_IDS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trafficdist list KEP-3015/node-then", NODE_IDS),
        ("trafficdist run --skip-tests A,KEP-3015/node-then", [f"A,{NODE_IDS[0]}"]),
        ("trafficdist run --run-test KEP-536/*", ["KEP-536/*"]),
        ("trafficdist run --mutant skips-zone", ["skips-zone-tier"]),
        ("trafficdist list --mutants skips-zone", ["skips-zone-tier"]),
        ("trafficdist run --profile d", ["dns"]),
        ("trafficdist list --profile d", ["dns"]),
        ("trafficdist doctor --supported-features Topology", ["TopologyAwareDNS", "TopologyKeys", "TopologyKeysField",
         "TopologyKeysRouting", "TopologyMode", "TopologyModeEvents", "TopologyModeRouting"]),
        ("trafficdist list --feature OpenA", ["OpenAPI"]),
        ("trafficdist run --mode ", ["nftables", "iptables", "ipvs"]),
        ("trafficdist cluster up --topology three", ["three_zones"]),
        ("trafficdist run --proxy ", ["reference", "kube-proxy", "installed"]),
        ("trafficdist run --backend k", ["kubeconfig", "kind"]),
        ("trafficdist run --follow ", ["kep", "released"]),
        ("trafficdist cluster ku", ["kubeconfig"]),
        ("trafficdist completion ", ["bash", "zsh", "fish"]),
    ],
)  # fmt: skip
def test_values_are_offered(line: str, expected: list[str]) -> None:
    assert complete(line) == expected


def test_file_names_are_completed_by_the_shell() -> None:
    result = CliRunner().invoke(
        main,
        [],
        prog_name=PROGRAM,
        env={
            "_TRAFFICDIST_COMPLETE": "bash_complete",
            "COMP_WORDS": "trafficdist run --kubeconfig x",
            "COMP_CWORD": "3",
        },
    )
    assert result.output.strip() == "file,x"


def test_ids_and_features_read_from_source_equal_the_collected_ones() -> None:
    collected = catalogue()
    assert suite_files.ids() == [each.id for each in collected]
    assert set(suite_files.features()) == {feature.name for each in collected for feature in each.named}


def test_all_mutants_are_offered() -> None:
    assert set(complete("trafficdist run --mutant ")) == {*MUTANTS, *BENIGN}


def test_ids_take_less_than_half_a_second_of_cpu_time() -> None:
    environment = os.environ | {
        "_TRAFFICDIST_COMPLETE": "bash_complete",
        "COMP_WORDS": "trafficdist list KEP-3015/node-then",
        "COMP_CWORD": "2",
    }
    command = [sys.executable, "-c", "from harness.commands.main import main; main(prog_name='trafficdist')"]
    before = os.times()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    after = os.times()
    assert NODE_IDS[0] in done.stdout
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.5


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed_for_each_shell(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_TRAFFICDIST_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="unavailable: bash is not installed")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "trafficdist"
    program.write_text(f"#!{sys.executable}\nfrom harness.commands.main import main\nmain()\n")
    program.chmod(0o755)
    script = (
        "source <(trafficdist completion bash); COMP_WORDS=(trafficdist list KEP-3015/node-then); COMP_CWORD=2; "
        '_trafficdist_completion trafficdist; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == NODE_IDS[0], done.stderr
