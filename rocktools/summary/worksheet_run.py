"""The rows of a run -> what a summary does not keep of each component and phase: exact points, launches, counters.

Each component in each phase is one name of a roofline of its own: FLOPs and bytes of its executions over the union of
their intervals, by the compiler's estimates and, where the job was counted, by counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.analytic.occurrences import Workload, count_rows, sum_counts
from rocktools.devices.device import Device, Level
from rocktools.errors import RocktoolsError
from rocktools.frames import DISPATCHES
from rocktools.hlo.module import HloModule
from rocktools.intervals import union_length
from rocktools.roofline.points import build_roofline
from rocktools.roofline.work import WorkOrigin
from rocktools.summary.document import Missing, OverlapBlock, Summary
from rocktools.summary.gathered import Timed
from rocktools.summary.rows import plain_value
from rocktools.summary.worksheet_document import Place
from rocktools.summary.worksheet_facts import ComponentFacts, Expected, Key, LaunchFacts, Work
from rocktools.timeline.grouping import match_rows
from rocktools.workspace.counted_work import lay_on_trace, quantities_of
from rocktools.workspace.estimated_work import By, estimate_work
from rocktools.workspace.metrics import Metrics

_SEPARATOR = "\x1f"
_GEOMETRY = (
    *(f"grid_workitems_{axis}" for axis in "xyz"),
    *(f"workgroup_workitems_{axis}" for axis in "xyz"),
    *("lds_bytes", "scratch_bytes", "vgpr_count", "agpr_count", "sgpr_count"),
)
_AT_MOST_GEOMETRIES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRows:
    """What is at hand of a run.

    Attributes:
        timed: what ran, and the part that counts.
        metrics: of counter passes of the job; None where it was not counted.
        device: whose ceilings; None where they are not known.
        workload: what must be found how often; None where none was given.
    """

    timed: Timed
    metrics: Metrics | None
    device: Device | None
    workload: Workload | None


def choose_place(summary: Summary) -> Place | None:
    """A complete step, next to the median, on the device with most busy time."""
    steps, overlap = summary.steps, summary.overlap
    if isinstance(steps, Missing) or isinstance(overlap, Missing) or not overlap.devices:
        return None
    critical = _critical_device(overlap)
    counted = [each for each in steps.series if each.is_counted and each.run == critical[0]]
    if not counted:
        return None
    middle = float(np.median([each.duration_ns for each in counted]))
    chosen = min(counted, key=lambda each: (abs(each.duration_ns - middle), each.step_index))
    return Place(run=critical[0], device=critical[1], step_index=chosen.step_index, step_number=chosen.step_number)


def _critical_device(overlap: OverlapBlock) -> tuple[str, str]:
    busiest = max(overlap.devices, key=lambda each: (each.busy_ns, each.device))
    return busiest.run, busiest.device


def refine_facts(
    facts: Mapping[Key, ComponentFacts], run: RunRows, place: Place | None, places_count: int
) -> dict[Key, ComponentFacts]:
    """The facts with what the rows say."""
    rows = run.timed.rows
    keyed = _keyed(rows)
    estimated = _points(run, keyed, counters=False)
    counted = _points(run, keyed, counters=True) if run.metrics is not None else {}
    sent = _sent_bytes(run, keyed, places_count)
    moved = _read_and_written(run, rows)
    launches = _launches(run.timed, rows, place) if place is not None else {}
    expected = _expected(run.workload, rows, run.timed.steps) if run.workload is not None else {}
    modules = {
        (label, each.program_id): each.program.module
        for label, programs in run.timed.runs.programs.items()
        for each in programs
    }
    refined = {}
    for key, each in facts.items():
        read, written = moved.get(key, (None, None))
        refined[key] = replace(
            each,
            estimated=_per_place(estimated.get(key), places_count) or _without_points(each, estimated, run),
            counted=_per_place(counted.get(key), places_count),
            sent_bytes=sent.get(key),
            read_bytes=None if read is None else read / places_count,
            written_bytes=None if written is None else written / places_count,
            launches=launches.get(key),
            operands=_operands(each, modules),
            loop_count=_loop_count(each, run.timed),
            expected=tuple(expected.get(key, ())),
            has_workload=run.workload is not None,
        )
    return refined


def _without_points(facts: ComponentFacts, points: Mapping[Key, Work], run: RunRows) -> Work | None:
    """Estimates without ceilings, where nobody knows which device it was."""
    if points or facts.estimated is None:
        return None
    if run.device is not None:
        return facts.estimated
    return replace(facts.estimated, refusal="which part the GPU is, is not known: --part PART")


def _keyed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose component is phase and component: what `By.COMPONENT` makes a point of."""
    names = rows["phase"].astype(str) + _SEPARATOR + rows["component"].astype(str)
    return rows.assign(component=names.astype("category"))


def _key_of(name: str) -> Key:
    phase, _, component = name.partition(_SEPARATOR)
    return phase, component


def _points(run: RunRows, keyed: pd.DataFrame, *, counters: bool) -> dict[Key, Work]:
    """Points of components in phases; {} where nothing is known."""
    try:
        if counters:
            assert run.metrics is not None
            frame = run.metrics.frame
            wanted = frame[frame["quantity"].isin(quantities_of(Level.HBM)).to_numpy()].reset_index(drop=True)
            work, origin, _ = lay_on_trace(wanted, keyed, level=Level.HBM, by=By.COMPONENT)
        else:
            work, origin = estimate_work(run.timed.runs, keyed, level=Level.HBM, by=By.COMPONENT)
        if run.device is None:
            return {}
        points = build_roofline(work, run.device, origin).points
    except RocktoolsError:
        return {}
    return {
        _key_of(str(row["name"])): _work({str(name): plain_value(value) for name, value in row.items()}, origin)
        for row in points.to_dict("records")
    }


def _work(row: Mapping[str, object], origin: WorkOrigin) -> Work:
    """A point of ROOFLINE, over all places."""

    def number(name: str) -> float | None:
        value = row[name]
        return float(value) if isinstance(value, (int, float)) else None

    return Work(
        flop=number("compute_flop"),
        moved_bytes=number("moved_bytes"),
        union_ns=number("union_ns") or 0.0,
        covered_ratio=number("covered_ratio"),
        intensity=number("intensity_flop_per_byte"),
        roof_ratio=number("roof_ratio"),
        peak_ratio=number("peak_ratio"),
        bandwidth_ratio=number("bandwidth_ratio"),
        peak_flop_per_s=number("peak_flop_per_s"),
        bandwidth_bytes_per_s=number("bandwidth_bytes_per_s"),
        ridge=number("ridge_flop_per_byte"),
        bound=None if row["bound"] is None else str(row["bound"]),
        mix=None if row["mix"] is None else str(row["mix"]),
        label=origin.bytes_label,
        flop_evidence=origin.flop_evidence,
        bytes_evidence=origin.bytes_evidence,
        is_exact_union=True,
        refusal="" if row["refusal"] is None else str(row["refusal"]),
    )


def _per_place(work: Work | None, places_count: int) -> Work | None:
    if work is None:
        return None
    return replace(
        work,
        flop=None if work.flop is None else work.flop / places_count,
        moved_bytes=None if work.moved_bytes is None else work.moved_bytes / places_count,
        union_ns=work.union_ns / places_count,
    )


def _sent_bytes(run: RunRows, keyed: pd.DataFrame, places_count: int) -> dict[Key, float]:
    """What collectives send at least, per place."""
    is_collective = (keyed["activity"] == "communication").to_numpy()
    try:
        work, _ = estimate_work(
            run.timed.runs, keyed[is_collective].reset_index(drop=True), level=Level.NETWORK, by=By.COMPONENT
        )
    except RocktoolsError:
        return {}
    known = work[work["moved_bytes"].notna().to_numpy()].astype({"name": str})
    sums = known.groupby("name")["moved_bytes"].sum()
    return {_key_of(str(name)): float(value) / places_count for name, value in sums.items()}


def _read_and_written(run: RunRows, rows: pd.DataFrame) -> dict[Key, tuple[float, float]]:
    """Counted bytes read and written, over all places; of components all of whose compute kernels were counted."""
    if run.metrics is None:
        return {}
    frame = run.metrics.frame
    means = {}
    for quantity in ("fabric_read_bytes", "fabric_write_bytes"):
        mine = frame[(frame["quantity"] == quantity).to_numpy() & frame["value"].notna().to_numpy()]
        weights = mine["dispatches_count"].astype("float64")
        totals = (mine["value"] * weights).groupby(mine["kernel_name"].astype(str)).sum()
        means[quantity] = totals / weights.groupby(mine["kernel_name"].astype(str)).sum()
    compute = rows[(rows["activity"] == "compute").to_numpy() & (rows["kind"] == "dispatch").to_numpy()]
    names = compute["name"].astype(str).to_numpy()
    read = means["fabric_read_bytes"].reindex(names).to_numpy(dtype=np.float64)
    written = means["fabric_write_bytes"].reindex(names).to_numpy(dtype=np.float64)
    keys = [compute["phase"].astype(str).to_numpy(), compute["component"].astype(str).to_numpy()]
    sums = pd.DataFrame({"read": read, "written": written}).groupby(keys).sum(min_count=1)
    whole = pd.DataFrame({"read": read, "written": written}).isna().groupby(keys).any()
    return {
        (str(key[0]), str(key[1])): (float(row["read"]), float(row["written"]))
        for key, row in sums.iterrows()
        if not whole.loc[key].any()
    }


def _launches(timed: Timed, rows: pd.DataFrame, place: Place) -> dict[Key, LaunchFacts]:
    """Dispatches of one step on one device, and unions over all its steps."""
    is_device = ((rows["run"] == place.run) & (rows["device"] == place.device)).to_numpy()
    mine = rows[is_device].reset_index(drop=True)
    steps_count = max(1, mine["step_index"].nunique())
    unions: dict[Key, float] = {}
    for (phase, component), own in mine.groupby(["phase", "component"], observed=True):
        total = sum(
            union_length(each["start_ns"].to_numpy(), each["end_ns"].to_numpy())
            for _, each in own.groupby("step_index", observed=True)
        )
        unions[str(phase), str(component)] = total / steps_count
    here = mine[(mine["step_index"] == place.step_index).to_numpy()].reset_index(drop=True)
    keys = pd.DataFrame({"run": here["run"], "process": here["process"], "dispatch_id": here["event_id"]}, copy=False)
    dispatches = timed.runs.dispatches
    at = match_rows(keys, dispatches, DISPATCHES.key)
    at = np.where((here["kind"] == "dispatch").to_numpy(), at, -1)
    found = {
        (str(phase), str(component)): _of_step(own, dispatches, at[own.index.to_numpy()], unions)
        for (phase, component), own in here.groupby(["phase", "component"], observed=True)
    }
    for key, mean in unions.items():
        if key not in found:
            found[key] = replace(_NOWHERE, union_mean_ns=mean)
    return found


_NOWHERE = LaunchFacts(
    union_ns=0,
    sum_ns=0,
    union_mean_ns=0.0,
    dispatch_ids=(),
    first_start_ns=None,
    last_end_ns=None,
    kernels={},
    geometry=(),
)


def _of_step(
    own: pd.DataFrame, dispatches: pd.DataFrame, at: npt.NDArray[np.int64], unions: Mapping[Key, float]
) -> LaunchFacts:
    is_dispatch = (own["kind"] == "dispatch").to_numpy()
    start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
    key = str(own["phase"].iloc[0]), str(own["component"].iloc[0])
    launched = own[is_dispatch]
    kernels = launched["name"].astype(str).value_counts()
    return LaunchFacts(
        union_ns=int(union_length(start, end)),
        sum_ns=int(np.maximum(end - start, 0).sum()),
        union_mean_ns=unions[key],
        dispatch_ids=tuple(int(each) for each in np.sort(launched["event_id"].to_numpy())),
        first_start_ns=int(start.min()),
        last_end_ns=int(end.max()),
        kernels={str(name): int(count) for name, count in kernels.items()},
        geometry=_geometry(dispatches.iloc[at[is_dispatch & (at >= 0)]]),
    )


def _geometry(launched: pd.DataFrame) -> tuple[str, ...]:
    """Each kernel with each of its shapes, the longest in all first."""
    if launched.empty:
        return ()
    names = ["kernel_name", *_GEOMETRY]
    durations = (launched["end_ns"] - launched["start_ns"]).clip(lower=0)
    grouped = durations.groupby([launched[name].astype(object).where(launched[name].notna(), None) for name in names],
                                dropna=False).sum()  # fmt: skip
    texts = []
    for values, _ in sorted(grouped.items(), key=lambda item: (-int(item[1]), str(item[0]))):
        assert isinstance(values, tuple)
        texts.append(_shape_text([plain_value(value) for value in values]))
    more = len(texts) - _AT_MOST_GEOMETRIES
    return (*texts[:_AT_MOST_GEOMETRIES], *((f"and {more} more",) if more > 0 else ()))


def _shape_text(values: Sequence[object]) -> str:
    """`name: grid 256x1x1, workgroup 64x1x1, LDS 0, scratch 0, VGPR 24, AGPR 0, SGPR 96`."""

    def joined(part: Sequence[object]) -> str:
        known = [str(int(each)) for each in part if isinstance(each, (int, float))]
        return "x".join(known) or "unknown"

    name, grid, group = values[0], joined(values[1:4]), joined(values[4:7])
    rest = [
        f"{label} {int(value)}"
        for label, value in zip(("LDS", "scratch", "VGPR", "AGPR", "SGPR"), values[7:], strict=True)
        if isinstance(value, (int, float))
    ]
    return ", ".join([f"{name}: grid {grid}", f"workgroup {group}", *rest])


def _operands(facts: ComponentFacts, modules: Mapping[tuple[str, str], HloModule]) -> str | None:
    """Operands of the longest compute instruction, and its sharding where the program still says one."""
    for each in facts.of("compute") or facts.operations:
        module = None if each.program_id is None else modules.get((each.run, each.program_id))
        instruction = None if module is None or each.instruction is None else module.instructions.get(each.instruction)
        if module is None or instruction is None:
            continue
        shapes = [str(module.instructions[name].shape) for name in instruction.operands if name in module.instructions]
        sharding = instruction.attributes.get("sharding")
        text = f"{instruction.name}({', '.join(shapes)}) -> {instruction.shape}"
        return f"{text}, sharding {sharding}" if sharding else text
    return None


def _loop_count(facts: ComponentFacts, timed: Timed) -> int | None:
    """Executions of its compute instructions in one run of the program, by the trip counts of loops."""
    names = {(each.program_id, each.instruction) for each in facts.of("compute") if each.instruction is not None}
    if not names or len({program for program, _ in names}) != 1:
        return None
    table = timed.runs.instructions
    program = next(iter(names))[0]
    wanted = {instruction for _, instruction in names}
    mine = table[(table["program_id"] == program).to_numpy() & table["instruction"].isin(wanted).to_numpy()]
    counts = mine.drop_duplicates("instruction")["calls_count"]
    if len(counts) < len(wanted) or counts.isna().any():
        return None
    return int(counts.sum())


def _expected(workload: Workload, rows: pd.DataFrame, steps: pd.DataFrame) -> dict[Key, list[Expected]]:
    """Expectations of the workload, with the component and phase that most of what they count is in."""
    steps_count = max(1, len(steps[["run", "step_index"]].drop_duplicates()))
    found: dict[Key, list[Expected]] = {}
    for expectation in workload.expectations:
        alone = replace(workload, expectations=(expectation,))
        (occurrence,) = sum_counts(count_rows(rows, alone), alone, steps_count=steps_count)
        key = _key_of_expectation(rows, alone)
        if key is None:
            continue
        devices = len(occurrence.found) or 1
        found.setdefault(key, []).append(
            Expected(
                title=expectation.title,
                expected_count=workload.expected_per_step(expectation),
                found_count=occurrence.found_count / devices / steps_count,
                is_met=occurrence.is_met,
            )
        )
    return found


def _key_of_expectation(rows: pd.DataFrame, workload: Workload) -> Key | None:
    """Where what it counts is booked; by what it names where nothing is counted."""
    best: tuple[int, Key] | None = None
    keys = rows[["phase", "component"]].drop_duplicates().astype(str)
    (expectation,) = workload.expectations
    for phase, component in sorted(zip(keys["phase"], keys["component"], strict=True)):
        if expectation.phase not in ("", phase) or expectation.component not in ("", component):
            continue
        own = rows[((rows["phase"] == phase) & (rows["component"] == component)).to_numpy()]
        counted = int(count_rows(own.reset_index(drop=True), workload)["rows_count"].sum())
        if counted and (best is None or counted > best[0]):
            best = counted, (phase, component)
    if best is not None:
        return best[1]
    return (expectation.phase, expectation.component) if expectation.phase and expectation.component else None
