import pytest

from harness.errors import UsageError
from harness.variation.axes import AXES, PLAIN, draw_of, parse_draw, when_it_fails


def test_each_axis_has_a_plain_value_and_another_one() -> None:
    assert all(len(values) > 1 for values in AXES.values())
    assert [PLAIN[axis] for axis in AXES] == [next(iter(values)) for values in AXES.values()]


def test_draw_is_parsed_from_its_own_text() -> None:
    draw = draw_of({"slices": "each", "names": "cloud", "order": "written"})
    assert str(draw) == "names=cloud,slices=each"
    assert parse_draw(str(draw)) == parse_draw("slices=each, names=cloud") == draw
    assert parse_draw("plain") == PLAIN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zones=cloud", "unknown axis 'zones'; expected plain or names, slices"),
        ("names=long", "axis names has no value 'long'; expected short, cloud"),
        ("", "unknown axis ''"),
    ],
)
def test_unknown_axes_and_values_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_draw(text)


def test_without_returns_plain_values() -> None:
    draw = parse_draw("names=cloud,slices=each,family=second")
    assert str(draw.without("names", "family")) == "slices=each"


def test_condition_of_a_failure_is_a_sentence() -> None:
    assert when_it_fails("slices=each,client=node") == (
        "Fails only when each endpoint has its own EndpointSlice, and clients run on the node, in the host network "
        "(slices=each,client=node)."
    )
    assert when_it_fails("plain") == when_it_fails("") == ""
