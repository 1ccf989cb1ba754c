"""A run with a report and a history that a test can change. The digests remain valid."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from harness.judging.history import sealed
from harness.model.requirements import Requirement
from harness.report.page import rewrite
from harness.report.verification import verify
from harness.scenario.rehearsal import ExpectedByCase


@dataclass
class ForgedRun:
    """A run that a test can change before it writes the run again."""

    folder: Path
    report: Any
    lines: list[bytes]
    requirements: Sequence[Requirement]
    foreseen: ExpectedByCase = lambda _: {}
    history: bytes = b""

    @property
    def tests(self) -> dict[str, Any]:
        return {each["id"].partition("/")[2]: each for each in self.report["tests"]}

    @property
    def profile(self) -> Any:
        return self.report["profiles"][0]

    def records(self, kind: str) -> list[Any]:
        return [each for each in map(orjson.loads, self.lines) if each["kind"] == kind]

    def rewrite(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change records and compute all digests again. A change to None removes a record, and a list replaces it."""
        digest, lines = b"", []
        for line in self.lines:
            record = orjson.loads(line)
            del record["digest"]
            changed = change(record)
            if changed is not None:
                for each in changed if isinstance(changed, list) else [changed]:
                    written, digest = sealed(each, digest)
                    lines.append(written)
        self.history = b"".join(lines)
        for each in self.report["artifacts"]:
            if each["path"] == "run.jsonl":
                each["sha256"] = hashlib.sha256(self.history).hexdigest()

    def seal(self, path: str) -> None:
        """Write the digest of a changed file into the report, as a careful forger would."""
        for each in self.report["artifacts"]:
            if each["path"] == path:
                each["sha256"] = hashlib.sha256((self.folder / path).read_bytes()).hexdigest()

    def make_page(self) -> None:
        """Make the page again after a change that a run could have made."""
        assert "derived" in self.checks()
        rewrite.write(str(self.folder), self.requirements)
        self.seal("report.html")

    def checks(self) -> list[str]:
        """Write the run, and return the names of the checks that reject it."""
        return [each.partition(":")[0] for each in self.refusals()]

    def refusals(self) -> list[str]:
        """Write the run, and return what `verify` says about it."""
        if (self.folder / "run.jsonl").exists():
            (self.folder / "run.jsonl").write_bytes(self.history or b"".join(self.lines))
        (self.folder / "report.yaml").write_text(yaml.safe_dump(self.report, sort_keys=False), encoding="utf-8")
        return [str(each) for each in verify(self.folder, self.requirements, self.foreseen)]
