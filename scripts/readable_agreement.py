"""One replay -> whether its readable form translates, compiles on the CPU, and computes what the program says.

Three things are shown, and no more:

* At full size, XLA compiles the readable form for the CPU. Nothing is run: some operands are larger than this machine.
* The small program (shrink_program.py) has the same readable form, line by line, apart from numbers; its constants are
  the same to the byte.
* At small sizes, the readable form gives what XLA makes of the program by its own reading of it (plain_program.py),
  and what rocktools' interpreter gives, for the inputs that the replay makes; and once more for their absolute values
  where roots of negative numbers hide the rest.

What a result does not show is not seen: a step of an optimizer that is lost when a parameter is rounded to bf16, or
the sign of exponentials that a softmax divides by each other.

Tolerances: integers and truth values are equal. Of floating-point results, the largest difference is at most
`TOLERANCE_EPSILONS` times the relative distance of neighbouring numbers of the type (eps: 2**-52 of f64, 2**-23 of f32,
2**-10 of f16, 2**-7 of bf16, 2**-3 of f8e4m3fn, 2**-2 of f8e5m2), relative to the largest finite magnitude in that
result; what is infinite or no number on one side is the same on the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from plain_program import plain_program, run_plain_program
from shrink_program import shrink_program

from rocktools.hlo.module import HloModule
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.replay.bundled_inputs import make_inputs, numpy_dtype
from rocktools.replay.inputs import build_inputs
from rocktools.replay.interpreter import interpret_program
from rocktools.replay.proto_edit import ProgramProto, ReplayParameter, parse_program_proto
from rocktools.replay.readable import ReadableProgram, render_readable
from rocktools.replay.readable_literals import NotTranslatable
from rocktools.replay.readable_texts import FUNCTIONS, IMPORTS

TOLERANCE_EPSILONS = 2
EXACT = {"xla_allow_excess_precision": False}
_COMMENT = re.compile(r"  # .*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What was found about one replay.

    Attributes:
        refusal: why it has no readable form; "" where it has one.
        compiles: at full size; None where that was not asked for.
        has_same_text: whether the readable form of the small program is the same but for numbers.
        elements_before: of the largest array at full size.
        elements_after: of the largest array at small size.
        dtypes: of the results.
        is_equal_to_xla: to the last bit, in every round.
        is_equal_to_interpreter: to the last bit, in every round.
        worst_ratio: the largest difference, in tolerances: above 1 it does not agree.
        finite_count: results in which, in the last round, something is finite.
        varied_count: results that, in the last round, are one element or not all the same.
        results_count: results.
        rounds_count: 2 where the first one gave something that is not finite.
        problem: what went wrong; "" where nothing did.
    """

    refusal: str = ""
    compiles: bool | None = None
    has_same_text: bool = False
    elements_before: int = 0
    elements_after: int = 0
    dtypes: tuple[str, ...] = ()
    is_equal_to_xla: bool = False
    is_equal_to_interpreter: bool = False
    worst_ratio: float = 0.0
    finite_count: int = 0
    varied_count: int = 0
    results_count: int = 0
    rounds_count: int = 0
    problem: str = ""

    @property
    def agrees(self) -> bool:
        return not self.problem and not self.refusal and self.has_same_text and self.worst_ratio <= 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_readable(data: bytes, seed: str, *, is_compiled: bool = True) -> Agreement:
    """What holds for the readable form of a program of one instruction, of one device.

    Args:
        data: serialised HloModuleProto, as `replay.hlo.pb` holds it.
        seed: of the inputs.
        is_compiled: whether the form of full size is compiled, too.
    """
    module, proto = parse_hlo_proto(data, "replay"), parse_program_proto(data, "replay")
    try:
        readable = _render(module, proto)
    except NotTranslatable as reason:
        return Agreement(refusal=str(reason))
    if is_compiled:
        _compile(readable, module)
    shrunken = shrink_program(data)
    small = parse_hlo_proto(shrunken.data, "small replay")
    small_proto = parse_program_proto(shrunken.data, "small replay")
    small_readable = _render(small, small_proto)
    rounds, arguments = [], _arguments(small, seed)
    for given in (arguments, [_absolute(each) for each in arguments]):
        found = run_readable(small_readable, given)
        expected = run_plain_program(plain_program(shrunken.data), given)
        interpreted = interpret_program(small, small_proto, given)
        rounds.append((found, expected, interpreted))
        if all(np.isfinite(_wide(each)).all() for each in found):
            break
    last = rounds[-1][0]
    return Agreement(
        compiles=True if is_compiled else None,
        has_same_text=_without_numbers(readable) == _without_numbers(small_readable)
        and _literals(proto) == _literals(small_proto),
        elements_before=shrunken.elements_before,
        elements_after=shrunken.elements_after,
        dtypes=tuple(str(each.dtype) for each in last),
        is_equal_to_xla=all(_bits(found) == _bits(expected) for found, expected, _ in rounds),
        is_equal_to_interpreter=all(_bits(found) == _bits(other) for found, _, other in rounds),
        worst_ratio=max(compare(found, other) for found, *others in rounds for other in others),
        finite_count=sum(bool(np.isfinite(_wide(each)).any()) for each in last),
        varied_count=sum(each.size == 1 or len(np.unique(_wide(each))) > 1 for each in last),
        results_count=len(last),
        rounds_count=len(rounds),
    )


def run_readable(readable: ReadableProgram, arguments: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The results of a readable form, leaf by leaf."""
    import jax

    function = jax.jit(_function(readable), compiler_options=EXACT)
    return [np.asarray(each) for each in jax.tree.leaves(function(*arguments))]


def compare(found: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> float:
    """The largest difference between results, in tolerances; infinite where they are not comparable."""
    signatures = [[(each.dtype, each.shape) for each in side] for side in (found, expected)]
    if signatures[0] != signatures[1]:
        return float("inf")
    return max((_difference(one, other) for one, other in zip(found, expected, strict=True)), default=0.0)


def _difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    if one.tobytes() == other.tobytes():
        return 0.0
    if one.dtype.kind in "biu" or one.dtype.name.startswith(("int", "uint")):
        return float("inf")
    import ml_dtypes

    left, right = _wide(one), _wide(other)
    is_finite = np.isfinite(right)
    if not np.array_equal(np.isfinite(left), is_finite):
        return float("inf")
    if not np.array_equal(left[~is_finite], right[~is_finite], equal_nan=True):
        return float("inf")
    scale = np.abs(right[is_finite]).max(initial=0.0)
    largest = np.abs(left[is_finite] - right[is_finite]).max(initial=0.0)
    kind = np.zeros((), one.dtype).real.dtype
    tolerance = TOLERANCE_EPSILONS * float(ml_dtypes.finfo(kind).eps) * float(scale)
    return float(largest / tolerance) if tolerance else float("inf" if largest else 0)


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values if values.dtype.kind == "c" else values.astype(np.float64)


def _bits(values: Sequence[np.ndarray[Any, Any]]) -> list[tuple[Any, ...]]:
    return [(each.dtype, each.shape, each.tobytes()) for each in values]


def _absolute(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values if values.dtype.kind in "biu" else np.abs(values)


def _arguments(module: HloModule, seed: str) -> list[np.ndarray[Any, Any]]:
    assert module.entry is not None
    parameters = tuple(
        ReplayParameter(name=each.name, origin="", operands=(number,))
        for number, each in enumerate(module.entry.parameters)
    )
    return make_inputs([each.as_dict() for each in build_inputs(module, parameters, module)], seed)


def _literals(proto: ProgramProto) -> dict[str, bytes]:
    return {
        name: each.literal.SerializeToString(deterministic=True)
        for name, each in proto.instructions.items()
        if each.opcode == "constant"
    }


def _render(module: HloModule, proto: ProgramProto) -> ReadableProgram:
    literals = {name: each.literal for name, each in proto.instructions.items() if each.opcode == "constant"}
    return render_readable(module, literals)


def _without_numbers(readable: ReadableProgram) -> str:
    return _NUMBER.sub("N", _COMMENT.sub("", readable.text))


def _function(readable: ReadableProgram) -> Any:
    names: dict[str, Any] = {}
    exec(compile(f"{IMPORTS}{FUNCTIONS}\n\n{readable.text}", "replay_jax.py", "exec"), names)
    return names[readable.function]


def _compile(readable: ReadableProgram, module: HloModule) -> None:
    import jax

    assert module.entry is not None
    shapes = [
        jax.ShapeDtypeStruct(each.shape.dimensions, numpy_dtype(each.shape.dtype)) for each in module.entry.parameters
    ]
    jax.jit(_function(readable), compiler_options=EXACT).lower(*shapes).compile()
