"""Tests the recipe files of proxies and DNS servers: their content, and the errors for invalid files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import UsageError
from harness.recipes.readiness import HttpCheck, LogCheck, MetricsCheck
from harness.recipes.recipe import (
    OF_CONTROLLER,
    OF_DNS,
    OF_PROXY,
    CommandExplainer,
    LogExplainer,
    parse_recipe,
    read_recipe,
)
from harness.recipes.values import fill

ROOT = Path(__file__).parents[3]
MINIMAL: dict[str, Any] = {"name": "mine", "command": ["mine", "--node={node}"], "ready": [{"http": {"port": 1}}]}


@pytest.mark.parametrize("path", sorted((ROOT / "implementations").glob("*/*.yaml")), ids=lambda path: path.name)
def test_recipes_in_implementations_are_valid(path: Path) -> None:
    kind = {"coredns": OF_DNS, "kube-controller-manager": OF_CONTROLLER}.get(path.parent.name, OF_PROXY)
    assert read_recipe(str(path), kind).name.lower().startswith(path.parent.name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modes": ["fast"]}, "key modes is for recipes of proxies; allowed here: name, version, programs, "),
        ({"pods": {}}, "key pods is for recipes of proxies"),
        ({"zones": 1}, "unknown key 'zones'"),
        ({"command": ["{node}"]}, r"key command\[0\]: unknown placeholder \{node\}; allowed: \{pod_ips\}, \{zone\}"),
    ],
)
def test_dns_server_has_its_own_keys_and_placeholders(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_recipe(MINIMAL | {"command": ["mine", "{zone}"]} | changes, OF_DNS)


def test_controller_has_no_node_keys() -> None:
    with pytest.raises(UsageError, match="key modes is for recipes of proxies; allowed here: name, version"):
        parse_recipe(MINIMAL | {"command": ["mine"], "modes": ["fast"]}, OF_CONTROLLER)
    with pytest.raises(UsageError, match=r"unknown placeholder \{node\}; allowed: \{kubeconfig\}"):
        parse_recipe(MINIMAL, OF_CONTROLLER)


def test_checks_are_parsed_into_values() -> None:
    ready = [
        {"http": {"port": 10256, "path": "/readyz", "contains": "ok"}},
        {"metrics": {"port": 10249, "zero": ["pending"], "not_after": {"queued": "done"}}},
        {"log": "^ready in .*s$"},
    ]
    assert parse_recipe(MINIMAL | {"ready": ready}, OF_PROXY).programs[0].ready == (
        HttpCheck(10256, "/readyz", contains="ok"),
        MetricsCheck(10249, zero=("pending",), not_after=(("queued", "done"),)),
        LogCheck("^ready in .*s$"),
    )


def test_placeholders_are_filled_in_and_double_braces_are_literal() -> None:
    assert fill("--node={node} {{raw}}", {"node": "a1"}) == "--node=a1 {raw}"


def test_top_level_program_keys_are_read_as_one_program() -> None:
    of_program = {key: value for key, value in MINIMAL.items() if key != "name"} | {"synced": [{"log": "x"}]}
    listed = {"name": "mine", "programs": [{"name": "mine", **of_program}]}
    assert parse_recipe(MINIMAL | of_program, OF_PROXY) == parse_recipe(listed, OF_PROXY)


AGENT = {"name": "agent", "command": ["agent"], "ready": [{"log": "up"}]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"programs": []}, r"key programs: expected a list of programs, not \[\]"),
        ({"programs": ["agent"]}, r"key programs\[0\]: expected a mapping of keys to values, not 'agent'"),
        ({"programs": [AGENT], "command": ["x"]}, "key command: must be set for each entry of programs"),
        ({"programs": [AGENT | {"modes": []}]}, r"key programs\[0\]: unknown key 'modes'; .*allowed: name, command"),
        ({"programs": [AGENT, {"name": "b", "ready": 1}]}, r"key programs\[1\].command is missing"),
        ({"programs": [AGENT | {"name": "a/b"}]}, r"key programs\[0\].name: expected a name without /.*, not 'a/b'"),
        (
            {"programs": [AGENT | {"synced": [{"log": "("}]}]},
            r"key programs\[0\].synced\[0\].log: '\(' is not a regular",
        ),
        (
            {"programs": [AGENT | {"environment": {"A": "{x}"}}]},
            r"key programs\[0\].environment.A: unknown placeholder",
        ),
        ({"programs": [AGENT, AGENT]}, "key programs: name 'agent' is used by two programs"),
        (
            {"programs": [AGENT | {"files": {"f": "1"}}, AGENT | {"name": "b", "files": {"f": "2"}}]},
            "key programs: file 'f' is used by two programs",
        ),
    ],
)
def test_error_in_programs_names_its_key(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_recipe({"name": "mine"} | given, OF_PROXY)


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster_programs": []}, r"key cluster_programs: expected a list of programs, not \[\]"),
        ({"cluster_programs": [{"name": "x"}]}, r"key cluster_programs\[0\].command is missing"),
        (
            {"cluster_programs": [AGENT | {"command": ["x", "{node}"]}]},
            r"key cluster_programs\[0\].command\[1\]: unknown placeholder \{node\}; allowed: \{cluster_cidrs\}, ",
        ),
        ({"cluster_programs": [AGENT | {"name": "mine"}]}, "name 'mine' is used by two programs"),
        ({"objects": CONFIG}, "key objects: expected a list of manifests"),
        ({"objects": [CONFIG, 1]}, r"key objects\[1\]: expected a manifest, a mapping with apiVersion"),
        ({"objects": [{"kind": "ConfigMap"}]}, r"key objects\[0\]: apiVersion is missing or not a string"),
        ({"objects": [CONFIG | {"metadata": {}}]}, r"key objects\[0\]: metadata.name is missing or not a string"),
        ({"objects": [CONFIG | {"metadata": {"name": "x", "namespace": 1}}]}, "metadata.namespace is not a string"),
        ({"objects": ["gone.yaml"]}, r"key objects\[0\]: file gone.yaml: cannot be read: No such file"),
    ],
)
def test_error_in_cluster_programs_names_its_key(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_recipe(MINIMAL | given, OF_PROXY)


def test_objects_are_in_the_recipe_or_in_files_next_to_it(tmp_path: Path) -> None:
    documents = [CONFIG | {"metadata": {"name": name}} for name in ("one", "two")]
    (tmp_path / "more.yaml").write_text("---\n" + yaml.safe_dump_all(documents) + "---\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(MINIMAL | {"objects": [CONFIG, "more.yaml"]}), encoding="utf-8")
    recipe = read_recipe(str(tmp_path / "mine.yaml"), OF_PROXY)
    assert [each["metadata"]["name"] for each in recipe.objects] == ["mine", "one", "two"]


def test_isolation_is_a_machine_requirement() -> None:
    recipe = parse_recipe(MINIMAL | {"requires": ["root", "bpffs"], "isolation": ["bpffs", "run"]}, OF_PROXY)
    assert recipe.needs == ("root", "bpffs", "run")


def test_placeholders_in_a_pattern_match_literally() -> None:
    recipe = parse_recipe(MINIMAL | {"explain": {"log": r"svc={service}\.{namespace} \w{{2,3}}"}}, OF_PROXY)
    assert isinstance(recipe.explain, LogExplainer)
    assert recipe.explain.filled({"service": "a.b", "namespace": "x"}) == r"svc=a\.b\.x \w{2,3}"


def test_explain_command_has_service_and_node_placeholders() -> None:
    recipe = parse_recipe(MINIMAL | {"explain": {"command": ["dump", "{node}", "{cluster_ip}"]}}, OF_PROXY)
    assert isinstance(recipe.explain, CommandExplainer)
    assert recipe.explain.filled({"node": "a1", "cluster_ip": "10.0.0.1"}) == ("dump", "a1", "10.0.0.1")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"comand": []}, "unknown key 'comand'; did you mean command"),
        ({"command": []}, "key command is missing"),
        ({"command": "mine"}, "key command: expected a list of strings, not 'mine'"),
        ({"command": ["{nodes}"]}, r"key command\[0\]: unknown placeholder \{nodes\}; allowed: \{node\}"),
        ({"environment": {"A": "{x}"}}, r"key environment.A: unknown placeholder \{x\}"),
        ({"files": {"../a": ""}}, "key files: '../a' is not a plain file name"),
        ({"ready": [{"tcp": {}}]}, r"key ready\[0\]: unknown key 'tcp'; .*allowed: http, metrics, log, command"),
        ({"ready": [{"http": {"port": 0}}]}, r"key ready\[0\].http.port: expected a number from 1 to 65535"),
        (
            {"ready": [{"http": {"port": 1, "code": "no"}}]},
            r"key ready\[0\].http.code: expected a whole number, not 'no'",
        ),
        ({"synced": [{"log": "("}]}, r"key synced\[0\].log: '\(' is not a regular expression"),
        ({"synced": [{"metrics": {"port": 1, "zero": "x"}}]}, r"key synced\[0\].metrics.zero: expected a list"),
        ({"ready_seconds": "soon"}, "key ready_seconds: expected seconds from 0 to 600, not 'soon'"),
        ({"follows": "none"}, "key follows: 'none'; allowed: kep, released"),
        ({"requires": ["bpf", "vlan"]}, r"key requires\[1\]: 'vlan'; did you mean vxlan\? allowed: root, bpf, "),
        ({"requires": "bpf"}, "key requires: expected a list, not 'bpf'"),
        ({"requires": [{"programm": "nft"}]}, r"key requires\[0\]: unknown key 'programm'; did you mean program"),
        ({"requires": [{"program": ["nft"]}]}, r"key requires\[0\]\.program: expected a string, not \['nft'\]"),
        ({"explain": "dump"}, "key explain: expected command or log, not 'dump'"),
        ({"explain": {"run": ["x"]}}, "key explain: unknown key 'run'; allowed: command, log"),
        ({"explain": {"command": []}}, r"key explain.command: expected a list of strings, not \[\]"),
        (
            {"explain": {"command": ["x", "{svc}"]}},
            r"key explain.command\[1\]: unknown placeholder \{svc\}; allowed: \{nam",
        ),
        ({"explain": {"log": "({service}"}}, r"key explain.log: '\({service}' is not a regular expression"),
        ({"command": ["{service}"]}, r"key command\[0\]: unknown placeholder \{service\}"),
        ({"services": ["a"]}, r"key services: expected a mapping, not \['a'\]"),
        ({"services": {"anotations": {}}}, "key services: unknown key 'anotations'; did you mean annotations"),
        ({"services": {"annotations": {"a": ["b"]}}}, "key services.annotations.a: expected a string"),
        ({"services": {"spec": {"selector": {}}}}, "key services.spec: selector is not allowed, because"),
        ({"limits": {"memory": -1}}, r"key limits\.memory: expected 0 \(no limit\) to 1,000,000, not -1"),
        ({"limits": {"disk": 1}}, r"key limits: unknown key 'disk'; allowed: memory, processes, log"),
        ({"isolation": ["mount"]}, r"key isolation\[0\]: 'mount'; did you mean mounts\? allowed: mounts, bpffs, "),
        ({"judges": "maps"}, "key judges: 'maps'; allowed: packets, decisions"),
    ],
)
def test_error_names_its_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_recipe(MINIMAL | changes, OF_PROXY)


def test_required_programs_are_among_the_needs() -> None:
    recipe = parse_recipe(MINIMAL | {"requires": ["bpf", {"program": "nft"}], "isolation": ["run"]}, OF_PROXY)
    assert recipe.needs == ("bpf", "program nft", "run")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"proxy file .*/none.yaml: cannot be read: No such file"):
        read_recipe(str(tmp_path / "none.yaml"), OF_PROXY)


def test_invalid_yaml_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(UsageError, match=r"proxy file .*/bad.yaml: is not YAML"):
        read_recipe(str(tmp_path / "bad.yaml"), OF_PROXY)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], r"key pods: expected a mapping of keys to values, not \[\]"),
        ({"detach": ["x"]}, r"key pods.attach is missing"),
        ({"attach": ["x"], "add": "x"}, r"key pods: unknown key 'add'; allowed: attach, detach"),
        ({"attach": "x"}, r"key pods.attach: expected a list of strings, not 'x'"),
        (
            {"attach": ["x", "{log_file}"]},
            r"key pods.attach\[1\]: unknown placeholder \{log_file\}; allowed: \{pod\}, ",
        ),
    ],
)
def test_error_in_pod_commands_names_its_key(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_recipe(MINIMAL | {"pods": given}, OF_PROXY)
