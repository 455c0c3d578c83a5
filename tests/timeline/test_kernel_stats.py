"""Kernel statistics against a model in plain Python, and the cases worth a name."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from rocktools.errors import ContractError, UsageError
from rocktools.evidence import Evidence
from rocktools.findings import Severity
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, DISPATCHES, SPECS, UNITLESS_SUFFIXES, require_frame
from rocktools.timeline.kernel_stats import (
    DISPATCH_COLUMNS,
    KERNEL_STATS,
    LINK_COLUMNS,
    By,
    KernelStats,
    kernel_stats,
)

BOOT_NS = 13_000_000_000_000_000

Extent = tuple[int | None, int | None, int | None]

# One physical GPU that two processes share, one that only the second sees, one on another host.
DEVICES = {
    ("r", "p0", 4): "host:gpu0",
    ("r", "p1", 4): "host:gpu0",
    ("r", "p1", 5): "host:gpu1",
    ("q", "p2", 4): "other:gpu0",
}


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    kernel: str = "k"
    start: int = 0
    end: int = 10
    run: str = "r"
    process: str = "p0"
    agent_id: int = 4
    stream: int | None = 0
    grid: Extent = (256, 1, 1)
    workgroup: Extent = (64, 1, 1)
    lds: int | None = 0
    scratch: int | None = 0
    vgpr: int | None = 32
    agpr: int | None = 0
    sgpr: int | None = 16
    instruction: str | None = None
    method: str = "none"
    confidence: str = "unlinked"

    @property
    def program(self) -> str | None:
        return None if self.instruction is None else "7"

    @property
    def device(self) -> str:
        return DEVICES[self.run, self.process, self.agent_id]

    @property
    def shape(self) -> tuple[object, ...]:
        return (
            extent_text(self.grid),
            extent_text(self.workgroup),
            *(self.lds, self.scratch, self.vgpr, self.agpr, self.sgpr),
        )


def extent_text(extent: Extent) -> str | None:
    text = "x".join("?" if size is None else str(size) for size in extent)
    return None if text == "?x?x?" else text


def dispatches_frame(rows: Sequence[Dispatch]) -> pd.DataFrame:
    values: dict[str, list[object]] = {
        "run": [row.run for row in rows],
        "process": [row.process for row in rows],
        "dispatch_id": list(range(len(rows))),
        "agent_id": [row.agent_id for row in rows],
        "kernel_name": [row.kernel for row in rows],
        "start_ns": [row.start + BOOT_NS for row in rows],
        "end_ns": [row.end + BOOT_NS for row in rows],
        "stream_id": [row.stream for row in rows],
        "lds_bytes": [row.lds for row in rows],
        "scratch_bytes": [row.scratch for row in rows],
        "vgpr_count": [row.vgpr for row in rows],
        "agpr_count": [row.agpr for row in rows],
        "sgpr_count": [row.sgpr for row in rows],
    }
    for i, axis in enumerate("xyz"):
        values[f"grid_workitems_{axis}"] = [row.grid[i] for row in rows]
        values[f"workgroup_workitems_{axis}"] = [row.workgroup[i] for row in rows]
    names = DISPATCHES.select(DISPATCH_COLUMNS)
    frame = pd.DataFrame({name: pd.Series(values[name], dtype=DISPATCHES.column(name).dtype) for name in names})
    return require_frame(frame, DISPATCHES, DISPATCH_COLUMNS)


def linked_frame(rows: Sequence[Dispatch]) -> pd.DataFrame:
    """Dispatches with what `By.INSTRUCTION` needs; facts of an instruction follow from its name."""
    linked = [row.instruction for row in rows]
    values = {
        "program_id": [row.program for row in rows],
        "instruction": linked,
        "phase": [name and f"phase of {name}" for name in linked],
        "scope": [name and f"scope of {name}" for name in linked],
        "custom_call_target": [None] * len(rows),
        "method": [row.method for row in rows],
        "confidence": [row.confidence for row in rows],
    }
    links = {name: pd.Series(values[name], dtype="category") for name in LINK_COLUMNS}
    return dispatches_frame(rows).assign(**links)


def agents_frame() -> pd.DataFrame:
    rows = [(*key, device) for key, device in DEVICES.items()]
    frame = pd.DataFrame(rows, columns=["run", "process", "agent_id", "device"])
    frame = frame.astype({name: AGENTS.column(name).dtype for name in frame.columns})
    return require_frame(frame, AGENTS, ["device"])


def stats(rows: Sequence[Dispatch], *, by: By = By.KERNEL, match: str | None = None) -> KernelStats:
    frame = linked_frame(rows) if by is By.INSTRUCTION else dispatches_frame(rows)
    return kernel_stats(frame, agents_frame(), by=by, match=match)


def records(result: KernelStats) -> list[dict[str, object]]:
    """The rows as plain Python values, missing as None."""
    columns = {name: result.frame[name].astype(object) for name in result.frame.columns}
    lists = {name: [None if pd.isna(v) else v for v in column] for name, column in columns.items()}
    return [{name: lists[name][i] for name in lists} for i in range(len(result.frame))]


def only_row(result: KernelStats) -> dict[str, object]:
    (row,) = records(result)
    return row


# ---------------------------------------------------------------------------------------------------------- the model


def covered_ns(rows: Sequence[Dispatch]) -> int:
    return len({instant for row in rows for instant in range(row.start, row.end)})


SPLITS = {
    By.KERNEL: lambda row: (),
    By.DEVICE: lambda row: (row.device,),
    By.STREAM: lambda row: (row.device, row.stream),
    By.SHAPE: lambda row: row.shape,
    By.INSTRUCTION: lambda row: (row.program, row.instruction),
}
WEAKEST_LAST = ["annotation", "thunk", "schedule", "name", "none"], ["certain", "likely", "ambiguous", "unlinked"]


def model(rows: Sequence[Dispatch], by: By) -> list[dict[str, object]]:
    """What `kernel_stats` promises, one plain loop per sentence."""
    total = sum(max(0, row.end - row.start) for row in rows)
    groups: dict[tuple[object, ...], list[Dispatch]] = {}
    for row in rows:
        groups.setdefault((row.kernel, *SPLITS[by](row)), []).append(row)
    result = []
    for key, own in groups.items():
        durations = [row.end - row.start for row in own if row.end >= row.start]
        devices = sorted({row.device for row in own})
        unions = [covered_ns([row for row in own if row.device == device]) for device in devices]
        shapes = {row.shape for row in own}
        shown = own[0].shape if len(shapes) == 1 else (None,) * 7
        columns = {
            **dict(zip(KERNEL_STATS[by].key, key, strict=True)),
            "dispatches_count": len(own),
            "total_ns": sum(durations),
            "share_ratio": sum(durations) / total if total else None,
            "union_ns": max(unions),
            "devices_count": len(devices),
            "critical_device": devices[unions.index(max(unions))],
            "mean_ns": sum(durations) / len(durations) if durations else None,
            "median_ns": float(statistics.median(durations)) if durations else None,
            "min_ns": min(durations, default=None),
            "max_ns": max(durations, default=None),
            "variants_count": len(shapes),
            **dict(zip(KERNEL_STATS[By.SHAPE].key[1:], shown, strict=True)),
            "phase": own[0].instruction and f"phase of {own[0].instruction}",
            "scope": own[0].instruction and f"scope of {own[0].instruction}",
            "custom_call_target": None,
            "method": max((row.method for row in own), key=WEAKEST_LAST[0].index),
            "confidence": max((row.confidence for row in own), key=WEAKEST_LAST[1].index),
        }
        result.append({name: columns[name] for name in KERNEL_STATS[by].names})

    def position(row: dict[str, object]) -> tuple[object, ...]:
        splits = [row[name] for name in KERNEL_STATS[by].key]
        return -int(str(row["total_ns"])), *((value is None, value if value is not None else 0) for value in splits)

    return sorted(result, key=position)


def random_dispatches(seed: int, count: int) -> list[Dispatch]:
    """Few kernels, devices, streams and shapes, so that all meet; missing values and backward times among them."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        start = draw.randrange(60)
        run, process, agent_id = draw.choice(list(DEVICES))
        rows.append(
            Dispatch(
                kernel=draw.choice(["gemm", "copy", "fusion_1", "fusion_2"]),
                start=start,
                end=start + draw.choice([-3, 0, 1, 2, 5, 5, 9, 14]),
                run=run,
                process=process,
                agent_id=agent_id,
                stream=draw.choice([None, 1, 2]),
                grid=draw.choice([(256, 1, 1), (512, 1, 1), (512, None, 1), (None, None, None)]),
                workgroup=draw.choice([(64, 1, 1), (64, 1, 1), (None, None, None)]),
                lds=draw.choice([0, 0, 65536, None]),
                vgpr=draw.choice([32, 32, None]),
                instruction=draw.choice(["fusion.1", "fusion.2", None]),
                method=draw.choice(WEAKEST_LAST[0]),
                confidence=draw.choice(WEAKEST_LAST[1]),
            )
        )
    return rows


@pytest.mark.parametrize("by", By, ids=str)
@pytest.mark.parametrize("count", [1, 3, 12, 150])
@pytest.mark.parametrize("seed", range(5))
def test_table_equals_the_model(by: By, count: int, seed: int) -> None:
    rows = random_dispatches(seed, count)
    assert records(stats(rows, by=by)) == model(rows, by)


@pytest.mark.parametrize("by", By, ids=str)
def test_order_of_the_dispatches_does_not_matter(by: By) -> None:
    rows = random_dispatches(7, 80)
    pd.testing.assert_frame_equal(stats(rows, by=by).frame, stats(rows[::-1], by=by).frame)


# ------------------------------------------------------------------------------------------------- time, union, device


def test_dispatches_of_two_processes_on_one_device_are_one_union() -> None:
    """
    p0  gpu0  ##########.....
    p1  gpu0  .....##########
    """
    row = only_row(stats([Dispatch(start=0, end=10, process="p0"), Dispatch(start=5, end=15, process="p1")]))
    assert (row["total_ns"], row["union_ns"], row["devices_count"]) == (20, 15, 1)


def test_union_is_of_the_device_where_it_is_largest_not_over_devices() -> None:
    """
    gpu0  ####...........
    gpu1  .....#####..###
    """
    on_gpu1 = Dispatch(process="p1", agent_id=5)
    rows = [Dispatch(start=0, end=4), replace(on_gpu1, start=5, end=10), replace(on_gpu1, start=12, end=15)]
    row = only_row(stats(rows))
    assert (row["total_ns"], row["union_ns"], row["critical_device"]) == (12, 8, "host:gpu1")


def test_first_label_is_critical_where_devices_are_equal() -> None:
    row = only_row(stats([Dispatch(process="p1", agent_id=5), Dispatch()]))
    assert row["critical_device"] == "host:gpu0"


def test_totals_are_exact_beyond_float() -> None:
    long = 2**53 + 1
    row = only_row(stats([Dispatch(start=-long, end=0), Dispatch(start=0, end=2)]))
    assert row["total_ns"] == long + 2


def test_result_knows_the_busiest_device_and_its_window() -> None:
    """
    gpu0  ####......##...
    gpu1  ...............########   (busier)
    """
    rows = [Dispatch(start=0, end=4), Dispatch(start=10, end=12, kernel="other")]
    rows += [Dispatch(start=15, end=20, process="p1", agent_id=5), Dispatch(start=19, end=23, process="p1", agent_id=5)]
    result = stats(rows)
    assert (result.critical_device, result.union_ns, result.window_ns) == ("host:gpu1", 8, 8)


def test_totals_of_the_rows_add_up_to_the_total() -> None:
    for by in By:
        result = stats(random_dispatches(3, 100), by=by)
        assert result.frame["total_ns"].sum() == result.total_ns


def test_equal_totals_are_in_the_order_of_the_name() -> None:
    rows = [Dispatch(kernel=kernel, start=i * 10, end=i * 10 + 5) for i, kernel in enumerate(["b", "c", "a"])]
    assert [row["kernel_name"] for row in records(stats(rows))] == ["a", "b", "c"]


def test_evidence_is_measured() -> None:
    assert stats([Dispatch()]).evidence is Evidence.MEASURED


# ------------------------------------------------------------------------------------------------------ what is missing


def test_dispatch_that_ends_before_it_starts_is_counted_but_gives_no_time() -> None:
    row = only_row(stats([Dispatch(start=0, end=10), Dispatch(start=50, end=20)]))
    assert (row["dispatches_count"], row["total_ns"], row["union_ns"], row["min_ns"]) == (2, 10, 10, 10)


def test_dispatches_that_end_before_they_start_are_reported_with_their_number() -> None:
    result = stats([Dispatch(start=0, end=10), Dispatch(start=50, end=20), Dispatch(start=50, end=21)])
    (finding,) = result.findings
    assert (finding.rule, finding.severity) == ("negative-duration", Severity.WARNING)
    assert finding.numbers == {"negative_dispatches_count": 2, "dispatches_count": 3}
    assert "p0, dispatch 1" in finding.where


def test_kernel_without_any_time_has_no_mean_instead_of_zero() -> None:
    row = only_row(stats([Dispatch(start=50, end=20)]))
    assert [row[name] for name in ("mean_ns", "median_ns", "min_ns", "max_ns", "share_ratio")] == [None] * 5


def test_empty_dispatch_has_a_time_of_zero() -> None:
    row = only_row(stats([Dispatch(start=5, end=5), Dispatch(start=5, end=9)]))
    assert (row["min_ns"], row["mean_ns"]) == (0, 2.0)


def test_dispatches_without_a_stream_are_a_row_of_their_own() -> None:
    rows = [Dispatch(stream=None), Dispatch(stream=1), Dispatch(stream=None)]
    counts = {row["stream_id"]: row["dispatches_count"] for row in records(stats(rows, by=By.STREAM))}
    assert counts == {None: 2, 1: 1}


def test_unrecorded_shape_is_a_variant_of_its_own() -> None:
    rows = [Dispatch(lds=None), Dispatch(lds=0)]
    assert {row["lds_bytes"] for row in records(stats(rows, by=By.SHAPE))} == {None, 0}


@pytest.mark.parametrize("by", By, ids=str)
def test_no_dispatches_make_an_empty_table(by: By) -> None:
    result = stats([], by=by)
    assert require_frame(result.frame, KERNEL_STATS[by]).empty
    assert (result.dispatches_count, result.total_ns, result.critical_device, result.window_ns) == (0, 0, None, 0)


def test_agent_that_is_not_listed_is_a_device_of_its_own_and_reported() -> None:
    frame = dispatches_frame([Dispatch(), Dispatch()]).assign(agent_id=np.array([4, 77]))
    result = kernel_stats(frame, agents_frame())
    assert only_row(result)["devices_count"] == 2
    assert [finding.rule for finding in result.findings] == ["unknown-agent"]
    assert "p0:agent77" in result.findings[0].message


def test_stream_number_that_two_processes_use_on_one_device_is_reported() -> None:
    result = stats([Dispatch(process="p0", stream=1), Dispatch(process="p1", stream=1)], by=By.STREAM)
    assert [finding.rule for finding in result.findings] == ["stream-id-shared"]


def test_stream_number_of_one_process_is_not_reported() -> None:
    assert stats([Dispatch(stream=1), Dispatch(stream=1), Dispatch(stream=2)], by=By.STREAM).findings == ()


# --------------------------------------------------------------------------------------------------------------- shapes


def test_kernel_with_one_variant_shows_its_shape() -> None:
    row = only_row(stats([Dispatch(grid=(65536, 1, 1), vgpr=128), Dispatch(grid=(65536, 1, 1), vgpr=128)]))
    assert (row["variants_count"], row["grid_workitems"], row["vgpr_count"]) == (1, "65536x1x1", 128)


def test_kernel_with_several_variants_shows_no_shape() -> None:
    row = only_row(stats([Dispatch(grid=(64, 1, 1)), Dispatch(grid=(128, 1, 1))]))
    assert (row["variants_count"], row["grid_workitems"], row["vgpr_count"]) == (2, None, None)


@pytest.mark.parametrize(
    "other",
    [
        Dispatch(grid=(256, 1, 2)),
        Dispatch(workgroup=(128, 1, 1)),
        Dispatch(lds=512),
        Dispatch(scratch=16),
        Dispatch(vgpr=33),
        Dispatch(agpr=1),
        Dispatch(sgpr=17),
    ],
    ids=["grid", "workgroup", "lds", "scratch", "vgpr", "agpr", "sgpr"],
)
def test_any_difference_in_shape_is_another_variant(other: Dispatch) -> None:
    assert len(stats([Dispatch(), other], by=By.SHAPE).frame) == 2


def test_variants_are_told_apart_where_their_codes_do_not_fit_into_one_integer() -> None:
    """With 63 values in each of the eleven columns, a 16th value of the first one weighs 2**64: it would wrap to 0."""

    def variant(first: int, others: int) -> Dispatch:
        extent = (others, others, others)
        grid = (first, others, others)
        sizes = dict.fromkeys(("lds", "scratch", "vgpr", "agpr", "sgpr"), others)
        return Dispatch(grid=grid, workgroup=extent, **sizes)

    rows = [variant(value, value) for value in range(63)] + [variant(1, 0), variant(17, 0)]
    assert only_row(stats(rows))["variants_count"] == 65


# ---------------------------------------------------------------------------------------------------------------- match


def test_match_keeps_names_that_contain_the_expression() -> None:
    rows = [Dispatch(kernel=name) for name in ("gemm_f32", "gemm_bf16", "copy")]
    assert [row["kernel_name"] for row in records(stats(rows, match="gemm_.*16$"))] == ["gemm_bf16"]


def test_share_is_of_all_dispatches_also_those_left_out() -> None:
    rows = [Dispatch(kernel="gemm", end=30), Dispatch(kernel="copy", end=10)]
    assert only_row(stats(rows, match="gemm"))["share_ratio"] == 0.75


def test_totals_of_the_result_do_not_depend_on_match() -> None:
    rows = random_dispatches(5, 60)
    everything, part = stats(rows), stats(rows, match="gemm")
    assert (part.dispatches_count, part.total_ns, part.union_ns, part.window_ns) == (
        *(everything.dispatches_count, everything.total_ns, everything.union_ns, everything.window_ns),
    )


def test_matched_rows_are_the_same_as_without_match() -> None:
    rows = random_dispatches(6, 60)
    wanted = [row for row in records(stats(rows)) if "fusion" in str(row["kernel_name"])]
    assert records(stats(rows, match="fusion")) == wanted


def test_match_that_finds_nothing_makes_an_empty_table_and_a_finding() -> None:
    result = stats([Dispatch(kernel="gemm")], match="gmem")
    assert result.frame.empty
    assert [finding.rule for finding in result.findings] == ["no-kernel-matched"]


@pytest.mark.parametrize("match", ["(", "*gemm", "[a"])
def test_match_that_is_no_regular_expression_is_refused(match: str) -> None:
    with pytest.raises(UsageError, match="bad-regex") as caught:
        stats([Dispatch()], match=match)
    assert repr(match) in caught.value.what


# ------------------------------------------------------------------------------------------------------------ contracts


def test_counted_dispatches_are_refused() -> None:
    with pytest.raises(ContractError, match="start_ns"):
        kernel_stats(COUNTED_DISPATCHES.empty(), AGENTS.empty())


@pytest.mark.parametrize("by", By, ids=str)
def test_inputs_stay_as_they_were(by: By) -> None:
    rows = random_dispatches(9, 40)
    dispatches, agents = linked_frame(rows), agents_frame()
    kernel_stats(dispatches, agents, by=by, match="f")
    pd.testing.assert_frame_equal(dispatches, linked_frame(rows))
    pd.testing.assert_frame_equal(agents, agents_frame())


def test_categories_that_no_dispatch_uses_make_no_rows() -> None:
    frame = dispatches_frame([Dispatch(kernel="a"), Dispatch(kernel="b")]).iloc[:1]
    assert [row["kernel_name"] for row in records(kernel_stats(frame, agents_frame()))] == ["a"]


@pytest.mark.parametrize("by", By, ids=str)
def test_every_number_of_the_table_has_a_unit(by: By) -> None:
    for column in KERNEL_STATS[by].columns:
        is_number = column.dtype in ("int64", "Int64", "float64")
        assert not is_number or column.unit is not None or column.name.endswith(UNITLESS_SUFFIXES)


@pytest.mark.parametrize("by", By, ids=str)
def test_key_and_sort_columns_of_the_table_exist(by: By) -> None:
    spec = KERNEL_STATS[by]
    assert {*spec.key, *spec.sort} <= set(spec.names)


def test_tables_have_names_of_their_own() -> None:
    names = Counter(spec.name for spec in (*KERNEL_STATS.values(), *SPECS.values()))
    assert max(names.values()) == 1
