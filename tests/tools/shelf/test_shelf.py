"""The shelf accepts every report that `verify` accepts.

Its index shows the implementation, results and source of each report.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from harness.commands.main import main
from harness.errors import UsageError
from harness.model import verdict_basis
from harness.model.escaping import for_markdown
from harness.model.requirements import Requirement
from harness.model.verdict_basis import DECISIONS
from harness.report.conformance import read_report
from harness.report.page.rewrite import read_run, write
from harness.report.verification import verify
from tests.harness.report.browser import BrowserPage
from tests.harness.report.forged_run import ForgedRun
from tools.shelf import index
from tools.shelf.add import add
from tools.shelf.check import check
from tools.shelf.entry import ShelfEntry, UnmetRequirement, states
from tools.shelf.pages import as_html, section
from tools.shelf.report_folder import folder_of

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
TODAY = datetime.date(2026, 11, 24)
KUBE_PROXY = {"organization": "The Kubernetes authors", "project": "kube-proxy", "version": "v1.37.2"}
NO_HISTORY = "1.38/kubernetes-kube-proxy/1.35.8-nftables"
HOSTILE = "<script>x</script>|`[a](b)\u202e"


@pytest.fixture
def run(publishable: ForgedRun) -> ForgedRun:
    return publishable


def shelved(run: ForgedRun, shelf: Path) -> Path:
    """Add the run to a shelf as a run of kube-proxy, and return the folder on the shelf."""
    target, refused = add(str(run.folder), shelf, lambda: run.requirements)
    assert [str(each) for each in refused] == []
    return target


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["shelf", *map(str, arguments)])


def refuse() -> Sequence[Requirement]:
    raise AssertionError("nothing need be verified")


def entry(place: str = "1.37/a-b/1-x", **more: Any) -> ShelfEntry:
    values = {
        "place": place, "digest": "", **KUBE_PROXY, "mode": "nftables", "url": "https://kubernetes.io",
        "kubernetes": "v1.37", "date": "2026-11-21T10:00:00Z", "suite": "trafficdist 0.1.0", "catalogue": "sha256:now",
        "refused": "", "uncertifiable": "", "met": "✓ 12", "features": {"DNS": {"ServiceDNS": "✓ 12"}},
        "unmet": (), "unclaimed": (), "causes": (), "judges": verdict_basis.PACKETS,
    }  # fmt: skip
    return ShelfEntry(**{**values, **more})


def unmet(name: str = "KEP-1/r", *, mark: str = "✗", sentence: str = "") -> UnmetRequirement:
    return UnmetRequirement(name, "MUST", mark, "no", "", "DNS", ("ServiceDNS",), sentence)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({}, "1.37/kubernetes-kube-proxy/1.37.2-nftables"),
        ({"version": "main/../.."}, "1.37/kubernetes-kube-proxy/main-nftables"),
        ({"organization": "Acme, Inc.", "project": "Über Proxy"}, "1.37/acme-inc-ber-proxy/1.37.2-nftables"),
        ({"version": "vanilla 2"}, "1.37/kubernetes-kube-proxy/vanilla-2-nftables"),
    ],
)
def test_the_folder_follows_from_the_report(said: dict[str, str], place: str) -> None:
    report = {"implementation": KUBE_PROXY | said, "mode": "nftables", "kubernetesVersion": "v1.37.1-eks.2"}
    assert str(folder_of(report)) == place
    assert str(folder_of({**report, "judges": DECISIONS})) == f"{place}-decisions"


@pytest.mark.parametrize(
    ("profiles", "last"), [(["DNS"], "1.37.2"), (["API-SERVER", "CLUSTER"], "1.37.2-nftables"), ([], "1.37.2-nftables")]
)
def test_the_folder_names_a_mode_where_a_proxy_was_judged(profiles: list[str], last: str) -> None:
    """A run that judges a DNS server also uses a proxy, but its report does not describe the proxy."""
    asked = [{"name": each} for each in profiles]
    report = {"implementation": KUBE_PROXY, "mode": "nftables", "kubernetesVersion": "v1.37", "profiles": asked}
    assert folder_of(report).name == last


@pytest.mark.parametrize("made", [section, as_html])
def test_matrix_marks_implementations_judged_by_decisions(made: Callable[..., str]) -> None:
    shown = made([entry("1.37/a/b", judges=DECISIONS)], TODAY)
    assert "kube-proxy v1.37.2 nftables (decisions)" in shown
    assert verdict_basis.KEY in shown
    assert "decisions" not in made([entry("1.37/a/b")], TODAY)


@pytest.mark.parametrize("name", ["organization", "project", "version"])
def test_a_report_without_a_name_has_no_folder(name: str) -> None:
    report = {"implementation": KUBE_PROXY | {name: "../"}, "mode": "nftables", "kubernetesVersion": "v1.37"}
    with pytest.raises(UsageError, match=f"the report has no {name} "):
        folder_of(report)


def test_a_report_of_an_unknown_kubernetes_has_no_folder() -> None:
    with pytest.raises(UsageError, match="has no Kubernetes version: unknown"):
        folder_of({"implementation": KUBE_PROXY, "mode": "nftables", "kubernetesVersion": "unknown"})


def test_a_run_on_the_shelf_is_verified_from_its_compressed_history(run: ForgedRun, tmp_path: Path) -> None:
    target = shelved(run, tmp_path / "shelf")
    assert target.parent.name == "o-p"
    assert target.name.startswith("1.0-")
    found = {str(each.relative_to(target)) for each in target.rglob("*") if each.is_file()}
    assert found == {"README.md", "report.yaml", "run.jsonl.xz", "evidence.txt"}
    named = {each["path"]: each["sha256"] for each in read_report(str(target))["artifacts"]}
    assert named.keys() == {"README.md", "evidence.txt", "run.jsonl"}
    assert named["run.jsonl"] == hashlib.sha256((run.folder / "run.jsonl").read_bytes()).hexdigest()
    assert verify(target, run.requirements) == []
    assert CliRunner().invoke(main, ["judge", str(target)]).exit_code == 1  # as in the run
    assert list((tmp_path / "shelf").glob(".*")) == []


def test_page_next_to_a_report_lists_unmet_requirements_and_how_to_verify(run: ForgedRun, tmp_path: Path) -> None:
    said = (shelved(run, tmp_path) / "README.md").read_text(encoding="utf-8")
    assert said.startswith("# p 1.0 ")
    assert "- ✗ `KEP-2/leaks` (MUST): *" in said
    assert for_markdown(next(each.sentence for each in run.requirements if each.id == "KEP-2/leaks")) in said
    [line] = re.findall(r"`KEP-2/leaks` .*\(\[evidence\]\(<evidence\.txt#L(\d+)>\)\)", said)
    evidence = (tmp_path / "1.37" / "o-p").glob("*/evidence.txt")
    assert next(evidence).read_text().splitlines()[int(line) - 1] == "==== evidence/KEP-2/leaks/explanation.txt"
    assert "    trafficdist verify .\n" in said


def test_newer_report_replaces_an_older_one(run: ForgedRun, tmp_path: Path) -> None:
    (shelved(run, tmp_path) / "of-before.txt").write_text("old")
    assert not (shelved(run, tmp_path) / "of-before.txt").exists()


def test_a_published_report_can_be_added_to_another_shelf(run: ForgedRun, tmp_path: Path) -> None:
    first = shelved(run, tmp_path / "one")
    second, refused = add(str(first), tmp_path / "two", lambda: run.requirements)
    assert refused == []
    assert [(second / each.name).read_bytes() for each in first.iterdir()] == [
        each.read_bytes() for each in first.iterdir()
    ]


def test_a_published_report_omits_what_passed_tests_observed(run: ForgedRun, tmp_path: Path) -> None:
    of_run = {each["id"]: each for each in read_report(str(run.folder))["tests"]}
    tests = {each["id"]: each for each in read_report(str(shelved(run, tmp_path)))["tests"]}
    assert tests.keys() == of_run.keys()
    assert "observed" in of_run["KEP-2/holds"]
    assert tests["KEP-2/holds"] == {key: value for key, value in of_run["KEP-2/holds"].items() if key != "observed"}
    assert of_run["KEP-2/leaks"]["evidence"]
    assert tests["KEP-2/leaks"] == of_run["KEP-2/leaks"] | {"evidence": ["evidence.txt"]}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda tests: tests["KEP-2/leaks"].pop("observed"), "tests"),
        (lambda tests: tests["KEP-2/leaks"].update(evidence=[]), "tests"),
        (lambda tests: tests["KEP-2/holds"].update(observed={"1. TCP": {"a1": {"a1": 99}}}), "tests"),
        (lambda tests: tests["KEP-2/holds"].update(evidence=["evidence.txt"]), "tests"),
        (lambda tests: tests["KEP-2/leaks"].update(verdict="passed"), "verdicts"),
    ],
    ids=["no counts", "no evidence", "other counts", "evidence of a passed test", "another verdict"],
)
def test_a_changed_published_report_is_refused(
    run: ForgedRun, tmp_path: Path, change: Callable[[dict[str, Any]], object], check: str
) -> None:
    target = shelved(run, tmp_path)
    report = read_report(str(target))
    change({each["id"]: each for each in report["tests"]})
    (target / "report.yaml").write_text(yaml.safe_dump(report, sort_keys=False), encoding="utf-8")
    assert check in [each.check for each in verify(target, run.requirements)]


def test_the_page_of_a_published_report_shows_the_excerpts(run: ForgedRun, tmp_path: Path) -> None:
    target = shelved(run, tmp_path)
    found = read_run(str(target), run.requirements)
    [leaks] = [each for each in found.results if each.requirement.id == "KEP-2/leaks"]
    [path] = [path for case in leaks.cases for path in case.evidence if path.endswith("/explanation.txt")]
    assert found.evidence(path) == f"{(run.folder / path).read_text().rstrip()}\n\n"
    assert write(str(target), run.requirements).read_text(encoding="utf-8").count("<section") > 0


def test_report_refused_by_verify_is_not_added(run: ForgedRun, tmp_path: Path) -> None:
    before = shelved(run, tmp_path / "shelf") / "report.yaml"
    text = before.read_text()
    run.report["run"]["retries"] = 1
    run.checks()
    target, refused = add(str(run.folder), tmp_path / "shelf", lambda: run.requirements)
    assert [each.check for each in refused] == ["run", "identity"]
    assert (target / "report.yaml").read_text() == text
    shutil.rmtree(tmp_path / "shelf")
    result = command("add", run.folder, "--shelf", tmp_path / "shelf")
    assert result.exit_code == 13
    assert "run: 1 tests were repeated" in result.output
    assert not (tmp_path / "shelf").exists()


def test_report_of_an_unreleased_version_is_listed_as_unverified(run: ForgedRun, shelf: Path) -> None:
    run.report["suite"]["version"] = "1.1.dev0"
    run.rewrite(_of_a_checkout)
    run.make_page()
    assert run.checks() == ["release"]
    target, refused = add(str(run.folder), shelf, lambda: run.requirements)
    assert [each.check for each in refused] == ["release"]
    assert "unknown revision; not verified: made by an unreleased version" in (target / "README.md").read_text(
        encoding="utf-8"
    )
    found = {each.project: each for each in index.write(shelf, refuse, TODAY)}
    assert found["p"].refused == "made by an unreleased version"
    assert index.entries(shelf, refuse) == list(found.values())
    for name in ("README.md", "index.html"):
        text = (shelf / name).read_text(encoding="utf-8")
        assert "2 reports, 0 of them verified, 1 made by an unreleased version of the suite." in text
        assert "not verified: made by an unreleased version" in text
    today = datetime.datetime.now(datetime.UTC).date()  # the run's
    assert [each.check for each in check(target, run.requirements, today=today)] == ["release"]


def _of_a_checkout(record: dict[str, Any]) -> dict[str, Any]:
    if about := record.get("facts", {}).get("report"):
        about |= {"kubernetesVersion": "v1.37", "suite": about["suite"] | {"version": "1.1.dev0"}}
    return record


def test_a_run_without_a_file_that_its_report_names_is_refused(run: ForgedRun, tmp_path: Path) -> None:
    (run.folder / "junit.xml").unlink()
    _, refused = add(str(run.folder), tmp_path / "shelf", lambda: run.requirements)
    assert [str(each) for each in refused] == ["artifacts: junit.xml is missing"]


def test_folder_without_a_run_is_a_usage_error(run: ForgedRun, tmp_path: Path) -> None:
    assert command("add", tmp_path / "nothing").exit_code == 4
    (run.folder / "report.yaml").unlink()
    result = command("add", run.folder)
    assert result.exit_code == 4
    assert "give the folder of a run that has ended" in result.output


def test_each_report_has_its_state() -> None:
    latest = entry("new")
    others = [
        entry("forged", refused="verdicts: no", date="2026-11-23T10:00:00Z", catalogue="sha256:forged"),
        entry("old", catalogue="sha256:before"),
        entry("late", date="2025-11-01T10:00:00Z"),
        entry("some", uncertifiable="--run-test chose requirements"),
    ]
    found = states([latest, *others], TODAY)
    assert found["new"].texts == ["verified", "valid until 2027-11-21"]
    assert found["forged"].texts == ["not verified: verdicts: no", "older catalogue"]
    assert found["old"].texts == ["verified", "older catalogue", "valid until 2027-11-21"]
    assert found["late"].texts == ["verified", "expired 2026-11-01"]
    assert found["some"].texts[1] == "not certifiable: --run-test chose requirements"
    assert {name for name, each in found.items() if each.holds} == {"new"}


@pytest.fixture
def shelf(run: ForgedRun, tmp_path: Path) -> Path:
    """Return a shelf that has a verified report and a report without a history."""
    place = tmp_path / "shelf"
    shelved(run, place)
    (place / NO_HISTORY).mkdir(parents=True)
    for name in ("README.md", "report.yaml", "evidence.txt"):
        shutil.copy(ROOT / "reports/1.37" / NO_HISTORY.partition("/")[2] / name, place / NO_HISTORY)
    (place / "README.md").write_text("# Mine\n\n<!-- the shelf: made by `trafficdist shelf index` -->\nx\n"
                                     "<!-- end of the shelf -->\n\nAfter.\n")  # fmt: skip
    return place


def made(run: ForgedRun, shelf: Path) -> dict[str, ShelfEntry]:
    return {each.project: each for each in index.write(shelf, lambda: run.requirements, TODAY)}


def test_the_index_is_made_from_the_folder_alone(run: ForgedRun, shelf: Path) -> None:
    found = made(run, shelf)
    assert found["p"].refused == ""
    assert found["p"].features["SERVICE-PROXY"] == {"PreferSameNode": "✓ 1", "Routing": "✗ 2/4"}
    assert found["kube-proxy"].refused == "no history"
    page, text = ((shelf / name).read_text(encoding="utf-8") for name in ("index.html", "README.md"))
    assert text.startswith("# Mine\n\n<!--")
    assert text.endswith("-->\n\nAfter.\n")
    for shown in (page, text):
        assert "not verified: no history" in shown
        assert "2 reports, 1 of them verified" in shown
    assert "CHANGES/a-slice-of-another-service" in page
    assert f"{found['p'].place}/evidence.txt#L" in page
    assert f"{found['p'].place}/README.md#not-met-and-why" in text
    assert f"{NO_HISTORY}/README.md#not-met-and-why" in text


def test_an_index_needs_its_place_in_the_page(run: ForgedRun, shelf: Path) -> None:
    (shelf / "README.md").write_text("# Mine\n")
    with pytest.raises(UsageError, match="the index goes between them"):
        made(run, shelf)
    assert not (shelf / "index.html").exists()


def test_verification_is_cached_until_a_file_changes(run: ForgedRun, shelf: Path) -> None:
    before = made(run, shelf)
    assert index.entries(shelf, refuse) == list(before.values())
    (shelf / before["p"].place / "evidence.txt").write_text("nothing to see here")
    assert made(run, shelf)["p"].refused.startswith("artifacts: ")
    (shelf / "index.json").write_text(json.dumps({"reports": [{"place": NO_HISTORY}]}))
    assert made(run, shelf)["kube-proxy"] == before["kube-proxy"]


def test_verified_report_remains_verified_when_requirements_change(run: ForgedRun, shelf: Path) -> None:
    made(run, shelf)
    changed = run.requirements[1:]
    assert index.write(shelf, lambda: changed, TODAY)[0].refused == ""
    assert index.write(shelf, lambda: changed, TODAY, again=True)[0].refused.startswith("suite: its catalogue is not")
    assert index.write(shelf, lambda: run.requirements, TODAY)[0].refused == ""


def test_verified_report_remains_verified_when_a_later_release_stores_more_fields(run: ForgedRun, shelf: Path) -> None:
    before = made(run, shelf)
    of_before = json.loads((shelf / "index.json").read_text(encoding="utf-8"))
    for each in of_before["reports"]:
        del each["met"]
    (shelf / "index.json").write_text(json.dumps(of_before), encoding="utf-8")
    assert index.entries(shelf, refuse) == list(before.values())


def test_shelf_without_reports_is_a_usage_error(tmp_path: Path) -> None:
    result = command("index", "--shelf", tmp_path)
    assert result.exit_code == 4
    assert "no folder in it contains a report.yaml" in result.output


def test_foreign_names_are_escaped() -> None:
    page = as_html([entry(project=HOSTILE, url=f"javascript:{HOSTILE}")], TODAY)
    assert "<script" not in page
    assert "\u202e" not in page
    assert 'href="javascript' not in page


REPORTS = 200


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a shelf with two hundred reports of realistic size, cached as verified."""
    real = ROOT / "reports/1.37/trafficdist-reference/0.1.0.dev0-nftables/report.yaml"
    history = bytes(range(256)) * 2000
    report = yaml.load(real.read_bytes(), Loader=yaml.CSafeLoader)
    (tmp_path / "one").mkdir()
    shutil.copy(real, tmp_path / "one")
    [one] = index.entries(tmp_path, list)
    shutil.rmtree(tmp_path / "one")
    assert len(report["tests"]) > 300
    known = []
    for number in range(REPORTS):
        folder = tmp_path / f"1.{number % 9}/acme-proxy/{number}-nftables"
        folder.mkdir(parents=True)
        shutil.copy(real, folder)
        (folder / "run.jsonl.xz").write_bytes(history)
        known.append(
            replace(
                one, place=str(folder.relative_to(tmp_path)), digest=index.digest_of(folder), version=str(number),
                refused="", unmet=(unmet(),),
            )
        )  # fmt: skip
    (tmp_path / "index.json").write_text(index.as_json(known))
    return tmp_path


def test_the_index_of_two_hundred_reports_takes_less_than_five_seconds(many: Path) -> None:
    begun = time.process_time()
    found = index.write(many, refuse, TODAY)
    took = time.process_time() - begun
    assert len(found) == REPORTS
    assert (many / "index.html").read_text(encoding="utf-8").count("<tr") > 2 * REPORTS
    assert took < 5.0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_index_has_no_errors_external_requests_or_serious_axe_findings(
    chromium: BrowserPage, run: ForgedRun, shelf: Path, axe: str, dark: bool
) -> None:
    made(run, shelf)
    chromium.errors.clear()
    chromium.requests.clear()
    for width in (390, 820, 1440):
        chromium.size(width, dark=dark)
        chromium.open((shelf / "index.html").as_uri())
        assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.serious(axe) == []
    assert chromium.errors == []
    assert [each for each in chromium.requests if not each.startswith(("file:", "about:"))] == []


def test_matrix_headers_stay_visible_while_scrolling(chromium: BrowserPage) -> None:
    chromium.size(700)
    chromium.open((ROOT / "reports" / "index.html").as_uri())
    chromium.run("document.querySelector('.scroll').style.maxHeight = '300px'")
    chromium.run("document.querySelector('.scroll').scrollTo({top: 300, left: 200, behavior: 'instant'})")
    seen = chromium.run("""(() => {
        const box = document.querySelector('.scroll'), at = element => element.getBoundingClientRect(), from = at(box);
        const names = ['thead th', 'thead th.feature', 'tbody th'];
        const [corner, head, row] = names.map(each => at(box.querySelector(each)));
        return [box.scrollTop, box.scrollLeft, corner.top - from.top, corner.left - from.left,
                head.top - from.top, row.left - from.left].map(Math.round).join();
    })()""")
    assert seen == "300,200,0,0,0,0"


def test_published_index_equals_the_generated_one(tmp_path: Path) -> None:
    ours = Path(shutil.copytree(ROOT / "reports", tmp_path / "reports"))
    made_on = (ours / "index.html").read_text(encoding="utf-8").partition("as of ")[2][:10]
    names = ("index.html", "README.md", "index.json")
    before = [(ours / name).read_text(encoding="utf-8") for name in names]
    index.write(ours, refuse, datetime.date.fromisoformat(made_on))
    assert [(ours / name).read_text(encoding="utf-8") for name in names] == before, (
        "make it with: trafficdist shelf index"
    )
    assert json.loads(before[2])["reports"]
