"""A summary -> the pictures of a report: steps, phases and components, overlap, the course of the trace, rooflines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rocktools.render.report import Figure
from rocktools.render.svg import Bar, Lane, Part, Point, Roof, Span, columns, roofs, stacked_bars, timeline
from rocktools.summary.document import (
    GapsBlock,
    LedgerBlock,
    Missing,
    OverlapBlock,
    OverlapMeans,
    RooflinePoint,
    RooflineTable,
    Steps,
)
from rocktools.units import count_noun, format_duration, format_ratio, format_si

_SERIES = 8
_BARS = 16
_STEPS = 120
_LABELLED = 24
_OVERLAP = ("compute alone", "compute over communication", "exposed communication", "exposed copies", "idle")
_CEILINGS = 4
_ALIKE = 0.8
_DECADES_BELOW, _DECADES_BEYOND = 5, 3
_BOUNDS = ("compute", "memory", "network", "neither", "above_roof")


def steps_figure(steps: Steps) -> Figure | None:
    """How long each step took."""
    shown = steps.series[:_STEPS]
    if len(shown) < 2:
        return None
    parts = []
    for step in shown:
        number = step.step_index if step.step_number is None else step.step_number
        why = "" if step.is_counted else " (not counted: " + ("warm-up" if step.is_warmup else "cut") + ")"
        series = -1 if not step.is_counted else 2 if step.step_class == "heavy" else 0
        title = f"step {number}{why}: {format_duration(step.duration_ns)}, longest on {step.critical_device}"
        parts.append(Part(series=series, value=float(step.duration_ns), title=title))
    cut = f"; the first {_STEPS} of {len(steps.series)}" if len(steps.series) > _STEPS else ""
    return Figure(
        svg=columns(parts, format_duration),
        caption=f"Duration of each step on its slowest device{cut}. Outlined: warm-up or cut, not counted.",
        description=f"Bar chart of {count_noun(len(shown), 'step duration')}.",
    )


def ledger_figure(ledger: LedgerBlock) -> Figure | None:
    """Phases, each divided into its components."""
    by_component: dict[str, float] = defaultdict(float)
    by_phase: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for bucket in ledger.buckets:
        name = bucket.component if bucket.activity == "compute" else bucket.activity
        by_component[name] += bucket.sum_per_step_ns
        by_phase[bucket.phase][name] += bucket.sum_per_step_ns
    if not by_component:
        return None
    largest = sorted(by_component, key=lambda name: (-by_component[name], name))
    named = largest[: _SERIES - 1] if len(largest) > _SERIES else largest
    legend = [*named, "other"] if len(named) < len(largest) else named
    bars = []
    for phase, parts in sorted(by_phase.items(), key=lambda item: -sum(item[1].values())):
        total = sum(parts.values())
        values = {name: parts.get(name, 0.0) for name in named}
        if len(legend) > len(named):
            values["other"] = total - sum(values.values())
        pieces = tuple(
            Part(series=legend.index(name), value=value, title=f"{phase}, {name}: {format_duration(value)}")
            for name, value in values.items()
            if value > 0
        )
        bars.append(Bar(label=phase, parts=pieces, end=format_duration(total)))
    return Figure(
        svg=stacked_bars(bars, legend),
        caption="Summed kernel time of a step on each device, by phase and component. Sums count overlaps twice.",
        description=f"Stacked bars of {count_noun(len(bars), 'phase')} by component.",
    )


def overlap_figure(overlap: OverlapBlock) -> Figure:
    """The span of each device, divided into parts that do not overlap."""
    devices = sorted(overlap.devices, key=lambda each: -each.span_ns)[:_BARS]
    bars = [Bar(label=each.device, parts=_divided(each), end=format_duration(each.span_ns)) for each in devices]
    cut = f" The {_BARS} longest of {len(overlap.devices)}." if len(overlap.devices) > _BARS else ""
    return Figure(
        svg=stacked_bars(bars, _OVERLAP),
        caption=f"What a mean step of each device is made of; the parts add up to the span.{cut}",
        description=f"Stacked bars of {count_noun(len(bars), 'device')}: compute, communication, copies, idle.",
    )


def _divided(device: OverlapMeans) -> tuple[Part, ...]:
    values = (
        device.compute_ns - device.hidden_communication_ns,
        device.hidden_communication_ns,
        device.exposed_communication_ns,
        device.exposed_copy_ns,
        device.idle_ns,
    )
    span = device.span_ns or 1.0
    return tuple(
        Part(
            series=series,
            value=value,
            title=f"{device.device}, {name}: {format_duration(value)}, {format_ratio(value / span)}",
        )
        for series, (name, value) in enumerate(zip(_OVERLAP, values, strict=True))
        if value > 0
    )


def course_figure(steps: Steps, gaps: GapsBlock | Missing, first_ns: int | None) -> Figure | None:
    """When each device was in which step, and its longest gaps; `first_ns`: the first start on any device."""
    if first_ns is None or not any(device.samples for device in steps.devices):
        return None
    lanes = []
    for device in steps.devices[:_BARS]:
        spans = [
            Span(
                series=sample.step_index % 2,
                start=float(sample.start_ns - first_ns),
                end=float(sample.start_ns + sample.duration_ns - first_ns),
                title=f"{device.device}, step {sample.step_index}: {format_duration(sample.duration_ns)}",
            )
            for sample in device.samples[:_STEPS]
        ]
        spans += _gap_spans(device.run, device.device, gaps)
        lanes.append(Lane(label=device.device, spans=tuple(spans)))
    return Figure(
        svg=timeline(lanes, ("steps", "steps, odd", "longest gaps"), format_duration),
        caption="The steps of each device over time, and the longest times in which it did nothing.",
        description=f"Timeline of {count_noun(len(lanes), 'device')}.",
    )


def _gap_spans(run: str, device: str, gaps: GapsBlock | Missing) -> list[Span]:
    if isinstance(gaps, Missing):
        return []
    return [
        Span(
            series=2,
            start=float(gap.offset_ns),
            end=float(gap.offset_ns + gap.duration_ns),
            title=f"idle {format_duration(gap.duration_ns)} ({gap.cause}) before {gap.payload_name or 'nothing'}",
        )
        for gap in gaps.longest
        if (gap.run, gap.device) == (run, device)
    ]


def roofline_figure(table: RooflineTable) -> Figure | None:
    """Points under the ceilings that they are held against."""
    points = [point for point in table.points if (point.intensity_flop_per_byte or 0) > 0 and point.achieved_flop_per_s]
    tops = _distinct([point.peak_flop_per_s for point in points])
    if not points or not tops or points[0].bandwidth_bytes_per_s <= 0:
        return None
    bandwidth = points[0].bandwidth_bytes_per_s
    near = [point for point in points if _is_near(point, tops[0], tops[0] / bandwidth)]
    longest = max((point.union_ns for point in near), default=1)
    drawn = [_point(point, place, longest) for place, point in enumerate(near)]
    ceilings = [Roof(slope=bandwidth, top=top, label=format_si(top, "FLOP/s")) for top in tops[:_CEILINGS]]
    far, without = len(points) - len(near), len(table.points) - len(points)
    left_out = [
        f"{count_noun(count, 'name')} {why}"
        for count, why in ((far, "far below"), (without, "without a point"))
        if count
    ]
    rest = f" Not drawn, and in the table: {', '.join(left_out)}." if left_out else ""
    return Figure(
        svg=roofs(
            drawn,
            ceilings,
            [bound.replace("_", " ") for bound in _BOUNDS],
            f"FLOP per byte ({table.level})",
            "FLOP/s",
            lambda value: format_si(value, "").strip() if value >= 1 else f"{value:g}",
        ),
        caption=(
            f"By {table.by}, under the ceilings of {table.device}: {table.bandwidth_name}, "
            f"{format_si(bandwidth, 'B/s')}. {table.source}. Size: share of the time.{rest}"
        ),
        description=f"Roofline of {count_noun(len(near), 'point')}.",
    )


def _distinct(values: Sequence[float | None]) -> list[float]:
    """Ceilings, the highest first; mixes of formats give many that nearly coincide, of which the highest stays."""
    found: list[float] = []
    for value in sorted((each for each in values if each is not None and each > 0), reverse=True):
        if not found or value < _ALIKE * found[-1]:
            found.append(value)
    return found


def _is_near(point: RooflinePoint, top: float, ridge: float) -> bool:
    """What hardly calculates lies decades away, and would leave no room for the others."""
    rate, intensity = point.achieved_flop_per_s or 0.0, point.intensity_flop_per_byte or 0.0
    lowest, highest = ridge / 10.0**_DECADES_BELOW, ridge * 10.0**_DECADES_BEYOND
    return rate >= top / 10.0**_DECADES_BELOW and lowest <= intensity <= highest


def _point(point: RooflinePoint, place: int, longest_ns: int) -> Point:
    bound = str(point.bound or "neither")
    assert point.intensity_flop_per_byte is not None
    assert point.achieved_flop_per_s is not None
    roof = "" if point.roof_ratio is None else f", {format_ratio(point.roof_ratio)} of its roof"
    return Point(
        x=point.intensity_flop_per_byte,
        y=point.achieved_flop_per_s,
        series=_BOUNDS.index(bound) if bound in _BOUNDS else 3,
        size=3.0 + 7.0 * (point.union_ns / (longest_ns or 1)) ** 0.5,
        title=f"{point.name}: {format_si(point.achieved_flop_per_s, 'FLOP/s')}{roof}, {bound}",
        label=point.name if place < _LABELLED else "",
    )
