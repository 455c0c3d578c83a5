"""A parameter of a computation -> what its values mean: found by following it to the instructions that use it.

Only what decides which values are legal or typical is told apart. Values are followed through whatever leaves them in
order of magnitude what they were; XLA clamps indices and starts, so that a bound that is missed costs time, not memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rocktools.hlo.cost_dot import parse_dimensions
from rocktools.hlo.module import Computation, HloModule, Instruction

_DEEPEST = 8
_FOLLOWED = frozenset(
    {
        *("bitcast", "reshape", "broadcast", "transpose", "copy", "convert", "slice", "concatenate", "select", "clamp"),
        *("minimum", "maximum", "pad", "dynamic-slice", "add", "subtract", "tuple", "get-tuple-element", "reverse"),
        *("gather", "multiply", "remainder", "and", "reduce-precision", "opt-barrier"),
    }
)
_ONLY_POSITIVE = frozenset({"sqrt", "rsqrt", "log"})
_KEEPS_SIGN = frozenset({"bitcast", "reshape", "broadcast", "transpose", "copy", "convert", "slice", "dynamic-slice"})
# Of what is never negative they make what is never negative, as long as the other operand is that, too.
_SUMS = frozenset({"add", "maximum", "minimum"})
_SCALINGS = frozenset({"multiply", "divide"})
_NAMES_OF_INDICES = frozenset({"gather", "scatter", "dynamic-slice", "dynamic-update-slice"})
_GROUPED = "__cublas$lt$groupedMatmul"


class Role(str, Enum):
    """What the values of a parameter mean."""

    DATA = "data"
    POSITIVE = "positive"  # data of which a root or a logarithm is taken
    INDEX = "index"  # of a gather or scatter
    START = "start"  # of a dynamic slice: a loop's counter, mostly
    SORT_KEY = "sort-key"
    PREDICATE = "predicate"
    INIT = "init"  # what a reduction starts from
    GROUP_SIZES = "group-sizes"  # of a ragged product: how many rows each group has
    INTEGER = "integer"  # nothing is known but its type
    RANDOM_STATE = "random-state"  # key and counter of a random number generator
    DEVICE_NUMBER = "device-number"  # partition or replica id

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What is known of the values of a parameter.

    Attributes:
        role: what they mean.
        bound: the largest legal value of an index or a start; the sum of group sizes; None elsewhere.
        is_sorted: whether the program promises that its indices are sorted.
        is_unique: whether it promises that they differ.
        uses: opcodes that take it as an index.
    """

    role: Role
    bound: int | None = None
    is_sorted: bool = False
    is_unique: bool = False
    uses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Use:
    """One place where a value ends up."""

    role: Role
    bound: int | None = None
    is_sorted: bool = False
    is_unique: bool = False
    opcode: str = ""


def find_meaning(module: HloModule, computation: Computation, parameter: Instruction) -> Meaning:
    """What the values of a parameter of a computation mean."""
    dtype = parameter.shape.dtype
    uses = list(_uses_of(module, computation, parameter.name, 0))
    if dtype == "pred":
        return Meaning(role=Role.PREDICATE)
    sizes = [use for use in uses if use.role is Role.GROUP_SIZES]
    if sizes:
        return Meaning(role=Role.GROUP_SIZES, bound=sizes[0].bound)
    if any(use.role is Role.RANDOM_STATE for use in uses):
        return Meaning(role=Role.RANDOM_STATE)
    if any(use.role is Role.SORT_KEY for use in uses):
        return Meaning(role=Role.SORT_KEY)
    if dtype[0] in "su":
        return _meaning_of_integers(parameter, uses)
    if any(use.role is Role.INIT for use in uses) and not parameter.shape.dimensions:
        return Meaning(role=Role.INIT)
    if any(use.role is Role.POSITIVE for use in uses):
        return Meaning(role=Role.POSITIVE)
    return Meaning(role=Role.DATA)


def _meaning_of_integers(parameter: Instruction, uses: list[_Use]) -> Meaning:
    indices = [use for use in uses if use.role in (Role.INDEX, Role.START)]
    if indices:
        bounds = [use.bound for use in indices if use.bound is not None]
        is_start = not parameter.shape.dimensions or all(use.role is Role.START for use in indices)
        return Meaning(
            role=Role.START if is_start else Role.INDEX,
            bound=max(0, min(bounds, default=0)),
            is_sorted=any(use.is_sorted for use in indices),
            is_unique=any(use.is_unique for use in indices),
            uses=tuple(sorted({use.opcode for use in indices})),
        )
    if any(use.role is Role.INIT for use in uses) and not parameter.shape.dimensions:
        return Meaning(role=Role.INIT)
    # Integers of a byte and less are quantised data; wider ones are counters, lengths, token numbers.
    is_small = parameter.shape.dtype.lstrip("su") in ("1", "2", "4", "8")
    return Meaning(role=Role.DATA if is_small else Role.INTEGER)


def _uses_of(module: HloModule, computation: Computation, name: str, depth: int) -> Iterator[_Use]:
    users: dict[str, list[tuple[Instruction, int]]] = {}
    for instruction in computation.instructions:
        for place, operand in enumerate(instruction.operands):
            users.setdefault(operand, []).append((instruction, place))
    derived = _derived_from(users, name)
    waiting: list[tuple[str, bool]] = [(name, True)]
    seen: set[tuple[str, bool]] = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for user, place in users.get(current[0], ()):
            yield from _direct_use(module, user, place, keeps_sign=current[1])
            if user.opcode in ("fusion", "call") and depth < _DEEPEST and user.called:
                inner = module.computations.get(user.called[0])
                if inner is not None and place < len(inner.parameters):
                    yield from _uses_of(module, inner, inner.parameters[place].name, depth + 1)
            elif _is_followed(user, place):
                waiting.append((user.name, current[1] and _keeps_sign(user, place, derived)))


def _derived_from(users: Mapping[str, list[tuple[Instruction, int]]], name: str) -> set[str]:
    """Everything that depends on the value, itself included."""
    found, waiting = {name}, [name]
    while waiting:
        names = {user.name for user, _ in users.get(waiting.pop(), ())} - found
        found |= names
        waiting += names
    return found


def _keeps_sign(user: Instruction, place: int, derived: set[str]) -> bool:
    """Whether the sign of the result is that of the value, as far as other values have none.

    A product with what depends on the same value is a square, mostly, and needs no sign.
    """
    if user.opcode in _SCALINGS:
        others = [operand for number, operand in enumerate(user.operands) if number != place]
        return not derived.intersection(others)
    return user.opcode in _KEEPS_SIGN or user.opcode in _SUMS


def _is_followed(user: Instruction, place: int) -> bool:
    if user.opcode == "select":
        return place > 0
    if user.opcode in ("gather", "dynamic-slice"):
        return place == 0
    if user.opcode == "divide":
        return place == 0 and user.shape.dtype[0] not in "su"
    return user.opcode in _FOLLOWED


def _direct_use(module: HloModule, user: Instruction, place: int, *, keeps_sign: bool) -> Iterator[_Use]:
    opcode = user.opcode
    if opcode in _ONLY_POSITIVE and keeps_sign:
        yield _Use(Role.POSITIVE)
    elif opcode == "sort" and place == 0:
        yield _Use(Role.SORT_KEY)
    elif opcode in ("reduce", "reduce-window") and place >= len(user.operands) // 2:
        yield _Use(Role.INIT)
    elif opcode == "rng-bit-generator":
        yield _Use(Role.RANDOM_STATE)
    elif place == 2 and (opcode == "ragged-dot" or user.custom_call_target == _GROUPED):
        yield _Use(Role.GROUP_SIZES, bound=_ragged_size(module, user))
    elif opcode in _NAMES_OF_INDICES:
        yield from _index_use(module, user, place)


def _index_use(module: HloModule, user: Instruction, place: int) -> Iterator[_Use]:
    operands = [module.instructions.get(name) for name in user.operands]
    if any(each is None for each in operands):
        return
    shapes = [each.shape for each in operands if each is not None]
    base, attributes = shapes[0].dimensions, user.attributes
    is_sorted = attributes.get("indices_are_sorted") == "true"
    if user.opcode == "gather" and place == 1:
        sizes = parse_dimensions(attributes.get("slice_sizes", ""))
        mapped = parse_dimensions(attributes.get("start_index_map", ""))
        bound = min((base[each] - sizes[each] for each in mapped), default=0)
        yield _Use(Role.INDEX, bound=bound, is_sorted=is_sorted, opcode="gather")
    elif user.opcode == "scatter" and place == len(shapes) // 2:
        mapped = parse_dimensions(attributes.get("scatter_dims_to_operand_dims", ""))
        bound = min((base[each] - 1 for each in mapped), default=0)
        is_unique = attributes.get("unique_indices") == "true"
        yield _Use(Role.INDEX, bound=bound, is_sorted=is_sorted, is_unique=is_unique, opcode="scatter")
    elif user.opcode == "dynamic-slice" and place >= 1 and place - 1 < len(base):
        bound = base[place - 1] - user.shape.dimensions[place - 1]
        yield _Use(Role.START, bound=bound, opcode="dynamic-slice")
    elif user.opcode == "dynamic-update-slice" and place >= 2 and place - 2 < len(base):
        bound = base[place - 2] - shapes[1].dimensions[place - 2]
        yield _Use(Role.START, bound=bound, opcode="dynamic-update-slice")


def _ragged_size(module: HloModule, user: Instruction) -> int | None:
    """Rows that the groups share: the ragged dimension of the left operand."""
    left = module.instructions.get(user.operands[0])
    if left is None:
        return None
    ragged = parse_dimensions(user.attributes.get("lhs_ragged_dims", ""))
    if not ragged:
        settings = user.backend_config()
        inner = settings.get("grouped_gemm_backend_config", settings)
        numbers = inner.get("ragged_dot_dimension_numbers") if isinstance(inner, dict) else None
        found = numbers.get("lhs_ragged_dimensions") if isinstance(numbers, dict) else None
        ragged = tuple(int(each) for each in found) if isinstance(found, list) else (0,)
    return left.shape.dimensions[ragged[0]] if ragged and ragged[0] < len(left.shape.dimensions) else None
