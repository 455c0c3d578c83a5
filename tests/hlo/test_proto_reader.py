"""HLO protos: the same as the text of the same module, whole; damage is one error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hlo_oracle import list_differences, require_xla
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.errors import DamagedFile
from rocktools.hlo.proto_fields import hlo_messages
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.text_reader import parse_hlo_text

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gallery_proto() -> bytes:
    """The gallery as XLA writes it."""
    data: bytes = require_xla().hlo_module_from_text(GALLERY).as_serialized_hlo_module_proto()
    return data


def tiny_proto(**module_fields: object) -> bytes:
    """A module of one computation: p0, p1, their sum; ids as in protos of 2024."""
    messages = hlo_messages()
    module = messages["Module"](name="jit_f", id=7, entry_computation_id=1, **module_fields)
    computation = module.computations.add(name="main", id=1, root_id=12)
    for number in (0, 1):
        computation.instructions.add(name=f"p{number}", opcode="parameter", parameter_number=number, id=10 + number)
    computation.instructions.add(name="sum", opcode="add", id=12, operand_ids=[10, 11])
    for instruction in computation.instructions:
        instruction.shape.element_type = 11
        instruction.shape.dimensions.append(8)
        instruction.shape.layout.minor_to_major.append(0)
    data: bytes = module.SerializeToString()
    return data


def edited(change: str, **fields: object) -> bytes:
    """`tiny_proto` with fields of its module, its computation or its last instruction set anew."""
    module = hlo_messages()["Module"].FromString(tiny_proto())
    computation = module.computations[0]
    target = {"module": module, "computation": computation, "instruction": computation.instructions[2]}[change]
    for name, value in fields.items():
        if isinstance(value, list):
            del getattr(target, name)[:]
            getattr(target, name).extend(value)
        else:
            setattr(target, name, value)
    data: bytes = module.SerializeToString()
    return data


def test_the_gallery_is_the_same_from_text_and_from_proto(gallery_proto):
    text, proto = parse_hlo_text(GALLERY, "text"), parse_hlo_proto(gallery_proto, "proto")
    assert list_differences(text, proto) == []
    assert list(text.computations) == list(proto.computations)
    assert (proto.is_complete, proto.is_scheduled, proto.findings) == (True, True, ())


PRINTED = {
    "as dumps have it": {},
    "names without %": {"print_percent": False},
    "operands with shapes": {"print_operand_shape": True},
    "computations without signature": {"print_program_shape": False},
}


@pytest.mark.parametrize("form", PRINTED)
def test_what_xla_prints_in_any_form_is_read_as_its_proto_is(form, gallery_proto):
    hlo = require_xla()
    options = hlo.HloPrintOptions()
    for name, value in PRINTED[form].items():
        setattr(options, name, value)
    # Printed text has `all-gather-start` for an asynchronous start of an all-gather, and leaves its computation out.
    lines = [line for line in GALLERY.splitlines() if "async-" not in line]
    module = hlo.hlo_module_from_text("\n".join(lines))
    text = parse_hlo_text(module.to_string(options), "text")
    assert list_differences(text, parse_hlo_proto(module.as_serialized_hlo_module_proto(), "proto")) == []


def test_a_proto_may_stand_in_an_hlo_proto():
    messages = hlo_messages()
    wrapped = messages["HloProto"](hlo_module=messages["Module"].FromString(tiny_proto())).SerializeToString()
    assert parse_hlo_proto(wrapped, "a").instructions == parse_hlo_proto(tiny_proto(), "a").instructions


def test_the_program_id_is_that_of_the_module_without_a_sign():
    assert parse_hlo_proto(tiny_proto(), "a").program_id == "7"
    assert parse_hlo_proto(edited("module", id=-1), "a").program_id == str(2**64 - 1)


def test_operands_may_be_named_by_the_lower_half_of_their_ids():
    module = hlo_messages()["Module"].FromString(tiny_proto())
    for instruction in module.computations[0].instructions:
        instruction.id += 1 << 32
    found = parse_hlo_proto(module.SerializeToString(), "a")
    assert found.instructions["sum"].operands == ("p0", "p1")
    assert found.computations["main"].root.name == "sum"


def test_instructions_stand_in_the_order_of_the_schedule():
    module = hlo_messages()["Module"].FromString(tiny_proto())
    module.schedule.sequences[1].instruction_ids.extend([11, 10, 12])
    found = parse_hlo_proto(module.SerializeToString(), "a")
    assert found.is_scheduled
    assert [(each.name, each.position) for each in found.instructions.values()] == [("p1", 0), ("p0", 1), ("sum", 2)]
    assert not parse_hlo_proto(tiny_proto(), "a").is_scheduled


def test_lists_of_groups_of_every_age_are_read():
    messages = hlo_messages()
    module = messages["Module"].FromString(tiny_proto())
    instruction = module.computations[0].instructions[2]
    instruction.opcode = "all-reduce"

    def groups() -> str:
        return parse_hlo_proto(module.SerializeToString(), "a").instructions["sum"].attributes["replica_groups"]

    assert groups() == "{}"
    instruction.replica_groups.add(replica_ids=[0, 1])  # to 2024
    assert groups() == "{{0,1}}"
    del instruction.replica_groups[:]
    instruction.collective_device_list.replica_groups.add(replica_ids=[2, 3])
    assert groups() == "{{2,3}}"
    old = instruction.collective_device_list.iota_replica_group_list  # 2024 and 2025
    old.num_replica_groups, old.num_devices_per_group = 2, 4
    old.iota_reshape_dims.extend([4, 2])
    old.iota_transpose_perm.extend([1, 0])
    assert groups() == "[2,4]<=[4,2]T(1,0)"


SHARDINGS = [
    *("{replicated}", "{manual}", "{unknown}", "{maximal device=2}", "{replicated shard_as 3}", "{devices=[8,1]<=[8]}"),
    *("{devices=[2,2,2]<=[8] last_tile_dim_replicate}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={manual}}"),
    *("{devices=[2,2,2]0,2,1,3,4,5,6,7 last_tile_dims={manual}}", "{maximal_mesh[device_id=3]}"),
    *("{mesh['x'=4,'y'=2], [{'x'}, {}]}", "{mesh['x'=4,'y'=2], [{'x', ?}, {?}]}", "{mesh['x'=4,'y'=2], replicated}"),
    *("{mesh['x'=4,'y'=2], [{}, {'x':(1)2}], replicated={'y'}}", "{mesh['x'=4,'y'=2], manual}"),
    *("{mesh['x'=4,'y'=2], [{'x'}, {}], unreduced={'y'}}", "{mesh['x'=4,'y'=2], unreduced}"),
    "{mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)), [{'y', 'x'}, {}]}",
]


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_shardings_are_written_as_xla_writes_them(sharding):
    line = f"ROOT %p = f32[8,8]{{1,0}} parameter(0), sharding={sharding}"
    text = f"HloModule m, num_partitions=8\n\nENTRY %e (p: f32[8,8]) -> f32[8,8] {{\n  {line}\n}}\n"
    module = require_xla().hlo_module_from_text(text)
    found = parse_hlo_proto(module.as_serialized_hlo_module_proto(), "proto").instructions["p"]
    assert found.attributes["sharding"] == sharding
    assert found.attributes == parse_hlo_text(module.to_string(), "text").instructions["p"].attributes


def test_settings_of_the_backend_may_stand_in_a_table_of_the_module():
    module = hlo_messages()["Module"].FromString(tiny_proto())
    module.payloads.extend([b'{"a":1}', b'{"b":2}'])
    instructions = module.computations[0].instructions
    instructions[0].backend_config_payload.id = 0
    instructions[1].backend_config_payload.value = b'{"c":3}'
    instructions[2].backend_config_payload.id = 9  # not in the table
    found = parse_hlo_proto(module.SerializeToString(), "a").instructions.values()
    assert [each.backend_config() for each in found] == [{"a": 1}, {"c": 3}, {}]


DAMAGED = {
    "nothing": b"",
    "no proto": b"\xff\xff\xff\xff",
    "text": b"HloModule m\n\nENTRY e {\n}\n",
    "zeros": bytes(100),
    "a missing operand": edited("instruction", operand_ids=[10, 99]),
    "a missing computation": edited("instruction", called_computation_ids=[5]),
    "a missing root": edited("computation", root_id=99),
    "a missing entry": edited("module", entry_computation_id=99),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_one_error(damage):
    with pytest.raises(DamagedFile) as caught:
        parse_hlo_proto(DAMAGED[damage], "step.hlo.pb")
    assert caught.value.where == "step.hlo.pb"
    assert caught.value.reference == "hlo-proto-damaged"


def test_a_schedule_of_other_instructions_is_damage():
    module = hlo_messages()["Module"].FromString(tiny_proto())
    module.schedule.sequences[1].instruction_ids.extend([10, 11])
    with pytest.raises(DamagedFile, match="schedule"):
        parse_hlo_proto(module.SerializeToString(), "a")


def test_impossible_shapes_are_damage():
    module = hlo_messages()["Module"].FromString(tiny_proto())
    shape = module.computations[0].instructions[0].shape
    shape.layout.minor_to_major.append(5)
    with pytest.raises(DamagedFile, match="layout"):
        parse_hlo_proto(module.SerializeToString(), "a")
    del shape.layout.minor_to_major[:]
    shape.dimensions[0] = -8
    with pytest.raises(DamagedFile, match="-8"):
        parse_hlo_proto(module.SerializeToString(), "a")


def test_every_prefix_of_a_proto_is_damage_or_a_module():
    data = tiny_proto()
    for length in range(len(data)):
        try:
            module = parse_hlo_proto(data[:length], "a")
        except DamagedFile:
            continue
        assert module.name == "jit_f"


@settings(max_examples=60)
@given(data=st.data())
def test_bytes_with_accidents_are_a_module_or_damage(gallery_proto, data):
    raw = bytearray(gallery_proto)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        module = parse_hlo_proto(bytes(raw), "a")
    except DamagedFile:
        return
    assert module.instructions
    assert all(instruction.shape.minor_to_major is not None for instruction in module.instructions.values())
