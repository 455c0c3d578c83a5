"""The compiled programs of real jobs: the same instructions as XLA's own parser gives, and known figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hlo_oracle import list_differences, require_xla

from rocktools.hlo.call_graph import count_computation_calls
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.hlo.module import HloModule
from rocktools.hlo.proto_fields import hlo_messages
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.reading import read_hlo
from rocktools.hlo.replica_groups import parse_replica_groups, parse_source_target_pairs
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.sources.xspace.opening import open_xspace

MIXTRAL = "data/hlo/gfx950-mixtral-8x22b/{}/module_0001.jit_step.gfx950_gpu_after_optimizations.txt"
MAXTEXT = "data/hlo/gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt"
COMPLETE = [
    *(
        f"data/hlo/gfx942/module_0011.jit_gspmd.{kind}.txt"
        for kind in ("before_optimizations", "after_spmd_partitioner")
    ),
    "data/hlo/gfx942/module_0011.jit_gspmd.gfx942_gpu_after_optimizations.txt",
    "data/hlo/gfx942/module_0014.jit_shardmap.before_optimizations.txt",
    "data/hlo/gfx942/module_0014.jit_shardmap.gfx942_gpu_after_optimizations.txt",
    "data/hlo/gfx950/lhs_on.after_optimizations.txt",
    "data/hlo/gfx950/moe_ragged_grouped.after_optimizations.txt",
    MAXTEXT,
    MIXTRAL.format("triton"),
    MIXTRAL.format("blaslt"),
    "data/xplane/cpu_moe/module_0036.jit_train_step.cpu_after_optimizations.txt",
]
# XLA's parser gives the instruction in an asynchronous computation the settings of the start that calls it.
WRAPPED = frozenset({"backend_config", "scheduling_name"})
NOT_PRINTED = frozenset({"deduplicated_name"})
PROFILES = ["mi355_te_fused_attn", "jax08_attention", "jax_conv_minimal_08", "cpu_moe"]


def opcodes(module: HloModule) -> Counter[str]:
    return Counter(instruction.opcode for instruction in module.instructions.values())


@pytest.mark.parametrize("name", COMPLETE, ids=lambda name: Path(name).name)
def test_a_complete_dump_is_read_as_xla_reads_it(name, shared):
    """Every instruction: opcode, shape, operands, calls, attributes, metadata, order; as in XLA's proto of the text."""
    path = shared / name
    text = read_hlo(path)
    xla = require_xla().hlo_module_from_text(path.read_text())
    proto = parse_hlo_proto(xla.as_serialized_hlo_module_proto(), "xla")
    assert list_differences(text, proto, but=WRAPPED) == []
    wrapped = [name for each in text.instructions.values() if each.opcode == "async-start" for name in each.called]
    inside = {each.name for name in wrapped for each in text.computations[name].instructions}
    assert {line.split()[0] for line in list_differences(text, proto)} <= inside
    assert text.is_complete
    assert list(text.computations) == [computation.name for computation in xla.computations()]


@pytest.mark.parametrize("name", ["data/hlo/gfx950/lhs_on.after_optimizations.txt", MIXTRAL.format("triton")])
def test_names_operands_and_opcodes_are_those_xla_gives_one_by_one(name, shared):
    """Without our reader of protos in between."""
    path = shared / name
    text = read_hlo(path)
    for computation in require_xla().hlo_module_from_text(path.read_text()).computations():
        for theirs in computation.instructions():
            ours = text.instructions[theirs.name]
            assert ours.computation == computation.name
            assert ours.operands == tuple(operand.name for operand in theirs.operands())
            printed = re.sub(r"/\*.*?\*/", "", theirs.to_string())
            assert printed.startswith(f"%{theirs.name} = {ours.shape} ")


@pytest.mark.parametrize("build", ["triton", "blaslt"])
def test_the_proto_of_a_dump_is_read_as_its_text_is(build, shared):
    text_path = shared / MIXTRAL.format(build)
    proto_path = text_path.with_name(text_path.name.replace(".txt", ".hlo.pb"))
    text, proto = read_hlo(text_path), read_hlo(proto_path)
    assert list_differences(text, proto, but=NOT_PRINTED) == []
    assert (proto.program_id, text.program_id) == ("1", None)
    assert proto.attributes["num_partitions"] == text.attributes["num_partitions"] == "8"


def test_maxtext_has_its_known_figures(shared):
    module = read_hlo(shared / MAXTEXT)
    assert len(module.instructions) == 9917
    assert (opcodes(module)["fusion"], opcodes(module)["custom-call"]) == (507, 85)
    assert all(each.metadata.source_file for each in module.instructions.values() if each.metadata.source_line)


@pytest.mark.parametrize("build, fusions_count, matmuls_count", [("triton", 323, 0), ("blaslt", 266, 49)])
def test_mixtral_has_its_known_figures(build, fusions_count, matmuls_count, shared):
    module = read_hlo(shared / MIXTRAL.format(build))
    targets = Counter(each.custom_call_target for each in module.instructions.values())
    assert (opcodes(module)["fusion"], targets["__cublas$lt$matmul"]) == (fusions_count, matmuls_count)
    # 56 layers in 2 accumulation steps, forward and backward.
    counts = count_computation_calls(module)
    loops = [each for each in module.instructions.values() if each.opcode == "while"]
    assert sorted(counts[each.called[0]] for each in loops) == [2, 112, 112]


@pytest.mark.parametrize("name", COMPLETE, ids=lambda name: Path(name).name)
def test_every_group_of_devices_is_understood(name, shared):
    module = read_hlo(shared / name)
    devices_count = int(module.attributes.get("num_partitions", "1"))
    for instruction in module.instructions.values():
        if "replica_groups" in instruction.attributes:
            groups = parse_replica_groups(instruction.attributes["replica_groups"], devices_count=devices_count)
            assert sorted(device for group in groups for device in group) == list(range(devices_count))
        if "source_target_pairs" in instruction.attributes:
            assert parse_source_target_pairs(instruction.attributes["source_target_pairs"])


def test_truncated_text_gives_what_is_there_and_says_where_it_stops(shared):
    module = read_hlo(shared / "data/hlo/tpu/maxtext-llama3-8b.truncated.txt")
    assert (len(module.computations), len(module.instructions), module.entry_name) == (176, 1459, None)
    assert not module.is_complete
    (finding,) = module.findings
    assert finding.rule == "hlo-text-truncated"
    assert finding.where.endswith("maxtext-llama3-8b.truncated.txt, line 2001, column 1")


def test_a_sketch_of_a_program_gives_what_is_like_hlo_in_it(shared):
    """Two whiles without a shape and a constant among operands are no HLO text, and 16 other lines are."""
    module = read_hlo(shared / "data/hlo/gfx950/truncated-toy.txt")
    assert [finding.numbers["line"] for finding in module.findings if "line" in finding.numbers] == [6, 24, 29]
    assert {finding.rule for finding in module.findings} == {"hlo-text-unreadable-line", "hlo-not-scheduled"}
    assert (len(module.computations), module.is_complete) == (5, False)


def test_every_folder_of_dumps_is_grouped(shared):
    found = find_dumps(shared / "data/hlo")
    assert len(found) == 7
    for dump in found:
        program = read_program(dump)
        assert program.module.findings == ()
        assert (program.thunks is None) == (dump.thunk_sequence_path is None)
    assert [dump.stem for dump in found if dump.proto_path] == ["module_0001.jit_step"] * 2


@pytest.mark.parametrize("name", PROFILES)
def test_the_protos_in_profiles_are_read_as_xla_prints_them(name, shared):
    """Of each proto the text that jaxlib prints, read by the reader of text."""
    hlo = require_xla()
    (path,) = (shared / "data/xplane" / name).glob("*.xplane.pb")
    with open_xspace(path) as profile:
        protos = profile.hlo_protos()
    assert protos
    for program_id, proto in protos.items():
        module = parse_hlo_proto(proto, program_id)
        assert module.program_id == program_id
        bare = _hlo_module(proto)
        printed = hlo.HloModule.from_serialized_hlo_module_proto(bare).to_string()
        text = parse_hlo_text(printed, program_id)
        assert list_differences(text, module, but=NOT_PRINTED) == []


def _hlo_module(proto: bytes) -> bytes:
    """The module alone, which is all that jaxlib takes."""
    data: bytes = hlo_messages()["HloProto"].FromString(proto).hlo_module.SerializeToString()
    return data
