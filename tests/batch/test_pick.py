"""Which kernels come first, by time and by component; twins are one kernel."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from scoped_run import write_scoped_run

from rocktools.batch.pick import (
    Candidate,
    Order,
    candidates_of_rows,
    find_candidates_by_time,
    fold_twins,
    order_candidates,
)


def candidate(name: str, total_ns: int, component: str = "", *, is_communication: bool = False) -> Candidate:
    return Candidate(
        program_id="7",
        instruction=name,
        component=component,
        total_ns=total_ns,
        dispatches_count=1,
        is_communication=is_communication,
    )


def names(candidates) -> list[str]:
    return [each.instruction for each in candidates]


def test_by_time_the_kernel_that_took_most_comes_first_and_names_decide_between_equals():
    found = order_candidates([candidate("b", 5), candidate("c", 9), candidate("a", 5)], Order.TIME)
    assert names(found) == ["c", "a", "b"]


def test_by_component_each_component_has_its_turn_the_heaviest_first():
    #  mlp 90 + 50 + 40 = 180;  attention 100;  router 3
    made = [
        candidate("m1", 90, "mlp"),
        candidate("m2", 50, "mlp"),
        candidate("m3", 40, "mlp"),
        candidate("a1", 100, "attention"),
        candidate("r1", 3, "router"),
    ]
    assert names(order_candidates(made, Order.COMPONENT)) == ["m1", "a1", "r1", "m2", "m3"]


def test_a_collective_takes_no_turn_of_its_component():
    made = [
        candidate("gather", 900, "mlp", is_communication=True),
        candidate("m1", 90, "mlp"),
        candidate("a1", 10, "attention"),
    ]
    assert names(order_candidates(made, Order.COMPONENT)) == ["gather", "m1", "a1"]


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", "b", "c"]), st.booleans()), max_size=12))
def test_every_order_keeps_every_candidate_once(rows):
    made = [
        candidate(f"k{number}", total, component, is_communication=is_communication)
        for number, (total, component, is_communication) in enumerate(rows)
    ]
    for order in Order:
        assert sorted(names(order_candidates(made, order))) == sorted(names(made))


def test_twins_become_the_one_that_took_most_with_the_time_of_all():
    made = [candidate("x.1", 10), candidate("y", 25), candidate("x.2", 20)]
    found = fold_twins(made, {("7", "x.1"): ("x.2",), ("7", "x.2"): ("x.1",)})
    assert [(each.instruction, each.total_ns, each.twins) for each in found] == [
        ("x.1", 30, ("x.2",)),
        ("y", 25, ()),
    ]
    assert found[0].dispatches_count == 2


def test_time_that_is_not_known_is_not_made_up():
    unknown = Candidate(program_id="7", instruction="x.1")
    [found] = fold_twins([unknown, candidate("x.2", 20)], {("7", "x.1"): ("x.2",), ("7", "x.2"): ("x.1",)})
    assert (found.total_ns, found.dispatches_count) == (None, None)


def test_rows_are_summed_by_instruction_and_most_of_the_time_names_kernel_and_component():
    rows = pd.DataFrame(
        [
            ("dispatch", "7", "fusion.1", "fusion_1", "mlp", "compute", 0, 40),
            ("dispatch", "7", "fusion.1", "helper", "router", "compute", 40, 50),
            ("dispatch", "7", "ag.1", "nccl", "mlp", "communication", 50, 80),
            ("dispatch", "7", None, "loose", "mlp", "compute", 0, 900),
            ("copy", "7", "copy.1", "HOST_TO_DEVICE", "mlp", "copy", 0, 900),
        ],
        columns=["kind", "program_id", "instruction", "name", "component", "activity", "start_ns", "end_ns"],
    )
    found = candidates_of_rows(rows)
    assert [(each.instruction, each.kernel_name, each.component, each.total_ns) for each in found] == [
        ("fusion.1", "fusion_1", "mlp", 50),
        ("ag.1", "nccl", "mlp", 30),
    ]
    assert [each.is_communication for each in found] == [False, True]
    assert [each.dispatches_count for each in found] == [2, 1]


def test_ranking_of_a_run_is_that_of_its_dispatches_and_says_that_it_is_simulated(tmp_path: Path):
    found = find_candidates_by_time([str(write_scoped_run(tmp_path / "run"))], ())
    assert found.is_simulated
    times = [each.total_ns for each in found.candidates]
    assert times == sorted(times, reverse=True)
    by_name = {each.instruction: each for each in found.candidates}
    assert by_name["gemm_fusion_dot.1"].kernel_name == "gemm_fusion_dot_1"
    assert by_name["gemm_fusion_dot.1"].dispatches_count == 45  # 3 steps of 3 microsteps of 5 layers
