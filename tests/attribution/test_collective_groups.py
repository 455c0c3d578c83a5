"""Which replica group each communication kernel took part in."""

from __future__ import annotations

import pandas as pd
import pytest

from rocktools.attribution.collective_groups import label_replica_groups
from rocktools.hlo.text_reader import parse_hlo_text

TEXT = """HloModule jit_step, is_scheduled=true, num_partitions=4

%async (p: f32[8]) -> f32[16] {
  %p = f32[8]{0} parameter(0)
  ROOT %inner = f32[16]{0} all-gather(%p), replica_groups={{0,2},{1,3}}, dimensions={0}
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %start = ((f32[8]{0}), f32[16]{0}) async-start(%x), calls=%async
  %done = f32[16]{0} async-done(%start)
  %pairs = f32[8]{0} all-reduce(%x), replica_groups=[2,2]<=[4], to_apply=%add
  ROOT %all = f32[8]{0} all-reduce(%pairs), replica_groups={}, to_apply=%add
}
"""


def labels(instruction: str | None, gpus_count: int, host: str = "n", activity: str = "communication") -> list[object]:
    """The group of each of four GPUs."""
    rows = pd.DataFrame(
        {
            "activity": pd.Categorical([activity] * 4),
            "program_id": pd.Categorical(["7"] * 4),
            "instruction": pd.Categorical([instruction] * 4),
            "device": pd.Categorical([f"n:gpu{number}" for number in range(4)]),
        }
    )
    found = label_replica_groups(rows, {"7": parse_hlo_text(TEXT, "step.txt")}, {host: gpus_count})
    return [None if pd.isna(label) else label for label in found]


@pytest.mark.parametrize("instruction, expected", [("start", ["0", "1", "0", "1"]), ("pairs", ["0", "0", "1", "1"])])
def test_group_is_the_one_that_lists_the_gpu(instruction: str, expected: list[str]) -> None:
    assert labels(instruction, 4) == expected


def test_one_group_of_everybody_needs_no_name() -> None:
    assert labels("all", 4) == [None] * 4


def test_nothing_is_named_where_participants_are_not_the_gpus_of_the_node() -> None:
    """Eight GPUs and four participants (part of a node), a node nobody listed, no link, no communication."""
    assert labels("start", 8) == labels("start", 4, host="other") == labels(None, 4) == [None] * 4
    assert labels("start", 4, activity="compute") == [None] * 4
