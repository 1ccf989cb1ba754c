"""The generated Go module from which a component is compiled."""

from __future__ import annotations

from harness.binaries.component import E2E, ETCD, KIND, component_named
from harness.binaries.versions import Version
from tools.compiling import modules

KUBE_PROXY = component_named("kube-proxy")
DESCRIBED = {
    "Go": "1.25.0",
    "Godebug": [{"Key": "default", "Value": "go1.25"}],
    "Replace": [
        {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
        {"Old": {"Path": "a.io/b", "Version": "v1.0.0"}, "New": {"Path": "c.io/d", "Version": "v1.2.3"}},
        {"Old": {"Path": "a.io/none"}, "New": {"Path": "./FORBIDDEN_DEPENDENCY"}},
    ],
}


def test_staging_modules_are_pinned_to_the_same_release_and_other_folders_left_out() -> None:
    text = modules.go_mod(KUBE_PROXY, Version(1, 34, 10), DESCRIBED)
    assert "require k8s.io/kubernetes v1.34.10\n" in text
    assert text.endswith("replace (\n\tk8s.io/api => k8s.io/api v0.34.10\n\ta.io/b v1.0.0 => c.io/d v1.2.3\n)\n")


def test_go_settings_equal_those_of_the_official_build() -> None:
    text = modules.go_mod(KUBE_PROXY, Version(1, 34, 10), DESCRIBED)
    assert "\ngo 1.25.0\n" in text
    assert "\ngodebug default=go1.25\n" in text


def test_pre_releases_have_staging_modules_of_the_same_name() -> None:
    version = Version(1, 35, 0, "rc.1")
    assert modules.staging_version(version).tag == "v0.35.0-rc.1"
    assert modules.release_version(modules.staging_version(version)) == version


def test_version_is_set_in_both_packages_that_report_it() -> None:
    flags = " ".join(modules.build_flags(KUBE_PROXY, Version(1, 34, 10)))
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.34.10 -X {package}.gitMajor=1 -X {package}.gitMinor=34" in flags


def test_release_without_a_known_commit_has_a_marker() -> None:
    assert ".gitCommit=unknown " in " ".join(modules.build_flags(KUBE_PROXY, Version(1, 34, 10), time="2026"))


def test_etcd_has_its_version_and_needs_no_module_replacement() -> None:
    text = modules.go_mod(ETCD, Version(3, 6, 4), {"Go": "1.24", "Replace": []})
    assert "require go.etcd.io/etcd/server/v3 v3.6.4\n" in text
    assert not any("-X" in flag for flag in modules.build_flags(ETCD, Version(3, 6, 4)))


def test_kind_is_built_without_version_variables_of_kubernetes() -> None:
    assert modules.build_flags(KIND, Version(0, 33, 0), commit="abc") == ["-mod=mod", "-trimpath", "-ldflags=-s -w"]


def test_own_command_reuses_the_build_cache_of_components() -> None:
    assert "\n\nexclude (\n\tk8s.io/api v0.34.10\n)\n\n" in modules.go_mod(E2E, Version(1, 34, 10), DESCRIBED)
    assert "exclude" not in modules.go_mod(KUBE_PROXY, Version(1, 34, 10), DESCRIBED)


def test_component_without_a_command_gets_a_generated_one() -> None:
    assert "to compile e2e v1.34.10" in modules.go_mod(E2E, Version(1, 34, 10), DESCRIBED)
    text = modules.go_file(E2E)
    assert "\npackage main\n" in text
    assert "//go:build" not in text
