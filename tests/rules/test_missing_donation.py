"""Results that replace an argument and do not take over its memory."""

from __future__ import annotations

from rule_programs import UPDATE
from rule_timeline import MS, found, only, program, repeated, timeline

from rocktools.rules.kernel_work import build_kernel_work
from rocktools.rules.missing_donation import RULE, unshared_updates

_HEAD = "HloModule jit_update, is_scheduled=true"


def _inputs(text: str):
    return timeline(repeated([{"start": 0, "end": MS}], period=MS), programs=[program(text)])


def test_optimizer_without_donation_is_found():
    finding, explained = only(RULE, _inputs(UPDATE))
    assert finding.numbers["unshared_bytes"] == 2 * 4 * 4194304
    assert finding.numbers["results_count"] == 2
    assert explained is None


def test_donated_arguments_are_no_finding():
    aliases = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    assert found(RULE, _inputs(UPDATE.replace(_HEAD, f"{_HEAD}, {aliases}"))) == []


def test_one_that_is_donated_leaves_the_other():
    module = program(UPDATE.replace(_HEAD, f"{_HEAD}, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}"))
    assert len(unshared_updates(module, build_kernel_work([module]))) == 1


def test_gradients_have_the_shape_of_parameters_and_are_no_update():
    text = """HloModule jit_grad, is_scheduled=true

ENTRY %main (a: f32[4096,4096], b: f32[4096,4096]) -> (f32[4096,4096], f32[4096,4096]) {
  %a = f32[4096,4096]{1,0} parameter(0)
  %b = f32[4096,4096]{1,0} parameter(1)
  %da = f32[4096,4096]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %db = f32[4096,4096]{1,0} dot(%b, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %out = (f32[4096,4096]{1,0}, f32[4096,4096]{1,0}) tuple(%da, %db)
}
"""
    assert found(RULE, _inputs(text)) == []


def test_small_programs_are_no_finding():
    assert found(RULE, _inputs(UPDATE.replace("4194304", "1024"))) == []
