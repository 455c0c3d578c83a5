"""Cost of collectives, for one device: payload, local traffic, and the additions of reductions.

The payload is the larger of what the device puts in and gets out, whatever the algorithm sends for it.
"""

from __future__ import annotations

from rocktools.errors import RocktoolsError
from rocktools.hlo.cost_arithmetic import Arithmetic, NoCostRule, count_computation, operand_shapes
from rocktools.hlo.cost_traffic import read_bytes_of, size_of
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.replica_groups import parse_replica_groups
from rocktools.hlo.shapes import Shape

COLLECTIVES = frozenset(
    {"all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all",
     "reduce-scatter"}
)  # fmt: skip
_START = "-start"
_REDUCING = frozenset({"all-reduce", "reduce-scatter"})
_INPUT_AND_RESULT = frozenset({"all-gather-start", "collective-permute-start"})


def find_collective(instruction: Instruction) -> str | None:
    """`all-gather` for `all-gather` and `all-gather-start`; None for what is no collective, and for `-done`."""
    kind = instruction.opcode.removesuffix(_START)
    return kind if kind in COLLECTIVES else None


def measure_collective(module: HloModule, instruction: Instruction) -> tuple[int, int, int]:
    """Bytes read, bytes written, and the payload, of one device.

    Raises:
        NoCostRule: an operand or an element type is unknown.
    """
    operands = operand_shapes(module, instruction)
    elements = {i: shape.elements_count for i, shape in enumerate(operands)}
    inputs = operands
    if find_collective(instruction) == "ragged-all-to-all":
        # Operand 1 is the result's buffer; the rest are offsets and sizes.
        elements.pop(1, None)
        inputs = operands[:1]
    written = sum(size_of(shape) for shape in results_of(instruction))
    payload = max(sum(size_of(shape) for shape in inputs), written)
    return read_bytes_of(module, instruction, elements), written, payload


def results_of(instruction: Instruction) -> tuple[Shape, ...]:
    """The arrays that the collective makes. Starts return their operands, too, and some return contexts (u32[])."""
    shape = instruction.shape
    if instruction.opcode in _INPUT_AND_RESULT and len(shape.elements) >= 2:
        shape = shape.elements[1]
    return tuple(shape.leaves())


def count_collective(module: HloModule, instruction: Instruction) -> Arithmetic:
    """Additions of one device if the work is shared evenly: (n - 1) / n of the input's elements in a group of n.

    Raises:
        NoCostRule: it reduces, and the size of its groups or its computation is unknown.
    """
    kind = find_collective(instruction)
    if kind not in _REDUCING:
        return Arithmetic()
    inputs = sum(shape.elements_count for shape in operand_shapes(module, instruction))
    size = group_size(module, instruction)
    if not instruction.called:
        raise NoCostRule("the computation that it reduces with is not in the module")
    return count_computation(module, instruction.called[-1]).times(inputs * (size - 1)).share(1, size)


def group_size(module: HloModule, instruction: Instruction) -> int:
    """Devices in a group of the collective.

    Raises:
        NoCostRule: the groups are unknown, or not of one size.
    """
    text = instruction.attributes.get("replica_groups", "")
    try:
        groups = parse_replica_groups(text)
    except (RocktoolsError, ValueError) as error:
        raise NoCostRule(f"its replica groups cannot be read: {text!r}") from error
    sizes = {len(group) for group in groups}
    if not sizes or sizes == {0}:  # `{}` is one group of everybody
        sizes = {_devices_count(module, instruction)}
    if len(sizes) != 1:
        raise NoCostRule(f"its replica groups have sizes {sorted(sizes)}")
    return sizes.pop()


def _devices_count(module: HloModule, instruction: Instruction) -> int:
    """Members of the one group of everybody: all partitions and replicas, or the replicas where no ids are global."""
    replicas = int(module.attributes.get("replica_count", "1"))
    partitions = int(module.attributes.get("num_partitions", "1"))
    has_global_ids = instruction.attributes.get("use_global_device_ids", "false") == "true"
    return replicas * partitions if has_global_ids else replicas
