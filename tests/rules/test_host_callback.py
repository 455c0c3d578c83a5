"""Python that a program calls."""

from __future__ import annotations

from rule_timeline import MS, found, only, program, repeated, timeline

from rocktools.rules.host_callback import RULE

TEXT = """HloModule jit_f, is_scheduled=true

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %print.1 = f32[8]{0} custom-call(%p), custom_call_target="TARGET"
  ROOT %neg.1 = f32[8]{0} negate(%print.1)
}
"""


def _inputs(target: str, **others):
    rows = [{"start": 0, "end": 30 * MS}, {"start": 50 * MS, "end": 100 * MS}]
    return timeline(repeated(rows, period=100 * MS), programs=[program(TEXT.replace("TARGET", target))], **others)


def test_callback_is_found_in_the_program():
    for target in ("xla_python_gpu_callback", "xla_ffi_python_gpu_callback", "xla_ffi_partitioned_python_gpu_callback"):
        finding, explained = only(RULE, _inputs(target))
        assert finding.where == "jit_f, print.1"
        assert finding.numbers["executions_count"] == 1
        assert explained is None


def test_idle_time_while_it_runs_is_what_it_costs():
    """The device is idle from 30 to 50 ms of each step; the callback runs from 35 to 55."""
    events = [
        {"event_name": "debug_callback", "start": (100 * step + 35) * MS, "end": (100 * step + 55) * MS}
        for step in range(4)
    ]
    finding, explained = only(RULE, _inputs("xla_ffi_python_gpu_callback", events=events))
    assert explained == 15 * MS
    assert finding.numbers["idle_ns"] == 15 * MS


def test_other_custom_calls_are_no_callback():
    for target in ("__cublas$lt$matmul", "te_fused_attn_forward_ffi", "TopK"):
        assert found(RULE, _inputs(target)) == []
