"""A program of one instruction as XLA's own CPU compiler takes it: nothing fused, nothing laid out, no bitcasts.

The counterpart of the readable form: XLA reads the same instructions itself, with all that their attributes mean, by
way of its own conversion from HLO to StableHLO, which jaxlib brings. What is changed before: a fusion becomes a call;
layouts become row-major, which changes nothing that an instruction means, a bitcast excepted, which becomes the
transpositions and the reshape that say the same; aliases, schedule and settings of a backend are dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rocktools.hlo.proto_fields import hlo_messages

_TUPLE = 13
_LOWER = 0xFFFFFFFF


def plain_program(data: bytes) -> bytes:
    """The program without fusions, bitcasts and layouts.

    Args:
        data: serialised HloModuleProto, as `replay.hlo.pb` holds it.
    """
    module = hlo_messages()["Module"].FromString(data)
    module.ClearField("schedule")
    module.ClearField("input_output_alias")
    del module.payloads[:]
    for computation in module.computations:
        _make_plain(computation)
    for shape in (*module.host_program_shape.parameters, module.host_program_shape.result):
        _lay_out_by_rows(shape)
    plain: bytes = module.SerializeToString()
    return plain


def run_plain_program(data: bytes, arguments: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The results of a plain program on the CPU, leaf by leaf."""
    import jax
    from jaxlib import xla_client

    parts = xla_client._xla.mlir
    code = parts.hlo_to_stablehlo(data)
    device = jax.devices("cpu")[0]
    options = xla_client.CompileOptions()
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    client = device.client
    if hasattr(client, "compile_and_load"):  # jaxlib since 0.6.1
        loaded = client.compile_and_load(code, xla_client.DeviceList((device,)), options)
    else:
        loaded = client.compile(code, options)
    placed = [jax.device_put(each, device) for each in arguments]
    results = loaded.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [np.asarray(each[0]) for each in results]


def _make_plain(computation: Any) -> None:
    shapes = {each.id & _LOWER: each.shape for each in computation.instructions}
    numbers = itertools.count(max(shapes) + 1)
    found: list[Any] = []
    for each in computation.instructions:
        for name in ("backend_config", "backend_config_payload", "fusion_kind", "sharding"):
            each.ClearField(name)
        if each.opcode == "fusion":
            each.opcode = "call"
        found += (
            _spelled_out(each, shapes[each.operand_ids[0] & _LOWER], numbers) if each.opcode == "bitcast" else [each]
        )
    made = [each.SerializeToString() for each in found]
    del computation.instructions[:]
    computation.instructions.extend(hlo_messages()["Instruction"].FromString(each) for each in made)
    signature = computation.program_shape
    literals = (each.literal.shape for each in computation.instructions if each.HasField("literal"))
    shown = (each.shape for each in computation.instructions)
    for shape in (*shown, *literals, *signature.parameters, signature.result):
        _lay_out_by_rows(shape)


def _spelled_out(bitcast: Any, source: Any, numbers: Iterator[int]) -> list[Any]:
    """The bytes in the order of memory, another shape, and the dimensions put where they belong."""
    before, after = _in_memory(source), _in_memory(bitcast.shape)
    element_type, found = bitcast.shape.element_type, []
    operand = bitcast.operand_ids[0]

    def add(opcode: str, sizes: Sequence[int], **fields: Any) -> None:
        nonlocal operand
        number = bitcast.id & ~_LOWER | next(numbers)
        each = hlo_messages()["Instruction"](
            name=f"{bitcast.name}.{len(found)}", opcode=opcode, id=number, operand_ids=[operand], **fields
        )
        each.shape.element_type = element_type
        each.shape.dimensions.extend(sizes)
        found.append(each)
        operand = number

    if source.element_type != element_type:
        add("bitcast-convert", source.dimensions)
    add("transpose", [source.dimensions[place] for place in before], dimensions=before)
    add("reshape", [bitcast.shape.dimensions[place] for place in after])
    bitcast.opcode = "transpose"
    bitcast.operand_ids[:] = [operand]
    bitcast.dimensions[:] = [after.index(place) for place in range(len(after))]
    return [*found, bitcast]


def _in_memory(shape: Any) -> list[int]:
    """Dimensions in the order of memory, the most major one first."""
    return list(reversed(shape.layout.minor_to_major)) or list(range(len(shape.dimensions)))


def _lay_out_by_rows(shape: Any) -> None:
    if shape.element_type != _TUPLE:
        shape.layout.minor_to_major[:] = list(reversed(range(len(shape.dimensions))))
        shape.layout.memory_space = 0
        del shape.layout.tiles[:]
    for each in shape.tuple_shapes:
        _lay_out_by_rows(each)
