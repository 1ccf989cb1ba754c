"""Evidence has a readable size, whatever clients have written."""

from __future__ import annotations

import yaml

from harness.model.evidence_text import LONGEST, as_yaml, bounded


def config_map(name: str, size: int) -> dict[str, object]:
    return {"metadata": {"name": name, "managedFields": []}, "data": {"x": "y" * size}}


def test_objects_that_are_too_large_together_are_left_out() -> None:
    few = [config_map("a", 10), config_map("b", 10)]
    read = yaml.safe_load_all(as_yaml(few, "configmaps"))
    assert [each["metadata"] for each in read] == [{"name": "a"}, {"name": "b"}]
    much = as_yaml([*few, config_map("c", LONGEST), *few], "configmaps")
    assert much == f"{as_yaml(few, 'configmaps')}# 3 more configmaps are left out\n"
    assert as_yaml([config_map("c", LONGEST)], "configmaps") == "# 1 more configmaps are left out\n"
    assert as_yaml([], "configmaps") == "# there are no configmaps\n"


def test_long_text_loses_its_middle_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    assert bounded(text) == text
    head, left_out, tail = bounded(text, 100).partition("letters left out")
    assert text.startswith(head.rpartition("\n")[0])
    assert text.endswith(tail.removeprefix(" …\n"))
    assert left_out
