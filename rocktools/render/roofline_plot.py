"""ROOFLINE -> a picture in the manner of the scaling book: intensity against rate, ceilings, labelled points.

The picture says where its numbers come from, whether anything was simulated, and how many names it could not show; the
table it is made of goes beside it. The same points give the same bytes: no dates, no random ids. matplotlib is imported
when a picture is made, without pyplot, so that no state of its is touched.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from rocktools.devices.device import Bandwidth, Level, Peak
from rocktools.roofline.points import Roofline
from rocktools.roofline.verdict import Bound
from rocktools.units import count_noun, format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

LABELS_COUNT = 14
_SIZE_INCHES = (11.0, 7.2)
_DPI = 120
_LONGEST_LABEL = 34
_FONT_POINTS = 8
# White behind letters, so that lines under them do not matter; outlines of letters would turn text into paths in SVG.
_PLATE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
# What lies further off is left out and counted: work that hardly calculates would make the picture empty.
_DECADES_BELOW = 6.0  # of rate, under the highest ceiling
_DECADES_BEYOND = 4.0  # of intensity, right of the last ridge
_COLOURS = {
    str(Bound.COMPUTE): "#b2182b",
    str(Bound.MEMORY): "#2166ac",
    str(Bound.NETWORK): "#2166ac",
    str(Bound.NEITHER): "#7f7f7f",
    str(Bound.ABOVE_ROOF): "#e08214",
}
_MARKS = {str(Bound.ABOVE_ROOF): "X", str(Bound.NEITHER): "o"}
_WORDS = {
    str(Bound.COMPUTE): "compute-bound",
    str(Bound.MEMORY): "memory-bound",
    str(Bound.NETWORK): "network-bound",
    str(Bound.NEITHER): "bound by neither",
    str(Bound.ABOVE_ROOF): "above the roof: a number is wrong",
}
_CEILING_COLOURS = ("#1b1b1b", "#6a3d9a", "#33702f", "#8c510a", "#5e6a71", "#9a2f6a")
_STYLE = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "rocktools",
    "text.parse_math": False,  # kernel names may hold dollars
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# Where a label may stand, from its point, in points (1/72 inch): nearest first.
_PLACES = tuple(
    (distance * math.cos(math.radians(angle)), distance * math.sin(math.radians(angle)))
    for distance in (9, 16, 25, 36, 50)
    for angle in (25, 155, -25, -155, 60, 120, -60, -120, 90, -90)
)


def render_roofline_svg(roofline: Roofline, *, is_simulated: bool) -> str:
    """The picture as SVG, text as text."""
    with _style():
        figure = _draw(roofline, is_simulated=is_simulated)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": "rocktools"})
    return target.getvalue()


def render_roofline_png(roofline: Roofline, *, is_simulated: bool) -> bytes:
    """The picture as PNG."""
    with _style():
        figure = _draw(roofline, is_simulated=is_simulated)
        target = io.BytesIO()
        figure.savefig(target, format="png", dpi=_DPI, metadata={"Software": "rocktools"})
    return target.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    """Our settings and matplotlib's defaults: the user's own would change the picture."""
    with warnings.catch_warnings():
        # Some versions complain about their own defaults, or about how they use a newer pyparsing.
        warnings.simplefilter("ignore", DeprecationWarning)
        import matplotlib

        settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_STYLE}
        del settings["backend"]  # no window is opened
        with matplotlib.rc_context(settings):
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Limits of the axes."""

    left: float
    right: float
    bottom: float
    top: float


@dataclass(slots=True, kw_only=True)
class _Labels:
    """Labels that were placed, and what else they must not cover; boxes in pixels."""

    taken: list[Bbox] = field(default_factory=list)
    placed_count: int = 0


def _draw(roofline: Roofline, *, is_simulated: bool) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawable = _drawable(roofline.points)
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.08, 0.2, 0.765, 0.71))
    window = _window(roofline, drawable)
    shown = _inside(drawable, window)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(window.left, window.right)
    axes.set_ylim(window.bottom, window.top)
    axes.grid(True, which="major", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    _name_axes(axes, roofline)
    labels = _Labels()
    canvas.draw()
    _draw_ceilings(axes, roofline, window, labels)
    handles = _draw_points(axes, shown)
    if is_simulated:
        axes.text(
            0.5, 0.5, "SIMULATED", transform=axes.transAxes, ha="center", va="center", fontsize=64, rotation=24,
            color="#e4e4e4", zorder=0.5,
        )  # fmt: skip
    canvas.draw()
    _place_labels(axes, shown, labels)
    _explain(figure, axes, roofline, handles, len(shown), labels.placed_count, is_simulated=is_simulated)
    return figure


def _drawable(points: pd.DataFrame) -> pd.DataFrame:
    """Points with an intensity and a rate, the longest first."""
    has_both = (points["intensity_flop_per_byte"] > 0) & (points["achieved_flop_per_s"] > 0)
    return points[has_both.to_numpy()].sort_values("union_ns", ascending=False, kind="stable", ignore_index=True)


def _ceilings(roofline: Roofline) -> tuple[list[tuple[str, Peak]], list[Bandwidth]]:
    """Peaks of the formats that points were held against, with a label; and bandwidths. Measured and stated ones."""
    by_rate: dict[tuple[float, str], list[str]] = {}
    first: dict[tuple[float, str], Peak] = {}
    wanted = roofline.dtypes or (("matrix", "bf16"),)
    for unit, dtype in wanted[: len(_CEILING_COLOURS)]:
        for peak in roofline.device.peaks:
            is_sparse = str(peak.sparsity) != (roofline.sparsity if unit == "matrix" else "dense")
            if (str(peak.unit), peak.dtype) == (unit, dtype) and not is_sparse:
                key = (peak.flop_per_s, f"{peak.unit} ({peak.evidence})")
                by_rate.setdefault(key, []).append(dtype)
                first.setdefault(key, peak)
    peaks = [
        (f"{', '.join(dict.fromkeys(names))} {what}\n{format_si(rate, 'FLOP/s')}", first[rate, what])
        for (rate, what), names in by_rate.items()
    ]
    levels = {roofline.origin.level} | ({Level.FABRIC_CACHE} if roofline.origin.level is Level.HBM else set())
    bandwidths = [each for each in roofline.device.bandwidths if each.level in levels]
    return peaks, bandwidths


def _window(roofline: Roofline, shown: pd.DataFrame) -> _Window:
    """Room for the points and for both ends of the roof."""
    peaks, bandwidths = _ceilings(roofline)
    highest = max(peak.flop_per_s for _, peak in peaks)
    steepest = max(each.bytes_per_s for each in bandwidths)
    last_ridge = highest / min(each.bytes_per_s for each in bandwidths)
    intensities = [float(value) for value in shown["intensity_flop_per_byte"]]
    rates = [float(value) for value in shown["achieved_flop_per_s"]]
    bottom = max(min([highest / 100, *rates]) / 3, highest / 10**_DECADES_BELOW)
    left = max(min([highest / steepest / 100, *intensities]) / 3, bottom / steepest / 3)
    right = min(max([last_ridge * 10, *intensities]) * 3, last_ridge * 10**_DECADES_BEYOND)
    return _Window(left=left, right=right, bottom=bottom, top=max([highest, *rates]) * 3)


def _inside(shown: pd.DataFrame, window: _Window) -> pd.DataFrame:
    """The points that the window shows."""
    intensity, rate = shown["intensity_flop_per_byte"], shown["achieved_flop_per_s"]
    is_inside = (intensity > window.left) & (intensity < window.right) & (rate > window.bottom) & (rate < window.top)
    return shown[is_inside.to_numpy()].reset_index(drop=True)


def _name_axes(axes: Any, roofline: Roofline) -> None:
    from matplotlib.ticker import FuncFormatter

    what = {Level.HBM: "HBM", Level.L2: "L2", Level.LDS: "LDS", Level.NETWORK: "network"}.get(roofline.origin.level, "")
    axes.set_xlabel(f"arithmetic intensity: FLOP per {what} byte  ({roofline.origin.bytes_label})")
    axes.set_ylabel("rate of one device: FLOP/s")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value, "")))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _draw_ceilings(axes: Any, roofline: Roofline, window: _Window, labels: _Labels) -> None:
    """Each bandwidth up to the highest peak, each peak from the steepest bandwidth on; its label right of the axes."""
    from matplotlib.transforms import Bbox

    peaks, bandwidths = _ceilings(roofline)
    highest = max(peak.flop_per_s for _, peak in peaks)
    steepest = max(each.bytes_per_s for each in bandwidths)
    angle = _slope_angle(axes, window)
    for number, each in enumerate(bandwidths):
        style = "-" if number == 0 else "--"
        end = min(highest / each.bytes_per_s, window.right)
        start = max(window.left, window.bottom / each.bytes_per_s)
        axes.plot(
            [start, end], [start * each.bytes_per_s, end * each.bytes_per_s], style, color="#2166ac", lw=1.3, zorder=2
        )
        rank = sum(other.bytes_per_s > each.bytes_per_s for other in bandwidths)
        _label_slope(axes, each, start * (end / start) ** (0.08 + 0.28 * (rank // 2)), angle, rank == 0, labels)
    lowest_free = float("inf")
    line_pixels = 2.6 * _FONT_POINTS * axes.figure.dpi / 72
    for number, (label, peak) in sorted(enumerate(peaks), key=lambda each: -each[1][1].flop_per_s):
        colour = _CEILING_COLOURS[number % len(_CEILING_COLOURS)]
        style = "-" if str(peak.evidence) == "measured" or number == 0 else "--"
        start = peak.flop_per_s / steepest
        axes.plot([start, window.right], [peak.flop_per_s] * 2, style, color=colour, lw=1.3, zorder=2)
        left, height = axes.transData.transform((start, peak.flop_per_s))
        right = axes.transData.transform((window.right, peak.flop_per_s))[0]
        labels.taken.append(Bbox.from_bounds(left, height - 1, right - left, 2))
        lowest_free = min(height, lowest_free - line_pixels)
        at = axes.transAxes.inverted().transform((right, lowest_free))[1]
        axes.text(
            1.01, at, label, transform=axes.transAxes, ha="left", va="center", fontsize=_FONT_POINTS, color=colour
        )


def _label_slope(axes: Any, each: Bandwidth, at: float, angle: float, is_above: bool, labels: _Labels) -> None:
    """The label of a bandwidth along its line: above the steepest, below the others, which lie close to it."""
    from matplotlib.transforms import Bbox

    text = axes.annotate(
        f"{each.name}: {format_si(each.bytes_per_s, 'B/s')} ({each.evidence})",
        (at, at * each.bytes_per_s), xytext=(-4, 4) if is_above else (4, -4), textcoords="offset points",
        rotation_mode="anchor", va="bottom" if is_above else "top", fontsize=_FONT_POINTS, color="#2166ac",
        zorder=4.5, bbox=_PLATE,
    )  # fmt: skip
    box = text.get_window_extent()
    text.set_rotation(angle)
    x, y = axes.transData.transform((at, at * each.bytes_per_s))
    across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    side = 1 if is_above else -1
    for step in range(int(box.width // box.height) + 1):
        along, off = (step + 0.5) * box.height, side * box.height
        centre = (x + along * across - off * up, y + along * up + off * across)
        labels.taken.append(
            Bbox.from_bounds(centre[0] - box.height / 2, centre[1] - box.height / 2, box.height, box.height)
        )


def _slope_angle(axes: Any, window: _Window) -> float:
    """Of a line of slope one on both logarithmic axes, in degrees on paper."""
    box = axes.get_window_extent()
    across = box.width / math.log10(window.right / window.left)
    up = box.height / math.log10(window.top / window.bottom)
    return math.degrees(math.atan2(up, across))


def _draw_points(axes: Any, shown: pd.DataFrame) -> list[Any]:
    """Points by what bounds them, larger where they take more time; the handles of the legend."""
    handles = []
    longest = _longest(shown)
    for bound in map(str, Bound):
        rows = shown[(shown["bound"] == bound).to_numpy()]
        if len(rows):
            sizes = _areas(rows, longest)
            handles.append(
                axes.scatter(
                    rows["intensity_flop_per_byte"], rows["achieved_flop_per_s"], s=sizes,
                    marker=_MARKS.get(bound, "D"), color=_COLOURS[bound], alpha=0.85, edgecolors="white",
                    linewidths=0.6, zorder=4, label=_WORDS[bound],
                )
            )  # fmt: skip
    return handles


def _longest(shown: pd.DataFrame) -> float:
    return float(shown["union_ns"].max()) if len(shown) else 1.0


def _areas(rows: pd.DataFrame, longest: float) -> list[float]:
    """Areas of marks in square points, growing with time."""
    return [18.0 + 130.0 * float(each) / longest for each in rows["union_ns"]]


def _place_labels(axes: Any, shown: pd.DataFrame, labels: _Labels) -> None:
    """Labels of the longest points, each at the first free place around its point; none where there is no free one."""
    from matplotlib.transforms import Bbox

    inside = axes.get_window_extent()
    centres = [
        axes.transData.transform((x, y))
        for x, y in zip(shown["intensity_flop_per_byte"], shown["achieved_flop_per_s"], strict=True)
    ]
    scale = axes.figure.dpi / 72
    widths = [math.sqrt(area) * scale + 2 for area in _areas(shown, _longest(shown))]
    marks = [Bbox.from_bounds(x - w / 2, y - w / 2, w, w) for (x, y), w in zip(centres, widths, strict=True)]
    for (x, y), row in zip(centres[:LABELS_COUNT], shown.head(LABELS_COUNT).itertuples(), strict=True):
        text = axes.annotate(
            _shortened(str(row.name)), (row.intensity_flop_per_byte, row.achieved_flop_per_s), xytext=(0, 0),
            textcoords="offset points", fontsize=_FONT_POINTS, color="#222222", zorder=5, bbox=_PLATE,
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": "#888888", "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip
        size = text.get_window_extent()
        for across, up, side, box in _places(x, y, size.width, size.height, scale):
            is_free = not any(box.overlaps(other) for other in (*labels.taken, *marks))
            if is_free and inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1):
                text.set_position((across, up))
                text.set_ha(side)
                text.set_va("center")
                labels.taken.append(box)
                labels.placed_count += 1
                break
        else:
            text.remove()


def _places(x: float, y: float, width: float, height: float, scale: float) -> Iterator[tuple[float, float, str, Bbox]]:
    """Offset, alignment and box of the places around a point."""
    from matplotlib.transforms import Bbox

    for across, up in _PLACES:
        side = "center" if abs(across) < 1 else "left" if across > 0 else "right"
        start = {"left": 0.0, "right": -width, "center": -width / 2}[side]
        left, bottom = x + across * scale + start, y + up * scale - height / 2
        yield across, up, side, Bbox.from_bounds(left - 2, bottom - 1, width + 4, height + 2)


def _explain(
    figure: Figure,
    axes: Any,
    roofline: Roofline,
    handles: Sequence[Any],
    shown_count: int,
    labelled_count: int,
    *,
    is_simulated: bool,
) -> None:
    """Title, legend, and below it the evidence."""
    stamp = "SIMULATED   " if is_simulated else ""
    axes.set_title(
        f"{stamp}Roofline of {roofline.device.title}, {roofline.device.partition}/{roofline.device.memory_partition}, "
        f"level {roofline.origin.level}",
        loc="left",
        fontsize=12,
        pad=12,
    )
    if handles:
        legend = figure.legend(
            handles=list(handles), loc="lower left", bbox_to_anchor=(0.075, 0.075), ncols=len(handles), frameon=False
        )
        for handle in legend.legend_handles:
            handle.set_sizes([45])  # type: ignore[union-attr]
    hidden = len(roofline.points) - shown_count
    rest = (
        f" {count_noun(hidden, 'name')} without a verdict, or (almost) without FLOPs: see the table." if hidden else ""
    )
    notes = [
        f"Evidence: {roofline.origin.sentence}.",
        f"{count_noun(shown_count, 'point')}, {labelled_count} with a label, of those that take most time; "
        f"area grows with time.{rest}",
    ]
    for number, note in enumerate(notes):
        figure.text(0.08, 0.055 - 0.025 * number, note, fontsize=8, color="#444444")


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST_LABEL:
        return name
    head = (_LONGEST_LABEL - 1) * 2 // 3
    return f"{name[:head]}…{name[-(_LONGEST_LABEL - 1 - head) :]}"
