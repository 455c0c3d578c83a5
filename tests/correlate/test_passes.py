"""Executions of one job in several passes, which share neither processes nor dispatch ids nor times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import rules
from spec_frames import make_agents, make_counted, make_processes, make_values

from rocktools.correlate.passes import MATCHED_COUNTERS, compare_passes, match_counters, number_executions
from rocktools.errors import ContractError
from rocktools.findings import Severity
from rocktools.frames import require_frame

GRID = "grid_workitems_x"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One execution in the job: where, of what, and how large."""

    process: int = 0
    device: int = 0
    kernel: str = "loop_fusion_3"
    grid: int = 256
    replay_pass: int | None = None
    value: float = 1.0
    counters: tuple[str, ...] = ("SQ_WAVES",)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass: what the job launched in it, and what is accidental about it."""

    label: str
    launches: Sequence[Launch]
    first_id: int = 1
    first_pid: int = 100
    agent_offset: int = 4
    time_offset_ns: int = 0
    ranks: bool = False
    backward_names: bool = False

    def process(self, number: int) -> str:
        """Labels are random in real life; here they may even sort against the process ids."""
        return f"{self.label}_{9 - number if self.backward_names else number}"


def frames_of(*passes: Pass) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Counted dispatches, values, processes and agents of all passes."""
    counted, values, processes, agents = [], [], [], []
    for each in passes:
        numbers = sorted({launch.process for launch in each.launches})
        devices = sorted({launch.device for launch in each.launches})
        for number in numbers:
            identity = {"run": "r", "process": each.process(number)}
            rank = number if each.ranks else None
            processes.append({**identity, "pid": each.first_pid + 7 * number, "rank": rank})
            agents += [
                {**identity, "agent_id": each.agent_offset + device, "type_index": device, "kind": "GPU"}
                for device in devices
            ]
        ids = dict.fromkeys(numbers, each.first_id)
        for launch in each.launches:
            identity = {"run": "r", "process": each.process(launch.process), "pass": each.label}
            identity |= {"dispatch_id": ids[launch.process], "replay_pass": launch.replay_pass}
            ids[launch.process] += 3
            counted.append(
                {
                    **identity,
                    "agent_id": each.agent_offset + launch.device,
                    "kernel_id": 1,
                    "kernel_name": launch.kernel,
                    "pass_start_ns": each.time_offset_ns + ids[launch.process],
                    "pass_end_ns": each.time_offset_ns + ids[launch.process] + 1,
                    GRID: launch.grid,
                }
            )
            values += [{**identity, "counter": counter, "value": launch.value} for counter in launch.counters]
    return make_counted(counted), make_values(values), make_processes(processes), make_agents(agents)


def numbered_of(*passes: Pass) -> pd.DataFrame:
    counted, _, processes, agents = frames_of(*passes)
    return number_executions(counted, processes, agents)


def matched_of(*passes: Pass) -> pd.DataFrame:
    counted, values, processes, agents = frames_of(*passes)
    return match_counters(values, number_executions(counted, processes, agents))


def places(numbered: pd.DataFrame, label: str) -> list[tuple[str, int, str, int]]:
    rows = numbered[numbered["pass"] == label]
    return list(zip(rows["role"], rows["device_index"], rows["kernel_name"], rows["ordinal"], strict=True))


MIXED = (
    Launch(process=1, kernel="gemm"),
    Launch(process=0, kernel="gemm"),
    Launch(process=0, kernel="loop"),
    Launch(process=0, kernel="gemm", device=1),
    Launch(process=0, kernel="gemm"),
    Launch(process=1, kernel="gemm"),
)
MIXED_PLACES = [
    ("process 0", 0, "gemm", 1),
    ("process 0", 0, "loop", 1),
    ("process 0", 1, "gemm", 1),
    ("process 0", 0, "gemm", 2),
    ("process 1", 0, "gemm", 1),
    ("process 1", 0, "gemm", 2),
]
FIRST = Pass(label="fabric_1", launches=MIXED)
# The same job again; everything accidental differs.
SECOND = Pass(
    label="fabric_2",
    launches=MIXED,
    first_id=5_000,
    first_pid=40,
    agent_offset=11,
    time_offset_ns=13_000_000_000_000_000,
    backward_names=True,
)


def test_an_execution_is_numbered_within_its_process_device_and_kernel():
    assert places(numbered_of(FIRST), "fabric_1") == MIXED_PLACES


def test_places_do_not_depend_on_ids_labels_agents_and_times():
    numbered = numbered_of(SECOND, FIRST)
    assert places(numbered, "fabric_1") == places(numbered, "fabric_2") == MIXED_PLACES


def test_every_column_is_kept_and_three_are_added():
    counted, _, processes, agents = frames_of(FIRST)
    before = counted.copy()
    numbered = number_executions(counted, processes, agents)
    assert list(numbered.columns) == [*counted.columns, "role", "device_index", "ordinal"]
    assert len(numbered) == len(counted)
    assert counted.equals(before)
    assert str(numbered["ordinal"].dtype) == str(numbered["device_index"].dtype) == "int64"


def test_rows_are_ordered_by_pass_role_and_dispatch():
    numbered = numbered_of(SECOND, FIRST)
    keys = list(zip(numbered["pass"], numbered["role"], numbered["dispatch_id"], strict=True))
    assert keys == sorted(keys)


def test_the_order_of_the_input_does_not_matter():
    counted, _, processes, agents = frames_of(FIRST, SECOND)
    shuffled = counted.sample(frac=1, random_state=3, ignore_index=True)
    expected = number_executions(counted, processes, agents)
    assert number_executions(shuffled, processes, agents).astype(object).equals(expected.astype(object))


def test_known_ranks_name_the_processes():
    ranked = replace(FIRST, ranks=True)
    assert {role for role, *_ in places(numbered_of(ranked), "fabric_1")} == {"rank 0", "rank 1"}


def test_ranks_hold_where_process_ids_are_in_another_order():
    counted, _, processes, agents = frames_of(replace(FIRST, ranks=True))
    pids = processes["pid"].max() - processes["pid"] + 1
    numbered = number_executions(counted, processes.assign(pid=pids.astype("Int64")), agents)
    assert places(numbered, "fabric_1") == [
        (role.replace("process", "rank"), device, kernel, ordinal) for role, device, kernel, ordinal in MIXED_PLACES
    ]


def test_processes_that_share_a_rank_are_told_apart():
    """A rank found in the path of the run is that of all processes of the job."""
    counted, values, processes, agents = frames_of(FIRST, SECOND)
    ranked = processes.assign(rank=pd.array([0] * len(processes), dtype="Int64"))
    numbered = number_executions(counted, ranked, agents)
    expected = [(f"rank 0 {role}", device, kernel, ordinal) for role, device, kernel, ordinal in MIXED_PLACES]
    assert places(numbered, "fabric_1") == places(numbered, "fabric_2") == expected
    assert compare_passes(numbered, where="x") == []
    require_frame(match_counters(values, numbered), MATCHED_COUNTERS)


def test_processes_that_nobody_describes_are_still_counted():
    counted, _, processes, agents = frames_of(FIRST)
    numbered = number_executions(counted, processes.iloc[:0], agents.iloc[:0])
    assert [place[0] for place in places(numbered, "fabric_1")] == [place[0] for place in MIXED_PLACES]
    assert {place[1] for place in places(numbered, "fabric_1")} == {4, 5}


def test_passes_of_a_replay_are_numbered_each_for_itself():
    launches = [Launch(replay_pass=number) for _ in range(3) for number in (0, 1)]
    counted, _, processes, agents = frames_of(Pass(label="p", launches=launches))
    same_dispatch = counted.assign(dispatch_id=[1, 1, 5, 5, 9, 9])
    numbered = number_executions(same_dispatch, processes, agents)
    rows = zip(numbered["dispatch_id"], numbered["replay_pass"], numbered["ordinal"], strict=True)
    assert sorted(rows) == [(1, 0, 1), (1, 1, 1), (5, 0, 2), (5, 1, 2), (9, 0, 3), (9, 1, 3)]


def test_nothing_counted_has_no_place():
    counted, _, processes, agents = frames_of()
    numbered = number_executions(counted, processes, agents)
    assert numbered.empty
    assert compare_passes(numbered, where="x") == []


def test_equal_passes_do_not_differ():
    assert compare_passes(numbered_of(FIRST, SECOND), where="x") == []


def test_one_pass_has_nothing_to_differ_from():
    assert compare_passes(numbered_of(FIRST), where="x") == []


def test_a_kernel_that_is_missing_in_one_pass_is_a_fault():
    other = replace(SECOND, launches=[launch for launch in MIXED if launch.kernel != "loop"])
    [finding] = compare_passes(numbered_of(FIRST, other), where="run")
    assert (finding.rule, finding.severity, finding.where) == ("passes-differ-in-executions", Severity.FAULT, "run")
    assert finding.message == ("loop of process 0 on device 0 was counted 1 times in fabric_1 and 0 times in fabric_2")
    assert finding.numbers == {"first_count": 1, "other_count": 0}


def test_a_kernel_that_only_the_other_pass_has_is_a_fault():
    other = replace(SECOND, launches=[*MIXED, Launch(kernel="new")])
    [finding] = compare_passes(numbered_of(FIRST, other), where="run")
    assert finding.numbers == {"first_count": 0, "other_count": 1}
    assert finding.message.startswith("new of process 0")


def test_an_extra_execution_is_a_fault():
    other = replace(SECOND, launches=[*MIXED, Launch(process=1, kernel="gemm")])
    [finding] = compare_passes(numbered_of(FIRST, other), where="run")
    assert finding.message.startswith("gemm of process 1 on device 0")
    assert finding.numbers == {"first_count": 2, "other_count": 3}


def test_another_device_is_a_fault():
    moved = [replace(launch, device=1) if launch.kernel == "loop" else launch for launch in MIXED]
    findings = compare_passes(numbered_of(FIRST, replace(SECOND, launches=moved)), where="run")
    assert rules(findings) == ["passes-differ-in-executions"] * 2


def test_another_grid_is_a_fault_with_its_executions():
    first = Pass(label="a", launches=[Launch(grid=64) for _ in range(6)])
    other = Pass(label="b", launches=[Launch(grid=64 if number in (0, 2) else 128) for number in range(6)])
    [finding] = compare_passes(numbered_of(first, other), where="run")
    assert (finding.rule, finding.severity) == ("passes-differ-in-geometry", Severity.FAULT)
    assert finding.numbers == {"differing_count": 4}
    assert finding.message == (
        "loop_fusion_3: 4 executions (number 2, 4, 5, ...) have another grid or workgroup in b than in a"
    )


def test_three_executions_are_all_listed():
    first = Pass(label="a", launches=[Launch(grid=64) for _ in range(3)])
    other = Pass(label="b", launches=[Launch(grid=128) for _ in range(3)])
    [finding] = compare_passes(numbered_of(first, other), where="run")
    assert "(number 1, 2, 3)" in finding.message


@pytest.mark.parametrize(
    "column", ["grid_workitems_y", "grid_workitems_z", "workgroup_workitems_x", "workgroup_workitems_z"]
)
@pytest.mark.parametrize(
    "ours, theirs, is_fault", [(1, 1, False), (1, 2, True), (None, None, False), (1, None, True), (None, 2, True)]
)
def test_every_axis_counts_and_missing_equals_missing(column, ours, theirs, is_fault):
    numbered = numbered_of(Pass(label="a", launches=[Launch()]), Pass(label="b", launches=[Launch()]))
    numbered = numbered.assign(**{column: pd.array([ours, theirs], dtype="Int64")})
    assert rules(compare_passes(numbered, where="x")) == ["passes-differ-in-geometry"] * is_fault


def test_every_pass_is_compared_with_the_first():
    third = replace(SECOND, label="fabric_3", launches=[*MIXED, Launch(kernel="new")])
    fourth = replace(SECOND, label="fabric_4", launches=MIXED[1:])
    findings = compare_passes(numbered_of(FIRST, SECOND, third, fourth), where="x")
    assert rules(findings) == ["passes-differ-in-executions"] * 2
    assert "fabric_1 and 1 times in fabric_3" in findings[0].message
    assert "fabric_1 and 1 times in fabric_4" in findings[1].message


def test_replays_count_once():
    first = Pass(label="a", launches=[Launch(), Launch()])
    replayed = [Launch(replay_pass=number) for _ in range(2) for number in (0, 1, 2)]
    counted, _, processes, agents = frames_of(first, Pass(label="b", launches=replayed))
    ids = [*counted["dispatch_id"].iloc[:2], 1, 1, 1, 2, 2, 2]
    numbered = number_executions(counted.assign(dispatch_id=ids), processes, agents)
    assert compare_passes(numbered, where="x") == []


def test_values_of_two_passes_meet_by_place_and_never_by_dispatch_id():
    """The ids of the second pass are those of the first in reverse: joined by id, every value would be wrong."""
    first = Pass(
        label="a", launches=[Launch(kernel=f"k{number % 2}", value=100 + number) for number in range(6)], first_id=1
    )
    second = Pass(
        label="b",
        launches=[Launch(kernel=f"k{number % 2}", value=200 + number, counters=("TCC_HIT",)) for number in range(6)],
        first_id=4,
    )
    matched = matched_of(first, second)
    table = matched.pivot_table(
        index=["kernel_name", "ordinal"], columns="counter", values="sum_value", observed=True
    ).to_dict("index")
    assert table == {
        (f"k{number % 2}", number // 2 + 1): {"SQ_WAVES": 100 + number, "TCC_HIT": 200 + number} for number in range(6)
    }


def test_matched_values_keep_their_contract_and_order():
    matched = require_frame(matched_of(SECOND, FIRST), MATCHED_COUNTERS)
    assert not matched.duplicated(list(MATCHED_COUNTERS.key)).any()
    keys = list(matched[list(MATCHED_COUNTERS.sort)].astype(object).itertuples(index=False, name=None))
    assert keys == sorted(keys)


def test_a_counter_of_several_passes_has_a_row_for_each():
    matched = matched_of(Pass(label="a", launches=[Launch(value=1)]), Pass(label="b", launches=[Launch(value=2)]))
    assert list(zip(matched["pass"], matched["sum_value"], strict=True)) == [("a", 1.0), ("b", 2.0)]


def test_counters_of_replay_passes_stand_at_one_place():
    launches = [
        Launch(replay_pass=0, counters=("A", "B"), value=1),
        Launch(replay_pass=1, counters=("C",), value=2),
    ]
    counted, values, processes, agents = frames_of(Pass(label="p", launches=launches))
    one_id = {"dispatch_id": [1, 1]}
    numbered = number_executions(counted.assign(**one_id), processes, agents)
    matched = match_counters(values.assign(dispatch_id=1), numbered)
    assert list(zip(matched["ordinal"], matched["counter"], matched["sum_value"], strict=True)) == [
        (1, "A", 1.0),
        (1, "B", 1.0),
        (1, "C", 2.0),
    ]


def test_a_missing_value_stays_missing():
    counted, values, processes, agents = frames_of(Pass(label="p", launches=[Launch(), Launch()]))
    holed = values.assign(sum_value=[float("nan"), 5.0], instances_count=pd.array([None, 2], dtype="Int64"))
    matched = match_counters(holed, number_executions(counted, processes, agents))
    assert matched["sum_value"].isna().tolist() == [True, False]
    assert matched["instances_count"].isna().tolist() == [True, False]


def test_a_counter_that_an_execution_lacks_has_no_row_there():
    launches = [Launch(counters=("A", "B")), Launch(counters=("A",))]
    matched = matched_of(Pass(label="p", launches=launches))
    assert list(zip(matched["ordinal"], matched["counter"], strict=True)) == [(1, "A"), (1, "B"), (2, "A")]


def test_values_without_an_execution_are_our_own_fault():
    _, values, _, _ = frames_of(FIRST)
    with pytest.raises(ContractError):
        match_counters(values, numbered_of(SECOND))


def test_no_values_are_an_empty_frame():
    _, values, _, _ = frames_of()
    require_frame(match_counters(values, numbered_of(FIRST)), MATCHED_COUNTERS)


launches = st.builds(
    Launch,
    process=st.integers(0, 2),
    device=st.integers(0, 1),
    kernel=st.sampled_from(["a", "b"]),
    grid=st.sampled_from([64, 128]),
    value=st.integers(0, 1000).map(float),
)


@settings(max_examples=20)
@given(job=st.lists(launches, min_size=1, max_size=12), seed=st.integers(0, 99), ranks=st.booleans())
def test_a_job_that_repeats_exactly_is_matched_exactly(job, seed, ranks):
    chance = random.Random(seed)
    again = [replace(launch, value=launch.value + 5_000, counters=("TCC_HIT",)) for launch in job]
    first = Pass(label="a", launches=job, ranks=ranks, first_id=chance.randint(1, 50))
    second = Pass(
        label="b",
        launches=again,
        ranks=ranks,
        first_id=chance.randint(1, 50),
        first_pid=chance.randint(1, 500),
        agent_offset=chance.randint(0, 9),
        backward_names=chance.random() < 0.5,
    )
    assert compare_passes(numbered_of(first, second), where="x") == []
    matched = matched_of(first, second)
    keys = ["role", "device_index", "kernel_name", "ordinal"]
    table = matched.pivot_table(index=keys, columns="counter", values="sum_value", observed=True)
    assert len(table) == len(job)
    assert (table["TCC_HIT"] - table["SQ_WAVES"]).eq(5_000).all()


@settings(max_examples=20)
@given(job=st.lists(launches, min_size=2, max_size=8), position=st.integers(0, 7))
def test_a_job_that_launches_one_kernel_less_is_always_noticed(job, position):
    at = position % len(job)
    shorter = [launch for number, launch in enumerate(job) if number != at]
    findings = compare_passes(
        numbered_of(Pass(label="a", launches=job, ranks=True), Pass(label="b", launches=shorter, ranks=True)), where="x"
    )
    assert "passes-differ-in-executions" in rules(findings)
