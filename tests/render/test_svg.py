"""Charts: scales, titles, labels that do not cover one another, and XML that any browser takes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.render.svg import (
    Bar,
    Lane,
    Part,
    Point,
    Roof,
    Span,
    columns,
    nice_ticks,
    roofs,
    shortened,
    stacked_bars,
    timeline,
)

_SVG = "{http://www.w3.org/2000/svg}"


def _rectangles(svg: str) -> list[ElementTree.Element]:
    """Those with a title, which are data; the others are legend."""
    return [each for each in ElementTree.fromstring(svg).iter(f"{_SVG}rect") if each.find(f"{_SVG}title") is not None]


def _width(element: ElementTree.Element) -> float:
    return float(element.attrib["width"])


def test_pieces_of_bars_are_as_long_as_their_values():
    bars = [
        Bar(label="a", parts=(Part(series=0, value=30, title="x"), Part(series=1, value=10, title="y")), end="40"),
        Bar(label="b", parts=(Part(series=0, value=20, title="z"),), end="20"),
    ]
    one, other, third = _rectangles(stacked_bars(bars, ["first", "second"]))
    assert _width(one) == pytest.approx(3 * _width(other), rel=0.01)
    assert _width(third) == pytest.approx(2 * _width(other), rel=0.01)
    assert float(other.attrib["x"]) == pytest.approx(float(one.attrib["x"]) + _width(one), abs=0.2)
    assert one.find(f"{_SVG}title").text == "x"  # type: ignore[union-attr]


def test_spans_of_a_timeline_lie_where_they_were():
    lane = Lane(
        label="gpu0",
        spans=(Span(series=0, start=100, end=200, title="s"), Span(series=1, start=300, end=500, title="t")),
    )
    one, other = _rectangles(timeline([lane], ["s", "t"], str))
    assert _width(other) == pytest.approx(2 * _width(one), rel=0.01)
    assert float(other.attrib["x"]) - float(one.attrib["x"]) == pytest.approx(2 * _width(one), rel=0.01)


def test_columns_stand_on_zero():
    one, other = _rectangles(columns([Part(series=0, value=4, title="a"), Part(series=-1, value=2, title="b")], str))
    bottom = [float(each.attrib["y"]) + float(each.attrib["height"]) for each in (one, other)]
    assert bottom[0] == pytest.approx(bottom[1], abs=0.2)
    assert float(one.attrib["height"]) == pytest.approx(2 * float(other.attrib["height"]), rel=0.01)
    assert other.attrib["class"] == "none"


_POINTS = st.lists(
    st.builds(
        Point,
        x=st.floats(1e-2, 1e4),
        y=st.floats(1e9, 1e16),
        series=st.integers(0, 4),
        size=st.floats(3, 10),
        title=st.just("a <b> & c"),
        label=st.text("abcdefgh_.", min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=30,
)


@given(_POINTS)
def test_labels_of_points_never_cover_one_another(points):
    svg = roofs(
        points, [Roof(slope=8e12, top=2.5e15, label="2.5 PFLOP/s")], ["n"], "x", "y", lambda value: f"{value:g}"
    )
    tree = ElementTree.fromstring(svg)
    assert len(list(tree.iter(f"{_SVG}circle"))) == len(points)
    boxes = [
        (float(text.attrib["x"]), float(text.attrib["y"]), 6.2 * len(text.text or ""))
        for text in tree.iter(f"{_SVG}text")
        if text.attrib.get("class") == "end"
    ]
    for place, (x, y, width) in enumerate(boxes):
        for other_x, other_y, other_width in boxes[:place]:
            apart = x >= other_x + other_width - 0.2 or other_x >= x + width - 0.2 or abs(y - other_y) >= 11.8
            assert apart


def test_a_roof_bends_where_its_ceilings_meet():
    # 8 TB/s and 2.5 PFLOP/s meet at 312.5 FLOP/B; a point there lies on the corner.
    point = Point(x=312.5, y=2.5e15, series=0, size=4, title="corner")
    svg = roofs([point], [Roof(slope=8e12, top=2.5e15, label="top")], ["n"], "x", "y", str)
    [circle] = ElementTree.fromstring(svg).iter(f"{_SVG}circle")
    [path] = ElementTree.fromstring(svg).iter(f"{_SVG}path")
    corner = re.search(r"L([\d.]+) ([\d.]+)", path.attrib["d"])
    assert corner is not None
    assert float(circle.attrib["cx"]) == pytest.approx(float(corner[1]), abs=0.2)
    assert float(circle.attrib["cy"]) == pytest.approx(float(corner[2]), abs=0.2)


@given(st.floats(-1e6, 1e6), st.floats(1, 1e12), st.integers(2, 8))
def test_ticks_are_round_few_and_inside(low, size, count):
    ticks = nice_ticks(low, low + size, count)
    assert len(ticks) <= count + 1
    assert all(low - size * 1e-6 <= tick <= low + size * (1 + 1e-6) for tick in ticks)


def test_long_labels_lose_their_middle():
    assert shortened("short") == "short"
    long = shortened("input_convert_transpose_fusion_with_a_long_name.12")
    assert len(long) == 28
    assert long.startswith("input_convert")
    assert long.endswith(".12")
