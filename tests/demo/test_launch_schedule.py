"""Unrolling: against a walk that runs the program launch by launch, and against counts worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from mixtral_program import LOOPS, mixtral_program
from tiny_program import STREAM, TINY, Async, Launch, Loop, Node, build_tiny, hlo_text, kernel, program_trees

from rocktools.demo.launch_schedule import NO_SITE, unroll_program
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunk_reader import parse_thunk_sequence

UNKNOWN_TRIPS = 2


def run(nodes: Sequence[Node], loops: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Launch by launch: instruction, iterations, stream; a wait has the instruction "wait"."""
    for node in nodes:
        if isinstance(node, Launch):
            yield node.instruction, loops, ""
        elif isinstance(node, Async):
            yield node.instruction, loops, STREAM
            yield from run(node.inside, loops)
            yield "wait", loops, ""
        elif node.trips is not None:
            for trip in range(node.trips):
                yield from run(node.body, (*loops, trip))
        else:
            for trip in range(UNKNOWN_TRIPS):
                yield from run(node.condition, (*loops, trip))
                yield from run(node.body, (*loops, trip))
            yield from run(node.condition, (*loops, UNKNOWN_TRIPS))


def unrolled(program: CompiledProgram) -> list[tuple[str, tuple[int, ...], str]]:
    schedule = unroll_program(program, unknown_trips_count=UNKNOWN_TRIPS)
    iterations = [tuple(one for one in row if one >= 0) for row in schedule.iterations.tolist()]
    return [
        ("wait", places, "")
        if site == NO_SITE
        else (
            schedule.sites[site].instruction,
            places,
            schedule.streams[schedule.stream_of_site[site]],
        )
        for site, places in zip(schedule.site.tolist(), iterations, strict=True)
    ]


def with_waits_outside(launches: Iterator[tuple[str, tuple[int, ...], str]]) -> list[tuple[str, tuple[int, ...], str]]:
    """Waits in a loop carry no iteration that anybody reads."""
    return [(name, () if name == "wait" else loops, stream) for name, loops, stream in launches]


@given(program_trees())
def test_a_program_is_unrolled_as_it_runs(nodes):
    assert with_waits_outside(iter(unrolled(build_tiny(nodes)))) == with_waits_outside(run(nodes))


def test_the_tiny_program_is_unrolled_as_it_runs():
    assert with_waits_outside(iter(unrolled(build_tiny()))) == with_waits_outside(run(TINY))


def test_a_condition_runs_once_more_than_the_body_where_trips_are_unknown_and_never_where_they_are_known():
    body, condition = [kernel("body.1")], [kernel("condition.1")]
    for trips, expected in ((None, {"body.1": UNKNOWN_TRIPS, "condition.1": UNKNOWN_TRIPS + 1}), (4, {"body.1": 4})):
        launches = unrolled(build_tiny([Loop("while.1", body, trips, condition)]))
        assert Counter(name for name, _, _ in launches) == expected


def test_one_branch_of_a_conditional_runs_and_the_seed_says_which():
    text = (
        "001: kConditional\t\n  branch_0:\n    002: kCopy\tkCopy\n  branch_1:\n    003: kMemzero\tkMemzero\n"
        "    004: kMemzero\tkMemzero\n"
    )
    program = CompiledProgram(module=build_tiny().module, thunks=parse_thunk_sequence(text, None, "s.txt"))
    seen = set()
    for seed in range(20):
        schedule = unroll_program(program, rng=np.random.default_rng(seed))
        seen.add(tuple(thunk.thunk_id for thunk in schedule.sites))
    assert seen == {(2,), (3, 4)}


# Sites, and operations of one step by hand. A body is run by two loops of 56 inside one of 2, so 112 times; counts of
# thunks per loop are counts of lines in the files (containers, starts, conditions and dones left out).
@pytest.mark.parametrize("build, sites_count", [("triton", 371), ("blaslt", 365)])
def test_the_mixtral_step_is_unrolled(shared, build, sites_count):
    program = mixtral_program(shared, build)
    schedule = unroll_program(program)
    assert len(schedule.sites) == sites_count
    assert program.thunks is not None
    outer = next(thunk for thunk in program.thunks.thunks if thunk.kind == "kWhile")
    inner = [thunk for thunk in outer.body if thunk.kind == "kWhile"]
    outside = sum(map(launching, program.thunks.thunks)) - launching(outer)
    in_outer = sum(map(launching, outer.body)) - sum(map(launching, inner))
    in_inner = sum(launching(thunk) for one in inner for thunk in one.body)
    assert [LOOPS[one.instruction] for one in (outer, *inner)] == [2, 56, 56]
    assert int((schedule.site >= 0).sum()) == outside + 2 * in_outer + 2 * 56 * in_inner
    assert outside + in_outer + in_inner == sites_count
    assert schedule.streams == ("", "communication_stream[0]")


def launching(thunk) -> int:
    """Thunks in it that put work on a stream."""
    containers = ("kWhile", "kAsyncStart", "kAsyncDone")
    conditions = {id(one) for inner in thunk.walk() for one in inner.condition}
    return sum(one.kind not in containers and id(one) not in conditions for one in thunk.walk())


def test_the_texts_of_made_programs_are_what_xla_reads_and_ours_agree_with_each_other():
    hlo = pytest.importorskip("jaxlib._hlo")
    nodes = [*TINY, Loop("while.9", [], 2, [])]
    module = hlo.hlo_module_from_text(hlo_text(nodes))
    names = {one.name for computation in module.computations() for one in computation.instructions()}
    program = build_tiny(nodes)
    assert program.thunks is not None
    assert program.module.findings == program.thunks.findings == ()
    assert {thunk.instruction for thunk in program.thunks.walk()} <= names == set(program.module.instructions)
