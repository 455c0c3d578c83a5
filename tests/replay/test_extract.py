"""A program of one instruction keeps what decides its code, and says in spec.json what it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from replay_programs import make_job, make_replay, run_readable

from rocktools.errors import CannotExtract, UsageError
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.thunks import Thunk, ThunkSequence
from rocktools.replay.bundled_inputs import numpy_dtype
from rocktools.replay.emit import SCHEMA_FILE
from rocktools.replay.extract import build_replay
from rocktools.replay.proto_edit import parse_program_proto
from rocktools.replay.select import select_instruction, select_kernel

PROGRAM = """HloModule made, is_scheduled=true, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

first_fused {
  p0 = f32[4,6]{0,1} parameter(0)
  p1 = s32[] parameter(1)
  p2 = f32[] parameter(2)
  z = f32[] constant(0)
  r = f32[4]{0} reduce(p0, z), dimensions={1}, to_apply=add
  ROOT n = f32[4]{0} negate(r)
}

second_fused {
  p0 = f32[5,4]{1,0} parameter(0)
  p1 = f32[1,4]{1,0} parameter(1)
  p2 = s32[] parameter(2)
  zero = s32[] constant(0)
  ROOT u = f32[5,4]{1,0} dynamic-update-slice(p0, p1, p2, zero)
}

third_fused {
  p0 = f32[4]{0} parameter(0)
  ROOT n = f32[4]{0} negate(p0)
}

fourth_fused {
  p0 = f32[4]{0} parameter(0)
  ROOT n = f32[4]{0} negate(p0)
}

ENTRY main {
  x = f32[4,6]{0,1} parameter(0)
  i = s32[] parameter(1)
  table = f32[5,4]{1,0} parameter(2)
  half = f32[] constant(0.5)
  fusion.1 = f32[4]{0} fusion(x, i, half), kind=kInput, calls=first_fused, metadata={op_name="jit(f)/sum" source_file="job.py" source_line=7}, backend_config={"fusion_backend_config":{"kind":"__x"}}
  fusion.2 = f32[4]{0} fusion(fusion.1), kind=kLoop, calls=third_fused, control-predecessors={fusion.1}
  fusion.3 = f32[4]{0} fusion(fusion.2), kind=kLoop, calls=fourth_fused
  row = f32[1,4]{1,0} bitcast(fusion.3)
  fusion.4 = f32[5,4]{1,0} fusion(table, row, i), kind=kLoop, calls=second_fused
  start = (f32[4]{0}, f32[8]{0}) all-gather-start(fusion.3), channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  done = f32[8]{0} all-gather-done(start)
  twice = f32[4]{0} add(fusion.3, fusion.3)
  ROOT all = (f32[5,4]{1,0}, f32[8]{0}, f32[4]{0}) tuple(fusion.4, done, twice)
}
"""  # noqa: E501
THUNKS = ThunkSequence(
    thunks=(
        Thunk(
            thunk_id=1,
            kind="kKernel",
            instruction="fusion.1",
            kernel="fusion_1",
            grid_workgroups=(3, 1, 1),
            workgroup_workitems=(64, 1, 1),
            lds_bytes=128,
        ),
        Thunk(thunk_id=2, kind="kKernel", instruction="fusion.2", kernel="fusion_2"),
        Thunk(thunk_id=3, kind="kKernel", instruction="fusion.3", kernel="fusion_2"),
        Thunk(thunk_id=4, kind="kKernel", instruction="fusion.4", kernel="fusion_4"),
    ),
    source="made",
)


@pytest.fixture(scope="module")
def job():
    return make_job(PROGRAM, thunks=THUNKS)


def _replay(job, name):
    return build_replay(job, select_instruction(job.program, name), rocktools_version="0")


def test_program_is_parameters_and_the_instruction_unchanged(job):
    replay = _replay(job, "fusion.1")
    alone = parse_hlo_proto(replay.program.data, "replay")
    assert alone.entry is not None
    entry = alone.entry.instructions
    assert [each.opcode for each in entry] == ["parameter", "parameter", "constant", "fusion"]
    root, original = entry[-1], job.program.module.instructions["fusion.1"]
    assert root.is_root
    assert (root.shape, root.fusion_kind) == (original.shape, original.fusion_kind)
    assert json.loads(root.attributes["backend_config"]) == json.loads(original.attributes["backend_config"])
    assert root.metadata.op_name == "jit(f)/sum"
    # The layout of the operand, the reducer, and nothing of the other fusions.
    assert str(entry[0].shape) == "f32[4,6]{0,1}"
    assert {name.partition(".")[0] for name in alone.computations} == {"main", "first_fused", "add"}
    assert alone.is_scheduled


def test_small_constant_stays_one_and_is_no_input(job):
    replay = _replay(job, "fusion.1")
    assert replay.program.constants == (2,)
    assert [each.origin for each in replay.inputs] == ["x", "i"]


def test_operand_that_is_read_twice_is_one_input(job):
    replay = _replay(job, "twice")
    assert [(each.origin, each.operands) for each in replay.inputs] == [("fusion.3", (0, 1))]


def test_schedule_covers_the_entry_and_reducers_but_not_fused_computations(job):
    module = parse_program_proto(_replay(job, "fusion.1").program.data, "replay").module
    names = {each.id: each.name for each in module.computations}
    assert sorted(names[number].partition(".")[0] for number in module.schedule.sequences) == ["add", "main"]


def test_instruction_is_named_after_the_kernel_of_the_job_and_its_twins_are_listed(job):
    replay = _replay(job, "fusion.3")
    alone = parse_hlo_proto(replay.program.data, "replay")
    assert alone.entry is not None
    assert alone.entry.root is not None
    assert alone.entry.root.name == "fusion_2"
    assert replay.spec["twins"] == ["fusion.2"]
    assert [finding.rule for finding in replay.findings][:1] == ["kernel-has-twins"]


def test_kernel_leads_to_its_first_instruction(job):
    chosen = select_kernel(job.program, "fusion_2.kd")
    assert (chosen.instruction.name, chosen.twins, chosen.is_sure) == ("fusion.2", ("fusion.3",), True)


def test_kernel_that_nothing_launches_is_refused_with_the_nearest_names(job):
    with pytest.raises(UsageError) as raised:
        select_kernel(job.program, "fusion_9")
    assert raised.value.reference == "unknown-kernel"
    assert "fusion_" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="unknown-instruction"):
        select_instruction(job.program, "fusion.9")


def test_without_thunks_equal_computations_are_twins():
    job = make_job(PROGRAM)
    chosen = select_kernel(job.program, "fusion_2")
    assert (chosen.instruction.name, chosen.twins, chosen.is_sure) == ("fusion.2", ("fusion.3",), False)
    replay = build_replay(job, chosen, rocktools_version="0")
    assert "kernel-name-not-known" in [finding.rule for finding in replay.findings]


def test_control_predecessors_are_left_behind(job):
    module = parse_program_proto(_replay(job, "fusion.2").program.data, "replay").module
    assert [
        list(each.control_predecessor_ids)
        for one in module.computations
        for each in one.instructions
        if each.control_predecessor_ids
    ] == []


def test_update_in_place_aliases_its_operand(job):
    replay = _replay(job, "fusion.4")
    assert replay.spec["aliases"] == {"origin": "inferred", "pairs": [{"output_index": [], "input": 0}]}
    alone = parse_hlo_proto(replay.program.data, "replay")
    assert alone.attributes["input_output_alias"] == "{ {}: (0, {}, may-alias) }"


def test_start_brings_its_done(job):
    replay = _replay(job, "start")
    alone = parse_hlo_proto(replay.program.data, "replay")
    assert alone.entry is not None
    assert [each.opcode for each in alone.entry.instructions] == ["parameter", "all-gather-start", "all-gather-done"]
    assert replay.spec["devices_count"] == 2
    assert replay.readable is not None
    assert replay.readable.devices_count == 2


def test_start_without_its_done_is_refused():
    text = PROGRAM.replace("  done = f32[8]{0} all-gather-done(start)\n", "").replace("done, twice", "twice, twice")
    job = make_job(
        text.replace("(f32[5,4]{1,0}, f32[8]{0}, f32[4]{0}) tuple", "(f32[5,4]{1,0}, f32[4]{0}, f32[4]{0}) tuple")
    )
    with pytest.raises(CannotExtract, match="done-missing"):
        _replay(job, "start")


@pytest.mark.parametrize("name", ["fusion.1", "fusion.3", "fusion.4", "start", "twice"])
def test_description_keeps_the_schema(job, name):
    jsonschema = pytest.importorskip("jsonschema")
    spec = json.loads(json.dumps(_replay(job, name).spec))
    jsonschema.validate(spec, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def test_description_says_where_it_is_from_and_what_is_launched(job):
    spec = _replay(job, "fusion.1").spec
    origin = spec["origin"]
    assert (origin["module"], origin["op_name"], origin["source_file"], origin["source_line"]) == (
        "made",
        "jit(f)/sum",
        "job.py",
        7,
    )
    assert spec["launches"] == [
        {
            "kind": "kKernel",
            "kernel": "fusion_1",
            "grid_workgroups": [3, 1, 1],
            "workgroup_workitems": [64, 1, 1],
            "lds_bytes": 128,
        }
    ]
    assert spec["inputs"][0]["minor_to_major"] == [0, 1]


def test_constant_inside_of_a_fusion_is_read_by_its_layout():
    text = """HloModule made, is_scheduled=true

fused {
  p0 = bf16[2,3]{1,0} parameter(0)
  c = bf16[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6.5}})
  t = bf16[2,3]{1,0} copy(c)
  ROOT s = bf16[2,3]{1,0} add(p0, t)
}

ENTRY main {
  x = bf16[2,3]{1,0} parameter(0)
  ROOT f = bf16[2,3]{1,0} fusion(x), kind=kLoop, calls=fused
}
"""
    (found,) = run_readable(make_replay(text, "f"), [np.zeros((2, 3), numpy_dtype("bf16"))])
    assert found.astype("f4").tolist() == [[1, 2, 3], [4, 5, 6.5]]


def test_constant_that_the_text_leaves_out_is_warned_of():
    text = """HloModule made, is_scheduled=true

fused {
  p0 = f32[64]{0} parameter(0)
  c = f32[64]{0} constant({...})
  ROOT s = f32[64]{0} add(p0, c)
}

ENTRY main {
  x = f32[64]{0} parameter(0)
  ROOT f = f32[64]{0} fusion(x), kind=kLoop, calls=fused
}
"""
    assert any("leaves out the values of c" in warning for warning in make_replay(text, "f").warnings)
    assert not any(
        "leaves out" in warning for warning in make_replay(text.replace("{...}", "{" + "1, " * 63 + "2}"), "f").warnings
    )
