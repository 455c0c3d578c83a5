"""The order of phases, and the phase that a name stack says."""

from __future__ import annotations

import pytest

from rocktools.attribution.phases import BookedPhase, earlier_phase, later_phase, phase_of_path
from rocktools.hlo.scopes import parse_op_name

F, B, R = BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.REMATERIALIZED


@pytest.mark.parametrize(
    "op_name, phase",
    [
        ("jit(f)/jvp(m)/add", F),
        ("jit(f)/transpose(jvp(m))/add", B),
        ("jit(f)/transpose(jvp(m))/checkpoint/add", B),
        ("jit(f)/transpose(jvp(m))/checkpoint/rematted_computation/add", R),
        ("jit(f)/optimizer/add", None),
        ("jit(f)/transpose(jvp(m))/checkpoint/(rematted_computation/a:b)", R),  # rematerialized before backward
        ("jit(f)/(transpose(jvp(m))/a:jvp(m)/b)", B),  # backward before forward
        ("jit(f)/(jvp(m)/a:b)", F),
    ],
)
def test_the_first_rule_that_any_path_meets_decides(op_name, phase):
    assert phase_of_path(parse_op_name(op_name)) is phase


def test_a_step_goes_from_input_to_optimizer():
    order = [BookedPhase(name) for name in ("input", "forward", "loss", "rematerialized", "backward", "accumulation")]
    for first, second in zip(order, [*order[1:], BookedPhase.OPTIMIZER], strict=True):
        assert later_phase([second, first]) is second
        assert earlier_phase([second, first]) is first


def test_what_is_unattributed_has_no_place_in_a_step():
    assert later_phase([BookedPhase.UNATTRIBUTED]) is None
    assert earlier_phase([]) is None
    assert later_phase([BookedPhase.UNATTRIBUTED, F]) is F
