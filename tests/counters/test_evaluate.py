"""Evaluation: which pass and dispatch a value is from, and why there is none."""

from __future__ import annotations

import math
from functools import cache

import pandas as pd
import pytest
from counter_frames import GFX942, device, passes_of, row, table_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.counters.evaluate import Evaluated, Level, PassRule, evaluate
from rocktools.counters.formulas import Formulas, load_formulas
from rocktools.errors import UsageError
from rocktools.evidence import Absence
from rocktools.findings import Severity
from rocktools.frames import QUANTITIES, require_frame

HITS = {"TCC_HIT": 30, "TCC_MISS": 10}
READS = {"TCC_EA0_RDREQ_128B": 100, "TCC_EA0_RDREQ_64B": 10, "TCC_EA0_RDREQ_32B": 1}
READ_BYTES = 128 * 100 + 64 * 10 + 32


@cache
def _formulas(architecture: str = "gfx950") -> dict[str, Formulas]:
    return {architecture: load_formulas(architecture)}


def _evaluated(rows, quantity, *, agents=None, requested=(), architecture="gfx950", **options) -> Evaluated:
    table = table_of(rows, agents, requested=requested)
    return evaluate(table, _formulas(architecture), quantities=[quantity], **options)


def _one(rows, quantity, **options) -> pd.Series:
    frame = _evaluated(rows, quantity, **options).frame
    assert len(frame) == 1
    return frame.iloc[0]


def _is_none(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


# Values.


def test_the_frame_keeps_its_contract():
    frame = evaluate(table_of(passes_of([HITS])), _formulas()).frame
    require_frame(frame, QUANTITIES)
    assert set(frame["quantity"]) == set(_formulas()["gfx950"].titles)
    assert not frame.duplicated(list(QUANTITIES.key)).any()


def test_every_row_has_a_value_with_evidence_or_an_absence():
    frame = evaluate(table_of(passes_of([{**HITS, "SQ_WAVES": 8}])), _formulas(), level=Level.DISPATCH).frame
    has_value, has_absence = frame["value"].notna(), frame["absence"].notna()
    assert (has_value != has_absence).all()
    assert (frame["evidence"].notna() == has_value).all()
    assert set(frame["absence"].dropna()) <= {str(absence) for absence in Absence}


def test_ratios_of_a_kernel_are_sum_over_sum_and_not_means_of_ratios():
    rows = passes_of([{"TCC_HIT": 90, "TCC_MISS": 10}, {"TCC_HIT": 0, "TCC_MISS": 900}])
    found = _one(rows, "l2_hit_ratio")
    assert found["value"] == 90 / 1000
    assert (found["min_value"], found["max_value"], found["dispatches_count"]) == (0.0, 0.9, 2)


def test_bytes_of_a_kernel_are_those_of_a_mean_dispatch():
    rows = passes_of([READS, {name: 3 * value for name, value in READS.items()}])
    found = _one(rows, "fabric_read_bytes")
    assert found["value"] == 2 * READ_BYTES
    assert (found["min_value"], found["max_value"]) == (READ_BYTES, 3 * READ_BYTES)


def test_kernels_devices_and_processes_are_kept_apart():
    rows = [
        row(1, "SQ_WAVES", 1),
        row(1, "SQ_WAVES", 2, kernel_name="other"),
        row(1, "SQ_WAVES", 3, role="process 1"),
    ]
    frame = _evaluated(rows, "waves").frame
    assert frame[["role", "kernel_name", "value"]].astype(object).to_numpy().tolist() == [
        ["process 0", "k", 1.0],
        ["process 0", "other", 2.0],
        ["process 1", "k", 3.0],
    ]


def test_names_with_and_without_their_reduction_are_one_counter():
    assert _one([row(1, "TCC_REQ_sum", 7)], "l2_lookup_bytes")["value"] == 7 * 128
    assert _one([row(1, "TCC_REQ", 7)], "l2_lookup_bytes")["value"] == 7 * 128


def test_the_longest_die_needs_instances():
    with_instances = [row(1, "GRBM_GUI_ACTIVE", 80, min_value=5, max_value=15)]
    assert _one(with_instances, "elapsed_cycles_longest")["value"] == 15
    assert _one(with_instances, "elapsed_cycles")["value"] == 10
    assert _one([row(1, "GRBM_GUI_ACTIVE_max", 15)], "elapsed_cycles_longest")["value"] == 15
    without = _one([row(1, "GRBM_GUI_ACTIVE", 80)], "elapsed_cycles_longest", requested=["GRBM_GUI_ACTIVE"])
    assert (without["absence"], without["lacking"]) == ("not_collected", "max(GRBM_GUI_ACTIVE)")


def test_small_negative_differences_are_none():
    """Across passes there may be fewer reads than those of 128 bytes."""
    rows = passes_of([{"TCC_BUBBLE": 100, "TCC_EA0_RDREQ": 90, "TCC_EA0_RDREQ_32B": 0}])
    agents = device(**GFX942)
    assert _one(rows, "fabric_read_bytes", agents=agents, architecture="gfx942")["value"] == 12_800


# Passes.


def test_what_belongs_together_comes_from_a_pass_that_read_all_of_it():
    rows = passes_of([{"TCC_HIT": 1}], [{"TCC_HIT": 30, "TCC_MISS": 10}], [{"TCC_MISS": 1_000}])
    found = _one(rows, "l2_hit_ratio")
    assert found["value"] == 0.75
    assert _is_none(found["doubts"])
    assert found["evidence"] == "counter"


def test_ratios_of_different_passes_have_no_value():
    found = _one(passes_of([{"TCC_HIT": 30}], [{"TCC_MISS": 10}]), "l2_hit_ratio")
    assert math.isnan(found["value"])
    assert (found["absence"], found["lacking"]) == ("different_pass", "TCC_HIT, TCC_MISS")
    assert found["dispatches_count"] == 0


def test_ratios_of_different_passes_have_a_doubt_where_that_is_asked_for():
    rows = passes_of([{"TCC_HIT": 30}], [{"TCC_MISS": 10}])
    evaluated = _evaluated(rows, "l2_hit_ratio", pass_rule=PassRule.MIXED)
    found = evaluated.frame.iloc[0]
    assert (found["value"], found["evidence"], found["doubts"]) == (0.75, "inferred", "different_passes")
    assert [finding.rule for finding in evaluated.findings] == ["different-passes"]


def test_counts_of_different_passes_have_a_value_with_a_doubt():
    first, *others = READS.items()
    found = _one(passes_of([dict([first])], [dict(others)]), "fabric_read_bytes")
    assert (found["value"], found["evidence"], found["doubts"]) == (READ_BYTES, "inferred", "different_passes")


def test_counts_that_repeat_from_run_to_run_may_be_of_any_pass():
    rows = passes_of(
        [{"TCP_TCC_WRITE_REQ": 4}], [{"TCP_TCC_ATOMIC_WITH_RET_REQ": 2}], [{"TCP_TCC_ATOMIC_WITHOUT_RET_REQ": 1}]
    )
    found = _one(rows, "l2_write_bytes")
    assert (found["value"], found["evidence"]) == (7 * 64, "counter")
    assert _is_none(found["doubts"])


def test_dispatches_of_one_pass_are_taken_before_mixed_ones():
    rows = passes_of([HITS, {"TCC_HIT": 5}], [{}, {"TCC_MISS": 5}])
    found = _one(rows, "l2_hit_ratio", pass_rule=PassRule.MIXED)
    assert (found["value"], found["dispatches_count"]) == (0.75, 1)
    assert _is_none(found["doubts"])


def test_how_far_passes_differ_is_told():
    rows = passes_of([{"SQ_WAVES": 100}], [{"SQ_WAVES": 80}])
    assert _one(rows, "waves")["pass_spread_ratio"] == pytest.approx(0.2)
    assert math.isnan(_one(passes_of([{"SQ_WAVES": 100}]), "waves")["pass_spread_ratio"])
    assert _one(passes_of([{"SQ_INSTS_LDS": 0}], [{"SQ_INSTS_LDS": 0}]), "lds_instructions")["pass_spread_ratio"] == 0


# Dispatches.


def test_counters_of_different_dispatches_are_put_together_with_a_doubt():
    evaluated = _evaluated(passes_of([{name: value} for name, value in READS.items()]), "fabric_read_bytes")
    found = evaluated.frame.iloc[0]
    assert (found["value"], found["doubts"], found["evidence"]) == (READ_BYTES, "different_dispatches", "inferred")
    assert found["dispatches_count"] == 3
    assert math.isnan(found["min_value"])
    assert [finding.rule for finding in evaluated.findings] == ["different-dispatches"]


def test_ratios_of_different_dispatches_have_no_value():
    rows = passes_of([{"TCC_HIT": 30}, {"TCC_MISS": 10}])
    assert _one(rows, "l2_hit_ratio")["absence"] == "different_pass"
    assert _one(rows, "l2_hit_ratio", pass_rule=PassRule.MIXED)["value"] == 0.75


def test_dispatches_that_have_everything_are_taken_before_others():
    rows = passes_of([READS, {"TCC_EA0_RDREQ_128B": 10**6}])
    found = _one(rows, "fabric_read_bytes")
    assert (found["value"], found["dispatches_count"]) == (READ_BYTES, 1)


# Absences.


def test_a_counter_that_was_not_collected_is_named():
    found = _one(passes_of([{"TCC_EA0_RDREQ_32B": 1, "TCC_EA0_RDREQ": 9}]), "fabric_read_bytes")
    assert found["absence"] == "not_collected"
    assert found["lacking"] == "TCC_EA0_RDREQ_128B, TCC_EA0_RDREQ_64B"


def test_a_counter_that_was_asked_for_and_is_not_there_is_missing():
    rows = passes_of([{"TCC_HIT": 1}])
    for requested in ("TCC_MISS", "TCC_MISS_sum"):
        found = _one(rows, "l2_hit_ratio", requested=[requested])
        assert (found["absence"], found["lacking"]) == ("counter_missing", "TCC_MISS")


def test_a_quantity_of_another_architecture_is_not_on_this_one():
    found = _one(passes_of([HITS]), "fabric_reads_64b_requests")
    assert found["absence"] == "not_on_arch"


def test_a_counter_that_replay_overcounted_has_no_value():
    found = _one(passes_of([{"TCC_HIT": None, "TCC_MISS": 10}]), "l2_hit_ratio")
    assert (found["absence"], found["lacking"]) == ("replay_overcount", "TCC_HIT")


def test_a_ratio_of_nothing_is_undefined_and_no_zero():
    found = _one(passes_of([{"TCC_HIT": 0, "TCC_MISS": 0}]), "l2_hit_ratio")
    assert found["absence"] == "undefined"
    assert _is_none(found["lacking"])


def test_a_block_that_was_not_counted_gives_nothing():
    """All counters of SQ read 0, and so does the one that no kernel leaves at 0."""
    rows = passes_of([{"SQ_WAVES": 0, "SQ_INSTS_VALU_INT32": 0, "SQ_INSTS_VALU_INT64": 0, **HITS}])
    evaluated = _evaluated(rows, "valu_iop")
    found = evaluated.frame.iloc[0]
    assert (found["absence"], found["lacking"]) == ("impossible_zero", "SQ_WAVES")
    (finding,) = evaluated.findings
    assert (finding.rule, finding.severity) == ("block-not-counted", Severity.FAULT)
    assert _one(rows, "l2_hit_ratio")["value"] == 0.75


def test_zero_operations_are_zero_where_the_block_was_counted():
    rows = passes_of([{"SQ_WAVES": 4, "SQ_INSTS_VALU_INT32": 0, "SQ_INSTS_VALU_INT64": 0}])
    found = _one(rows, "valu_iop")
    assert found["value"] == 0
    assert _is_none(found["absence"])


def test_facts_of_the_device_that_were_not_recorded_are_named():
    found = _one(passes_of([{"GRBM_GUI_ACTIVE": 80}]), "elapsed_cycles", agents=device(xcc_count=None))
    assert (found["absence"], found["lacking"]) == ("not_collected", "xcc_count")


def test_the_number_of_dies_comes_from_the_device_and_from_no_table():
    rows = passes_of([{"GRBM_GUI_ACTIVE": 80}])
    for dies in (1, 4, 8):
        assert _one(rows, "elapsed_cycles", agents=device(xcc_count=dies))["value"] == 80 / dies


# Doubts.


def test_an_architecture_without_formulas_is_left_out_and_told():
    evaluated = _evaluated(passes_of([HITS]), "l2_hit_ratio", agents=device(arch="gfx90a"))
    assert evaluated.frame.empty
    require_frame(evaluated.frame, QUANTITIES)
    (finding,) = evaluated.findings
    assert finding.rule == "architecture-not-covered"
    assert "gfx90a" in finding.message


def test_a_device_of_unknown_architecture_is_told():
    (finding,) = _evaluated(passes_of([HITS]), "l2_hit_ratio", agents=device(arch=None)).findings
    assert "architecture was not recorded" in finding.message


def test_shares_of_impossible_elapsed_cycles_are_doubtful():
    """8,000,000 cycles of 8 dies in 100 microseconds are 10 GHz."""
    rows = passes_of([{"GRBM_GUI_ACTIVE": 8_000_000, "PASS_DURATION": 1e-4, "SQ_ACTIVE_INST_VALU": 256_000}])
    evaluated = _evaluated(rows, "valu_utilisation")
    found = evaluated.frame.iloc[0]
    assert (found["doubts"], found["evidence"]) == ("impossible_clock", "inferred")
    assert [finding.rule for finding in evaluated.findings] == ["impossible-clock"]
    fast = passes_of([{"GRBM_GUI_ACTIVE": 8_000_000, "PASS_DURATION": 1e-3, "SQ_ACTIVE_INST_VALU": 256_000}])
    assert _is_none(_one(fast, "valu_utilisation")["doubts"])


@pytest.mark.parametrize(
    "counters, quantity, value",
    [
        ({**READS, "TCC_EA0_RDREQ": 200}, "fabric_read_sizes_ratio", 111 / 200),
        ({"TCC_EA0_RDREQ_DRAM": 207, "TCC_EA0_RDREQ": 100}, "hbm_read_ratio", 2.07),
        ({"GRBM_GUI_ACTIVE": 8_000, "SQ_BUSY_CU_CYCLES": 512_000}, "cu_utilisation", 2.0),
        ({"GRBM_GUI_ACTIVE": 8_000_000, "PASS_DURATION": 1e-4}, "implied_clock_ratio", 1e10 / 2.4e9),
    ],
)
def test_values_that_cannot_be_are_told(counters, quantity, value):
    evaluated = _evaluated(passes_of([counters]), quantity)
    (finding,) = [each for each in evaluated.findings if each.rule == "impossible-quantity"]
    assert finding.numbers["value"] == pytest.approx(value)
    assert finding.message.startswith(f"{quantity} is ")


def test_values_that_can_be_are_not_told():
    rows = passes_of([{**READS, "TCC_EA0_RDREQ": 111, **HITS}])
    assert evaluate(table_of(rows), _formulas()).findings == ()


def test_a_counter_that_misleads_on_its_architecture_is_told():
    (finding,) = _evaluated(passes_of([{"TCC_BUBBLE_sum": 0}]), "waves").findings
    assert (finding.rule, finding.severity) == ("counter-misleads", Severity.NOTE)
    on_gfx942 = _evaluated(passes_of([{"TCC_BUBBLE_sum": 0}]), "waves", agents=device(**GFX942), architecture="gfx942")
    assert on_gfx942.findings == ()


def test_an_unknown_quantity_is_told_with_the_nearest():
    with pytest.raises(UsageError) as raised:
        _evaluated(passes_of([HITS]), "l2_hit_ration")
    assert "l2_hit_ratio" in raised.value.hint


def test_the_table_is_not_changed():
    table = table_of(passes_of([{**HITS, **READS}], [HITS]))
    before = {name: [reading.values.copy() for reading in found] for name, found in table.readings.items()}
    evaluate(table, _formulas())
    for name, found in table.readings.items():
        for reading, values in zip(found, before[name], strict=True):
            assert (reading.values == values).all()


present = st.dictionaries(st.sampled_from(["TCC_HIT", "TCC_MISS"]), st.integers(0, 1_000), max_size=2)


@settings(max_examples=60)
@given(st.lists(st.lists(present, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_hit_ratio_is_what_brute_force_finds(passes):
    """Each dispatch from the first pass that read both counters; the kernel is the sum of these over their sum."""
    rows = passes_of(*passes)
    if not rows:
        return
    dispatches = range(max(len(executions) for executions in passes))
    whole = []
    for dispatch in dispatches:
        of_dispatch = [executions[dispatch] for executions in passes if dispatch < len(executions)]
        whole += next(([each] for each in of_dispatch if len(each) == 2), [])
    found = _one(rows, "l2_hit_ratio")
    lacking = {"TCC_HIT", "TCC_MISS"} - {name for executions in passes for each in executions for name in each}
    hits, lookups = sum(each["TCC_HIT"] for each in whole), sum(sum(each.values()) for each in whole)
    if lookups:
        assert found["value"] == pytest.approx(hits / lookups, rel=1e-12)
        assert found["dispatches_count"] == len(whole)
    elif whole:
        assert found["absence"] == "undefined"
    elif lacking:
        assert (found["absence"], found["lacking"]) == ("not_collected", ", ".join(sorted(lacking)))
    else:
        assert found["absence"] == "different_pass"
