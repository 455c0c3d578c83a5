"""Lints over declared results: each fires on its mistake, is quiet on the right statement, and says what it lacks."""

from __future__ import annotations

import pytest
from rule_programs import UPDATE
from rule_timeline import MS, declared, found, only, program, reason, repeated, timeline

from rocktools.devices.files import read_device
from rocktools.hlo.memory_reports import Allocation, AllocationKind, BufferAssignment
from rocktools.rules.catalog import find_rule
from rocktools.rules.inputs import RuleInputs

MI355X = read_device("MI355X")
SEED = "batch: {global_sequences_count: 64, sequence_tokens_count: 4096, devices_count: 8, chosen_experts_count: 2"

# Rule, claims with the mistake, claims without it, claims that do not say enough.
CASES = [
    (
        "batch-multiplied-twice",
        f"{SEED}, tokens_per_update_count: 2097152}}",
        f"{SEED}, tokens_per_update_count: 262144}}",
        "batch: {global_sequences_count: 64, tokens_per_update_count: 262144}",
    ),
    (
        "assignments-as-tokens",
        f"{SEED}}}\ntiming: {{tokens_per_s: 25451.7, step_s: 20.599}}",  # 524,288 tokens: twice 64 x 4,096
        f"{SEED}}}\ntiming: {{tokens_per_s: 12725.9, step_s: 20.599}}",
        f"{SEED}}}\ntiming: {{tokens_per_s: 12725.9}}",
    ),
    (
        "flop-source-unsaid",
        "utilisation: {mfu_ratio: 0.1531, flop_source: counters}",
        "utilisation: {mfu_ratio: 0.1531, flop_source: analytic}",
        "utilisation: {busy_ratio: 0.9}",
    ),
    (
        "memory-summed",
        "memory: {used_bytes: 1000000000000, over_devices: sum}",
        "memory: {used_bytes: 125000000000, over_devices: max}",
        "memory: {used_bytes: 125000000000}",
    ),
    (
        "memory-kind-unsaid",
        "memory: {used_bytes: 125000000000}",
        "memory: {used_bytes: 125000000000, kind: observed}",
        "timing: {step_s: 1.0}",
    ),
    (
        "one-duration-as-median",
        "timing: {step_s: 20.599, statistic: median, samples_count: 1}",
        "timing: {step_s: 20.599, statistic: median, samples_count: 10, spread_s: 0.02}",
        "timing: {step_s: 20.599}",
    ),
    (
        "compile-in-timing",
        "timing: {step_s: 20.599, first_step_index: 0}",
        "timing: {step_s: 20.599, first_step_index: 5, is_synchronized: true, includes_compile: false}",
        "timing: {step_s: 20.599}",
    ),
    (
        "throughput-of-profiled-run",
        "timing: {tokens_per_s: 12721, is_profiled: true}",
        "timing: {tokens_per_s: 12725.9, is_profiled: false}",
        "timing: {tokens_per_s: 12725.9}",
    ),
    (
        "utilisation-alone",
        "utilisation: {busy_ratio: 0.998}",
        "utilisation: {busy_ratio: 0.998, mfu_ratio: 0.153}\ntiming: {step_s: 20.599}",
        "utilisation: {mfu_ratio: 0.153}",
    ),
    (
        "peak-bandwidth-in-bound",
        "communication: {bandwidth_bytes_per_s: 537600000000, bandwidth_source: peak}",
        "communication: {bandwidth_bytes_per_s: 310000000000, bandwidth_source: measured}",
        "communication: {bandwidth_bytes_per_s: 310000000000}",
    ),
    (
        "batch-change-as-speedup",
        "comparison: {sequences_before_count: 32, sequences_after_count: 64, is_about_a_kernel: true}",
        "comparison: {sequences_before_count: 64, sequences_after_count: 64}",
        "comparison: {sequences_before_count: 64}",
    ),
    (
        "several-changes",
        "comparison: {changes: [block size of attention, XLA_FLAGS]}",
        "comparison: {changes: [block size of attention]}",
        "comparison: {speedup_ratio: 1.1}",
    ),
    (
        "outputs-unchecked",
        "comparison: {speedup_ratio: 1.1}",
        "comparison: {speedup_ratio: 1.1, outputs_checked: true}",
        "comparison: {changes: [one]}",
    ),
    (
        "peak-of-another-format",
        "utilisation: {peak_flop_per_s: 5.033e15, dtype: bf16, part: MI355X}",
        "utilisation: {peak_flop_per_s: 2.5166e15, dtype: bf16, part: MI355X}",
        "utilisation: {peak_flop_per_s: 2.5166e15}",
    ),
]


@pytest.mark.parametrize("name, wrong, right, silent", CASES, ids=[case[0] for case in CASES])
def test_mistake_is_found_and_right_or_unsaid_things_are_not(name: str, wrong: str, right: str, silent: str):
    rule = find_rule(name)
    finding, explained = only(rule, RuleInputs(claims=declared(wrong)))
    assert finding.where == "claims.yaml"
    assert explained is None
    assert found(rule, RuleInputs(claims=declared(right))) == []
    assert reason(rule, RuleInputs(claims=declared(silent)))
    assert "declared results" in reason(rule, RuleInputs())


def test_numbers_of_a_multiplied_batch():
    finding, _ = only(find_rule("batch-multiplied-twice"), RuleInputs(claims=declared(CASES[0][1])))
    assert finding.numbers == {"claimed_tokens_count": 2097152, "tokens_count": 262144, "devices_count": 8}


def test_peak_is_named_where_it_is_that_of_another_format():
    """Dense FP8 of an MI355X is twice its dense BF16: 5.033 PFLOP/s."""
    rule = find_rule("peak-of-another-format")
    finding, _ = only(
        rule, RuleInputs(claims=declared("utilisation: {peak_flop_per_s: 5.033e15, dtype: bf16}"), device=MI355X)
    )
    assert "that of 2:4 bf16 and" in finding.message
    assert "dense f8" in finding.message
    assert finding.numbers["peak_flop_per_s"] == pytest.approx(2.5166e15, rel=1e-4)
    f8 = declared("utilisation: {peak_flop_per_s: 5.033e15, dtype: f8}")
    assert found(rule, RuleInputs(claims=f8, device=MI355X)) == []


def test_peak_of_an_unknown_device_cannot_be_judged():
    rule = find_rule("peak-of-another-format")
    assert "which GPU" in reason(rule, RuleInputs(claims=declared("utilisation: {peak_flop_per_s: 1e15, dtype: bf16}")))
    odd = declared("utilisation: {peak_flop_per_s: 1e15, dtype: bf16, part: MI999}")
    assert "MI999" in reason(rule, RuleInputs(claims=odd))


def test_memory_beyond_one_device_is_a_sum_whatever_it_is_called():
    claims = declared("memory: {used_bytes: 1000000000000, over_devices: max, part: MI355X}")
    finding, _ = only(find_rule("memory-summed"), RuleInputs(claims=claims))
    assert finding.numbers["memory_bytes"] == 288_000_000_000


def test_observed_memory_that_is_what_the_compiler_reserves_is_doubted():
    allocation = Allocation(
        number=0, size_bytes=1000, kind=AllocationKind.TEMPORARY, parameter_number=None, is_live_out=False, values=()
    )
    assignments = {"jit_step": BufferAssignment(source="f", allocations=(allocation,))}
    rule = find_rule("memory-kind-unsaid")
    claims = declared("memory: {used_bytes: 1000, kind: observed}")
    finding, _ = only(rule, RuleInputs(claims=claims, assignments=assignments))
    assert finding.numbers == {"used_bytes": 1000, "reserved_bytes": 1000}
    other = declared("memory: {used_bytes: 1200, kind: observed}")
    assert found(rule, RuleInputs(claims=other, assignments=assignments)) == []


def test_vendor_bandwidth_is_known_without_being_called_a_peak():
    rule = find_rule("peak-bandwidth-in-bound")
    claims = declared("communication: {bandwidth_bytes_per_s: 537600000000}")  # 7 links of 76.8 GB/s
    assert "xgmi" in only(rule, RuleInputs(claims=claims, device=MI355X))[0].message
    measured = declared("communication: {bandwidth_bytes_per_s: 310000000000}")
    assert found(rule, RuleInputs(claims=measured, device=MI355X)) == []


def test_one_honest_sample_is_called_one_sample():
    claims = declared("timing: {step_s: 20.599, statistic: single, samples_count: 1}")
    assert found(find_rule("one-duration-as-median"), RuleInputs(claims=claims)) == []


def test_total_of_communication_is_told_from_what_is_exposed():
    """40 ms of communication in steps of 100, 15 of them exposed."""
    rows = [
        {"start": 0, "end": 80 * MS},
        {"activity": "communication", "start": 55 * MS, "end": 95 * MS},
        {"start": 95 * MS, "end": 100 * MS},
    ]
    rule = find_rule("total-as-exposed")

    def inputs(ratio: float) -> RuleInputs:
        claims = declared(f"communication: {{exposed_ratio: {ratio}}}")
        return timeline(repeated(rows, period=100 * MS), claims=claims)

    finding, _ = only(rule, inputs(0.4))
    assert finding.numbers["exposed_ratio"] == pytest.approx(0.15)
    assert finding.numbers["total_ratio"] == pytest.approx(0.4)
    assert found(rule, inputs(0.15)) == []
    assert "exposed_ratio" in reason(rule, timeline(repeated(rows, period=100 * MS), claims=declared("")))


def _products(dtype: str) -> RuleInputs:
    text = """HloModule jit_f, is_scheduled=true

ENTRY %main (a: bf16[64,64], b: f32[64,64]) -> f32[64,64] {
  %a = bf16[64,64]{1,0} parameter(0)
  %b = f32[64,64]{1,0} parameter(1)
  %big = bf16[64,64]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %small = f32[64,64]{1,0} dot(%b, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    rows = [
        {"start": 0, "end": 80 * MS, "instruction": "big", "program_id": "7"},
        {"start": 80 * MS, "end": 100 * MS, "instruction": "small", "program_id": "7"},
    ]
    claims = declared(f"utilisation: {{mfu_ratio: 0.4, dtype: {dtype}}}")
    return timeline(repeated(rows, period=100 * MS), programs=[program(text)], claims=claims)


def test_products_in_another_format_than_the_peak_are_found():
    rule = find_rule("one-peak-for-all-formats")
    finding, _ = only(rule, _products("bf16"))
    assert finding.numbers["other_ratio"] == pytest.approx(0.2)
    assert "f32" in finding.message
    assert only(rule, _products("f32"))[0].numbers["other_ratio"] == pytest.approx(0.8)


def test_products_of_one_format_are_no_finding():
    rule = find_rule("one-peak-for-all-formats")
    rows = [{"start": 0, "end": MS, "instruction": "dot.1", "program_id": "7"}]
    text = """HloModule jit_f, is_scheduled=true

ENTRY %main (a: bf16[64,64]) -> bf16[64,64] {
  %a = bf16[64,64]{1,0} parameter(0)
  ROOT %dot.1 = bf16[64,64]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    claims = declared("utilisation: {mfu_ratio: 0.4, dtype: bfloat16}")
    inputs = timeline(repeated(rows, period=MS), programs=[program(text)], claims=claims)
    assert found(rule, inputs) == []
    unlinked = timeline(repeated(rows, period=MS), programs=[program(UPDATE)], claims=claims)
    assert "no matrix product" in reason(rule, unlinked)
