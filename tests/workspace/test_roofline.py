"""Rooflines of whole runs: costs are counted once for each execution, devices are told by facts, counters by kernel."""

from __future__ import annotations

import collections

import numpy as np
import pandas as pd
import pytest
from mixtral_program import mixtral_program
from tiny_program import build_tiny
from tiny_run import tiny_trace, write_tiny_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import simulate
from rocktools.demo.simulated_database import write_simulated_trace
from rocktools.devices.device import Level
from rocktools.errors import InputError, NothingToRead, UsageError
from rocktools.evidence import Evidence
from rocktools.frames import AGENTS
from rocktools.hlo.instructions import build_instructions
from rocktools.roofline.points import PointOptions
from rocktools.workspace.attributed import AttributionOptions
from rocktools.workspace.counted import read_counted_runs
from rocktools.workspace.counted_work import lay_on_trace, quantities_of
from rocktools.workspace.estimated_work import By
from rocktools.workspace.metrics import read_metrics
from rocktools.workspace.roofline import RooflineOptions, Source, build_run_roofline
from rocktools.workspace.used_device import DeviceOptions, choose_device

FUSION_FLOP, FUSION_BYTES = 64 * 128, 2 * 64 * 128 * 4  # a negation of f32[64,128]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roofline") / "run"
    trace = tiny_trace(steps_count=2)
    return write_tiny_run(folder, trace=trace), trace


def _build(paths, *, hlo=(), **options):
    attribution = AttributionOptions(component_map=read_shipped_map(), hlo=hlo)
    return build_run_roofline(paths, attribution, RooflineOptions(**options), lambda runs: runs.rows)


def _points(*arguments, **options):
    return _build(*arguments, **options).roofline.points.set_index("name")


def test_every_execution_of_an_instruction_is_counted_once(run):
    folder, trace = run
    points = _points([folder], by=By.INSTRUCTION)
    truth = trace.truth["instruction"].value_counts()
    fusions = [name for name in points.index if "fusion" in name or "wrapped" in name]
    assert len(fusions) > 8
    for name in fusions:
        executions = int(truth[name])  # of these, each launches one kernel
        assert points.at[name, "compute_flop"] == executions * FUSION_FLOP, name
        assert points.at[name, "moved_bytes"] == executions * FUSION_BYTES, name


def test_kernels_and_components_share_the_same_totals(run):
    folder, _ = run
    totals = {by: _points([folder], by=by)[["compute_flop", "moved_bytes"]].sum().tolist() for by in By}
    assert totals[By.KERNEL] == totals[By.INSTRUCTION] == totals[By.COMPONENT]


def test_time_is_that_of_the_trace(run):
    folder, trace = run
    points = _points([folder], by=By.KERNEL)
    rows = trace.dispatches[(trace.dispatches["kernel_name"] == "input_reduce_fusion_1").to_numpy()]
    assert points.at["input_reduce_fusion_1", "sum_ns"] == int((rows["end_ns"] - rows["start_ns"]).sum())


def test_library_calls_without_a_rule_are_left_out_and_never_free(run):
    folder, _ = run
    points = _points([folder], by=By.INSTRUCTION)
    assert points.at["custom-call.2", "refusal"] == "neither FLOPs nor bytes are known"


def test_simulated_runs_stay_simulated_and_estimates_are_labelled(run):
    built = _build([run[0]])
    assert built.is_simulated
    assert built.roofline.origin.flop_evidence is Evidence.COMPILER_ESTIMATE
    assert built.roofline.origin.sentence.startswith("FLOPs and bytes: compiler estimate")
    assert built.roofline.device.label == "MI355X SPX/NPS1"


@pytest.mark.parametrize("level", [Level.L2, Level.LDS])
def test_levels_that_the_program_does_not_know_are_refused(run, level):
    with pytest.raises(UsageError, match="level-without-bytes"):
        _build([run[0]], level=level)


def test_counters_that_are_not_there_are_refused(run):
    with pytest.raises(UsageError, match="no-counters-for-roofline"):
        _build([run[0]], source=Source.COUNTERS)


def test_without_a_program_there_are_no_estimates(tmp_path):
    write_simulated_trace(tiny_trace(steps_count=1), tmp_path / "a_results.db")
    with pytest.raises(NothingToRead, match="no-instruction-for-roofline"):
        _build([tmp_path / "a_results.db"])


def test_unknown_component_lists_those_that_are_there(run):
    with pytest.raises(UsageError, match="unknown-component"):
        _build([run[0]], component="expert_mlpp")


MISMATCHES = [
    ({"part": "MI300X"}, "architecture asked for"),
    ({"part": "MI355X", "partition": "CPX"}, "number of XCDs asked for"),
    ({"partition": "DPX"}, "partition asked for"),
]


@pytest.mark.parametrize("said, message", MISMATCHES)
def test_peaks_of_another_part_or_partition_are_refused(run, said, message):
    with pytest.raises(UsageError, match=message):
        _build([run[0]], device=DeviceOptions(**said))


def test_format_that_was_asked_for_refuses_the_others(run):
    points = _points([run[0]], points=PointOptions(dtype="bf16"))
    assert points["refusal"].notna().all()


def _agents(**facts):
    usual = {
        "run": "r", "process": "p", "agent_id": 1, "device": "host0:gpu0", "node_id": 0, "kind": "GPU",
        "absolute_index": 1, "type_index": 0, "arch": "gfx950", "product": "", "xcc_count": 8, "cu_count": 256,
        "simd_per_cu_count": 4, "wave_workitems": 64, "lds_per_cu_bytes": 1, "max_engine_hz": 2_400_000_000,
    }  # fmt: skip
    frame = pd.DataFrame([{**usual, **facts}])
    return frame.astype({column.name: column.dtype for column in AGENTS.columns})


USED = pd.DataFrame({"run": ["r"], "device": ["host0:gpu0"]})


def test_ambiguous_and_unknown_devices_ask_for_the_part():
    for facts, reference in (
        ({"max_engine_hz": pd.NA}, "device-ambiguous"),
        ({"arch": "gfx1100"}, "device-unknown"),
        ({"device": "host0:gpu1"}, "device-unknown"),
    ):
        with pytest.raises(InputError, match=reference) as raised:
            choose_device(_agents(**facts), USED, DeviceOptions())
        assert "--part" in str(raised.value.hint)
    device, _ = choose_device(_agents(max_engine_hz=pd.NA), USED, DeviceOptions(part="MI350X"))
    assert device.label == "MI350X SPX/NPS1"


def test_partition_comes_from_the_recorded_units():
    device, _ = choose_device(_agents(xcc_count=1, cu_count=32), USED, DeviceOptions(partition="cpx"))
    assert device.label == "MI355X CPX/NPS1"


def test_devices_of_several_kinds_are_refused():
    agents = pd.concat([_agents(), _agents(process="q", max_engine_hz=2_200_000_000)], ignore_index=True)
    with pytest.raises(InputError, match="devices-differ"):
        choose_device(agents, USED, DeviceOptions())


# Counters.


def _quantities(kernel="k", *, executions=2, low=1.0, high=1.0, **values):
    wanted = dict.fromkeys(quantities_of(Level.HBM), 0.0) | values
    return pd.DataFrame(
        [
            {
                "run": "r", "role": "process 0", "device_index": 0, "kernel_name": kernel, "ordinal": pd.NA,
                "quantity": name, "value": value, "evidence": "counter", "dispatches_count": executions,
                "min_value": value * low, "max_value": value * high,
            }
            for name, value in wanted.items()
        ]
    )  # fmt: skip


def _rows(*kernels):
    return pd.DataFrame(
        {
            "run": "r", "device": "host0:gpu0", "kind": "dispatch", "activity": "compute", "name": list(kernels),
            "component": "c", "instruction": "i", "program_id": "1",
            "start_ns": 1000 * np.arange(len(kernels)), "end_ns": 1000 * np.arange(len(kernels)) + 500,
        }
    )  # fmt: skip


def test_counted_means_are_laid_on_every_execution_of_the_trace():
    values = {"fabric_bytes": 1000.0, "total_flop": 300.0, "mfma_flop_bf16": 256.0, "valu_flop_f32": 44.0}
    work, origin, findings = lay_on_trace(
        _quantities(**values), _rows("k", "other", "k", "k"), level=Level.HBM, by=By.KERNEL
    )
    mine = work[(work["name"] == "k").to_numpy()]
    by_kind = mine.groupby(["unit", "dtype"], observed=True)["compute_flop"].sum()
    assert by_kind.to_dict() == {("matrix", "bf16"): 3 * 256, ("vector", "f32"): 3 * 44}
    assert (int(mine["moved_bytes"].sum()), int(mine["is_execution"].sum())) == (3000, 3)
    assert not work[(work["name"] == "other").to_numpy()]["is_counted"].any()
    assert origin.bytes_label.startswith("fabric, >= HBM")
    assert (origin.flop_evidence, origin.time_source) == (Evidence.COUNTER, "trace")
    assert [finding.rule for finding in findings] == ["counted-and-traced-differ"]


def test_missing_total_is_unknown_and_not_zero():
    work, _, _ = lay_on_trace(
        _quantities(fabric_bytes=1000.0, total_flop=float("nan")), _rows("k", "k"), level=Level.HBM, by=By.KERNEL
    )
    assert not work["is_counted"].any()
    assert work["compute_flop"].isna().all()


@pytest.mark.parametrize("high, is_certain", [(1.01, True), (2.0, False)])
def test_kernels_whose_executions_differ_say_nothing_certain_about_components(high, is_certain):
    quantities = _quantities(fabric_bytes=1000.0, total_flop=1.0, high=high)
    by_component, _, _ = lay_on_trace(quantities, _rows("k", "k"), level=Level.HBM, by=By.COMPONENT)
    by_kernel, _, _ = lay_on_trace(quantities, _rows("k", "k"), level=Level.HBM, by=By.KERNEL)
    assert by_component["is_certain"].all() == is_certain
    assert by_kernel["is_certain"].all()


def test_trace_without_a_counted_kernel_is_refused():
    with pytest.raises(NothingToRead, match="no-counted-kernel-in-trace"):
        lay_on_trace(_quantities("a"), _rows("b"), level=Level.HBM, by=By.KERNEL)


def test_no_counter_counts_the_network():
    with pytest.raises(UsageError, match="level-without-counters"):
        quantities_of(Level.NETWORK)


# Real files.


def test_published_counters_of_a_copy_give_its_bytes_over_the_times_of_the_pass(shared):
    """vcopy moves 16 MiB at least: 3 executions, whose times the raw file of the first pass has."""
    path = shared / "data/counters/workloads/vcopy-MI300X-rocpd"
    built = _build([path], is_pass_time_allowed=True).roofline
    [point] = built.points.to_dict("records")
    numbered = read_counted_runs([path]).numbered
    first = numbered[(numbered["pass"] == numbered["pass"].min()).to_numpy()]
    assert point["union_ns"] == int((first["pass_end_ns"] - first["pass_start_ns"]).sum())
    assert point["moved_bytes"] == pytest.approx(3 * 16 * 2**20, rel=2e-3)
    assert (point["compute_flop"], built.device.part) == (0, "MI300X")
    assert "times-of-a-counter-pass" in [finding.rule for finding in built.findings]
    assert "device-by-name" in [finding.rule for finding in built.findings]


def test_counters_and_trace_of_one_kernel_meet(shared):
    """The same counters on a made trace in which the copy ran four times: bytes and times are both of the trace."""
    path = shared / "data/counters/workloads/vcopy-MI300X-rocpd"
    metrics = read_metrics([path], quantities=quantities_of(Level.L2))
    kernel = "vecCopy(double*, double*, double*, int, int)"
    work, _, _ = lay_on_trace(metrics.frame, _rows(*[kernel] * 4), level=Level.L2, by=By.KERNEL)
    assert int(work["moved_bytes"].sum()) == 4 * 2 * 2**23


@pytest.fixture(scope="module")
def mixtral(shared, tmp_path_factory):
    program = mixtral_program(shared, "triton")
    trace = simulate(program, Scenario(steps_count=1, warm_up_dispatches_count=0, other_runs_count=0))
    path = tmp_path_factory.mktemp("mixtral") / "a_results.db"
    write_simulated_trace(trace, path)
    return path, shared / "data/hlo/gfx950-mixtral-8x22b/triton", program


def test_flops_of_a_real_step_are_those_of_the_module(mixtral):
    """Counted over dispatches of a trace, and from the module's trip counts alone: the same FLOPs."""
    path, hlo, program = mixtral
    points = _points([path], hlo=(hlo,), by=By.COMPONENT)
    table = build_instructions(program.module)
    static = (table["compute_flop"] * table["calls_count"]).where(table["payload_bytes"].isna()).dropna()
    assert int(points["compute_flop"].sum()) == pytest.approx(int(static.sum()), rel=1e-3)
    assert points.at["expert_mlp", "mix"].startswith("bf16 matrix 100.0 %")
    assert points.at["router", "mix"].count("f32 vector") == 1


def test_network_points_of_a_real_step_are_its_collectives(mixtral):
    path, hlo, program = mixtral
    points = _points([path], hlo=(hlo,), by=By.INSTRUCTION, level=Level.NETWORK)
    table = build_instructions(program.module)
    opcodes = dict(zip(table["instruction"].astype(str), table["opcode"].astype(str), strict=True))
    kinds = collections.Counter(opcodes[name].removesuffix("-start") for name in points.index)
    assert set(kinds) <= {"all-gather", "all-reduce", "reduce-scatter", "all-to-all", "async", "collective-permute"}
    one = points[points["moved_bytes"].notna()].iloc[0]
    assert one["bound"] in ("network", "neither", "above_roof")


def test_program_is_the_small_one():
    """What `FUSION_FLOP` rests on."""
    table = build_instructions(build_tiny().module).set_index("instruction")
    assert table.at["loop_add_fusion.1", "compute_flop"] == FUSION_FLOP
    assert table.at["loop_add_fusion.1", "read_bytes"] * 2 == FUSION_BYTES
