"""What a program is made of: kinds and loops, counted by hand; of texts that were cut, what was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mixtral_program import LOOPS as MIXTRAL_LOOPS
from mixtral_program import mixtral_program
from tiny_program import TINY, hlo_text

from rocktools.frames import require_frame
from rocktools.hlo.instructions import build_instructions
from rocktools.hlo.module import HloModule
from rocktools.hlo.program_summary import (
    KINDS,
    LOOPS,
    collective_kind,
    is_launched,
    launched_computations,
    summarize_kinds,
    summarize_loops,
)
from rocktools.hlo.text_reader import parse_hlo_text

ARRAY_BYTES = 64 * 128 * 4  # f32[64,128]


def kinds_of(module: HloModule) -> dict[str, dict[str, Any]]:
    frame = require_frame(summarize_kinds(module, build_instructions(module)), KINDS)
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()} for row in frame.to_dict("records")
    ]
    return {row["kind"]: row for row in rows}


def loops_of(module: HloModule) -> list[tuple[Any, ...]]:
    frame = require_frame(summarize_loops(module, build_instructions(module)), LOOPS)
    columns = ("instruction", "computation", "trips_count", "executions_count", "body_count")
    return [tuple(None if pd.isna(row[name]) else row[name] for name in columns) for row in frame.to_dict("records")]


@pytest.fixture
def tiny() -> HloModule:
    return parse_hlo_text(hlo_text(TINY), "tiny")


def test_executions_are_unrolled_over_loops_in_loops(tiny: HloModule) -> None:
    """while.1 has 3 trips; while.2 in it has 5."""
    kinds = kinds_of(tiny)
    fusions = kinds["fusion kLoop"]
    # Four outside of the loops (two before them, two behind), three in the outer loop, six in the inner one, and two
    # in the conditions, which loops with a known trip count never run.
    assert fusions["instructions_count"] == 4 + 3 + 6 + 2
    assert fusions["executions_count"] == 4 + 3 * 3 + 15 * 6
    assert kinds["copy"]["executions_count"] == 2 + 3
    assert kinds["custom-call __cublas$lt$matmul"]["executions_count"] == 3 + 15
    assert kinds["all-reduce"]["executions_count"] == 3 + 3 + 15
    assert kinds["all-to-all"]["executions_count"] == 15


def test_amounts_are_of_all_executions(tiny: HloModule) -> None:
    kinds = kinds_of(tiny)
    assert kinds["copy"]["read_bytes"] == kinds["copy"]["written_bytes"] == 5 * ARRAY_BYTES
    assert kinds["fusion kLoop"]["compute_flop"] == 103 * 64 * 128  # one negation for each element
    assert kinds["all-reduce"]["payload_bytes"] == 21 * ARRAY_BYTES
    assert kinds["fusion kLoop"]["payload_bytes"] is None


def test_what_fusions_and_reductions_wrap_and_what_launches_nothing_is_not_counted(tiny: HloModule) -> None:
    assert not {"negate", "add", "parameter", "tuple", "get-tuple-element", "constant", "while"} & set(kinds_of(tiny))
    launched = launched_computations(tiny)
    assert launched == {"main", "while.1.body", "while.1.condition", "while.2.body", "while.2.condition"}
    assert not is_launched(tiny.instructions["while.1"], launched)
    assert not is_launched(tiny.instructions["all-reduce-done.1"], launched)


def test_kinds_with_most_instructions_come_first(tiny: HloModule) -> None:
    counts = [row["instructions_count"] for row in kinds_of(tiny).values()]
    assert counts == sorted(counts, reverse=True)


def test_loops_have_their_trips_executions_and_bodies(tiny: HloModule) -> None:
    assert sorted(loops_of(tiny)) == [("while.1", "main", 3, 1, 7), ("while.2", "while.1.body", 5, 3, 9)]


def test_executions_in_a_loop_of_unknown_length_are_unknown() -> None:
    text = hlo_text(TINY).replace(', backend_config={"known_trip_count":{"n":"5"}}', "")
    module = parse_hlo_text(text, "tiny")
    assert sorted(loops_of(module))[1][:4] == ("while.2", "while.1.body", None, 3)
    kinds = kinds_of(module)
    assert kinds["all-to-all"]["executions_count"] is None
    assert kinds["all-to-all"]["unknown_count"] == 1
    # What is known is added up, and what is not is counted beside it.
    assert (kinds["all-reduce"]["executions_count"], kinds["all-reduce"]["unknown_count"]) == (3 + 3, 1)


_WRAPPED = """HloModule m, is_scheduled=true

%wrapped (a: f32[8]) -> f32[16] {
  %a = f32[8]{0} parameter(0)
  ROOT %gathered = f32[16]{0} all-gather(%a), replica_groups={{0,1}}, dimensions={0}
}

%slow (b: f32[8]) -> f32[8] {
  %b = f32[8]{0} parameter(0)
  ROOT %copied = f32[8]{0} copy(%b)
}

ENTRY %main (p: f32[8]) -> f32[16] {
  %p = f32[8]{0} parameter(0)
  %start = ((f32[8]{0}), f32[16]{0}) async-start(%p), calls=%wrapped
  %other = ((f32[8]{0}), f32[8]{0}) async-start(%p), calls=%slow
  %permute = f32[8]{0} collective-permute(%p), source_target_pairs={{0,1},{1,0}}
  ROOT %done = f32[16]{0} async-done(%start)
}
"""


def test_a_collective_is_called_the_same_whatever_starts_it() -> None:
    module = parse_hlo_text(_WRAPPED, "m")
    kinds = {name: collective_kind(module, each) for name, each in module.instructions.items()}
    assert kinds == {
        **dict.fromkeys(("a", "b", "copied", "p", "other", "done"), ""),
        "gathered": "all-gather",
        "start": "all-gather",
        "permute": "collective-permute",
    }
    assert set(kinds_of(module)) == {"all-gather", "async-start", "collective-permute"}


# Texts that were cut


def test_of_a_text_cut_before_its_entry_the_kinds_of_what_was_read_are_there() -> None:
    text = hlo_text(TINY)
    module = parse_hlo_text(text[: text.index("ENTRY")], "tiny")
    kinds = kinds_of(module)
    # The bodies, as in the whole text; the computation that fusions wrap is known to be wrapped, that of sums too.
    assert kinds["fusion kLoop"]["instructions_count"] == 3 + 6 + 2
    assert kinds["all-to-all"]["instructions_count"] == 1
    assert "negate" not in kinds
    assert {row["executions_count"] for row in kinds.values()} == {None}
    assert [loop[:4] for loop in loops_of(module)] == [("while.2", "while.1.body", 5, None)]


def test_every_beginning_of_a_text_can_be_summarized() -> None:
    text = hlo_text(TINY)
    for end in range(len("HloModule jit_tiny\n"), len(text), 331):
        module = parse_hlo_text(text[:end], "tiny")
        total = sum(row["instructions_count"] for row in kinds_of(module).values())
        assert total <= len(module.instructions)
        loops_of(module)


@pytest.mark.parametrize("name", ["tpu/maxtext-llama3-8b.truncated.txt", "gfx950/truncated-toy.txt"])
def test_real_truncated_texts_have_kinds(shared: Path, name: str) -> None:
    path = shared / "data" / "hlo" / name
    kinds = kinds_of(parse_hlo_text(path.read_text(encoding="utf-8"), name))
    assert sum(row["instructions_count"] for row in kinds.values()) > 0
    assert {row["executions_count"] for row in kinds.values()} == {None}


def test_real_mixtral_has_the_loops_and_kinds_that_it_was_made_with(shared: Path) -> None:
    """Two microsteps of 56 layers, forward and backward; 323 fusions, of which 56 x 2 x n and 2 x n and n run."""
    module = mixtral_program(shared, "triton").module
    loops = {loop[0]: loop[2:4] for loop in loops_of(module)}
    assert {name: trips for name, (trips, _) in loops.items()} == MIXTRAL_LOOPS
    assert {name: runs for name, (_, runs) in loops.items()} == {"while.94": 1, "while.91": 2, "while.92": 2}
    kinds = kinds_of(module)
    fusions = sum(row["instructions_count"] for kind, row in kinds.items() if kind.startswith("fusion "))
    assert fusions == 323
    assert sum(row["unknown_count"] for row in kinds.values()) == 0
