"""Small charts as SVG whose colours are those of the page they stand in: bars, stacked bars, points under roofs.

Shapes carry classes (`c0`, `c1`, ... for series, `axis`, `grid`, `mark`), and a `<title>` each, which browsers show
where somebody points. Numbers in paths are rounded to a tenth of a pixel, so that the same values give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 960
_LEFT, _RIGHT = 190, 90
_ROW, _BAR = 26, 16
_CHARACTERS = 28
_CHARACTER_PIXELS = 6.2  # of a label at its font size, on average
_ROOF_LABEL = 90.0  # pixels that the name of a ceiling takes
# Where a label may stand beside its point: right, left, and further up and down.
_SIDES = ((1, 0), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1), (1, -2), (-1, -2), (1, 2), (-1, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a bar.

    Attributes:
        series: number of its colour; below 0: without colour, an outline only.
        value: its length, in the unit of the chart.
        title: shown when it is pointed at.
    """

    series: int
    value: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of a chart: what it is called, its pieces, and what stands at its end."""

    label: str
    parts: tuple[Part, ...]
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a timeline.

    Attributes:
        series: number of its colour.
        start, end: on the axis.
        title: shown when it is pointed at.
    """

    series: int
    start: float
    end: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line of a timeline."""

    label: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a roofline chart; `label` is drawn, `title` is shown when it is pointed at."""

    x: float
    y: float
    series: int
    size: float
    title: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A ceiling: y = min(slope * x, top)."""

    slope: float
    top: float
    label: str


def stacked_bars(bars: Sequence[Bar], legend: Sequence[str]) -> str:
    """Horizontal bars of pieces, all on one scale that begins at 0."""
    longest = max((sum(part.value for part in bar.parts) for bar in bars), default=0.0) or 1.0
    scale = (WIDTH - _LEFT - _RIGHT) / longest
    pieces: list[str] = []
    for place, bar in enumerate(bars):
        y = place * _ROW
        pieces.append(_label(bar.label, y + _BAR - 3))
        x = float(_LEFT)
        for part in bar.parts:
            width = part.value * scale
            pieces.append(_rectangle(x, y, width, _BAR, part.series, part.title))
            x += width
        pieces.append(f'<text class="end" x="{_n(x + 6)}" y="{y + _BAR - 3}">{escape(bar.end)}</text>')
    height = len(bars) * _ROW
    pieces.append(_legend(legend, height + 6))
    return _svg(pieces, height + 30)


def timeline(lanes: Sequence[Lane], legend: Sequence[str], write: Callable[[float], str]) -> str:
    """Pieces on lines over one axis; `write` puts a value of the axis into words."""
    first = min((span.start for lane in lanes for span in lane.spans), default=0.0)
    last = max((span.end for lane in lanes for span in lane.spans), default=first + 1.0)
    scale = (WIDTH - _LEFT - 20) / ((last - first) or 1.0)
    pieces: list[str] = []
    for place, lane in enumerate(lanes):
        y = place * _ROW
        pieces.append(_label(lane.label, y + _BAR - 3))
        for span in lane.spans:
            x = _LEFT + (span.start - first) * scale
            pieces.append(_rectangle(x, y, (span.end - span.start) * scale, _BAR, span.series, span.title))
    height = len(lanes) * _ROW
    for tick in nice_ticks(0.0, last - first, 6):
        x = _LEFT + tick * scale
        pieces.append(f'<line class="grid" x1="{_n(x)}" x2="{_n(x)}" y1="0" y2="{height}"/>')
        pieces.append(f'<text class="axis" text-anchor="middle" x="{_n(x)}" y="{height + 12}">{write(tick)}</text>')
    pieces.append(_legend(legend, height + 20))
    return _svg(pieces, height + 44)


def columns(values: Sequence[Part], write: Callable[[float], str], *, height: int = 170) -> str:
    """Upright bars next to one another, from 0; `write` puts a value into words."""
    top = max((part.value for part in values), default=0.0) or 1.0
    room = height - 30
    step = (WIDTH - 80 - 10) / max(len(values), 1)
    pieces = []
    for tick in nice_ticks(0.0, top, 4):
        y = 10 + room * (1 - tick / top)
        pieces.append(f'<line class="grid" x1="80" x2="{WIDTH - 10}" y1="{_n(y)}" y2="{_n(y)}"/>')
        pieces.append(f'<text class="axis" text-anchor="end" x="74" y="{_n(y + 4)}">{write(tick)}</text>')
    for place, part in enumerate(values):
        tall = room * part.value / top
        width = min(step * 0.8, 48.0)
        x = 80 + place * step + (step - width) / 2
        pieces.append(_rectangle(x, 10 + room - tall, width, tall, part.series, part.title))
    return _svg(pieces, height)


def roofs(
    points: Sequence[Point], ceilings: Sequence[Roof], legend: Sequence[str], x_title: str, y_title: str,
    write: Callable[[float], str],
) -> str:  # fmt: skip
    """Points under ceilings, both axes logarithmic; `write` puts a value of either axis into words."""
    xs = [point.x for point in points] + [roof.top / roof.slope for roof in ceilings]
    ys = [point.y for point in points] + [roof.top for roof in ceilings]
    x_axis, y_axis = _LogAxis.over(xs, 80, WIDTH - 30), _LogAxis.over(ys, 380, 14)
    pieces = [*x_axis.grid(vertical=True, write=write), *y_axis.grid(vertical=False, write=write)]
    for place, roof in enumerate(ceilings):
        corner = roof.top / roof.slope
        low = x_axis.low
        start = (x_axis.at(low), y_axis.at(max(roof.slope * low, y_axis.low)))
        if roof.slope * low < y_axis.low:
            start = (x_axis.at(y_axis.low / roof.slope), y_axis.at(y_axis.low))
        path = f"M{_n(start[0])} {_n(start[1])} L{_n(x_axis.at(corner))} {_n(y_axis.at(roof.top))} H{WIDTH - 30}"
        pieces.append(f'<path class="roof" d="{path}"><title>{escape(roof.label)}</title></path>')
        y = y_axis.at(roof.top) - 5 - 12 * (place % 2)
        pieces.append(f'<text class="axis" text-anchor="end" x="{WIDTH - 34}" y="{_n(y)}">{escape(roof.label)}</text>')
    for point in points:
        pieces.append(
            f'<circle class="mark c{point.series}" cx="{_n(x_axis.at(point.x))}" cy="{_n(y_axis.at(point.y))}" '
            f'r="{_n(point.size)}"><title>{escape(point.title)}</title></circle>'
        )
    places = [(x_axis.at(point.x), y_axis.at(point.y), point.size, shortened(point.label)) for point in points]
    pieces += _placed_labels(places, [y_axis.at(roof.top) for roof in ceilings])
    pieces.append(f'<text class="axis" text-anchor="middle" x="{WIDTH / 2}" y="416">{escape(x_title)}</text>')
    pieces.append(f'<text class="axis" x="6" y="10">{escape(y_title)}</text>')
    pieces.append(_legend(legend, 426))
    return _svg(pieces, 450)


def _placed_labels(points: Sequence[tuple[float, float, float, str]], roof_ys: Sequence[float]) -> list[str]:
    """Labels beside their points, the first points first; one that would cover another label is left out."""
    taken = [(WIDTH - 34 - _ROOF_LABEL, y - 28, float(WIDTH), y) for y in roof_ys]
    pieces = []
    for x, y, size, text in points:
        width = _CHARACTER_PIXELS * len(text)
        for dx, dy in _SIDES if text else ():
            left = x + dx * (size + 4) - (width if dx < 0 else 0.0 if dx > 0 else width / 2)
            base = y + dy * (size + 9) + 4
            box = (left, base - 10, left + width, base + 2)
            is_inside = box[0] >= 80 and box[2] <= WIDTH - 4 and box[1] >= 14 and box[3] <= 380
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                pieces.append(f'<text class="end" x="{_n(left)}" y="{_n(base)}">{escape(text)}</text>')
                break
    return pieces


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """At most about `count` round values from `low` to `high`."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def shortened(text: str, characters: int = _CHARACTERS) -> str:
    """A label that fits, its middle left out."""
    if len(text) <= characters:
        return text
    head = (characters - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (characters - 1 - head) :]}"


@dataclass(frozen=True, slots=True)
class _LogAxis:
    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> _LogAxis:
        """Half a decade beyond the values, on whole decades."""
        positive = [value for value in values if value > 0] or [1.0]
        low, high = math.floor(math.log10(min(positive)) - 0.2), math.ceil(math.log10(max(positive)) + 0.2)
        return cls(10.0**low, 10.0**high, begin, end)

    def at(self, value: float) -> float:
        share = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def grid(self, *, vertical: bool, write: Callable[[float], str]) -> list[str]:
        decades = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
        pieces = []
        for decade in decades:
            at = self.at(10.0**decade)
            text = escape(write(10.0**decade))
            if vertical:
                pieces.append(f'<line class="grid" x1="{_n(at)}" x2="{_n(at)}" y1="14" y2="380"/>')
                pieces.append(f'<text class="axis" text-anchor="middle" x="{_n(at)}" y="396">{text}</text>')
            else:
                pieces.append(f'<line class="grid" x1="80" x2="{WIDTH - 30}" y1="{_n(at)}" y2="{_n(at)}"/>')
                pieces.append(f'<text class="axis" text-anchor="end" x="74" y="{_n(at + 4)}">{text}</text>')
        return pieces


def _svg(pieces: Sequence[str], height: float) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {_n(height)}" role="img" xmlns="http://www.w3.org/2000/svg">'
        + "".join(pieces)
        + "</svg>"
    )


def _rectangle(x: float, y: float, width: float, height: float, series: int, title: str) -> str:
    colour = f"c{series}" if series >= 0 else "none"
    return (
        f'<rect class="{colour}" x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0.3))}" height="{_n(height)}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _label(text: str, y: float) -> str:
    inner = escape(shortened(text))
    title = f"<title>{escape(text)}</title>" if len(text) > _CHARACTERS else ""
    return f'<text class="label" text-anchor="end" x="{_LEFT - 8}" y="{_n(y)}">{inner}{title}</text>'


def _legend(names: Sequence[str], y: float) -> str:
    pieces, x = [], float(_LEFT)
    for series, name in enumerate(names):
        pieces.append(f'<rect class="c{series}" x="{_n(x)}" y="{_n(y)}" width="11" height="11"/>')
        pieces.append(f'<text class="axis" x="{_n(x + 15)}" y="{_n(y + 10)}">{escape(name)}</text>')
        x += 30 + 6.6 * len(name)
    return "".join(pieces)


def _n(value: float) -> str:
    """At most one decimal, without a needless one."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
