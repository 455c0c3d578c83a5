"""Summaries to try things on: any document that the types allow, and one with many operations."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from random import Random
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rocktools.evidence import Evidence
from rocktools.summary.document import SCHEMA, Operation, OperationsBlock, Summary

_Record = TypeVar("_Record")


def any_value(hint: Any, random: Random) -> Any:
    """Something that a field of this type may hold. Not hypothesis: a document is too large for it to shrink."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any_value(random.choice(get_args(hint)), random)
    if origin is tuple:
        return tuple(any_value(get_args(hint)[0], random) for _ in range(random.randrange(3)))
    if origin is not None:
        return {name: any_value(get_args(hint)[1], random) for name in random.sample("abc", random.randrange(3))}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return random.choice(list(hint))
    if dataclasses.is_dataclass(hint):
        return any_record(hint, random)  # type: ignore[type-var]
    simple: dict[Any, Any] = {
        int: random.randint(-(2**62), 2**62),
        float: random.choice([0.0, -2.0, 1e300, random.random(), random.uniform(-1e9, 1e9)]),
        bool: random.random() < 0.5,
        str: "".join(random.choices('aé"\\\n\u2028', k=random.randrange(4))),
        type(None): None,
    }
    return simple[hint]


def any_record(kind: type[_Record], random: Random, **given: Any) -> _Record:
    """An instance of a dataclass of the document, with these fields and any others."""
    hints = get_type_hints(kind)
    made = {each.name: any_value(hints[each.name], random) for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{**made, **({"schema": SCHEMA} if kind is Summary else {}), **given})


def summary_of_operations(count: int) -> Summary:
    """A document whose hot operations are `fusion.0`, `fusion.1`, ...: the later, the shorter."""
    random = Random(7)
    operations = tuple(
        any_record(
            Operation,
            random,
            name=f"fusion.{place}",
            instruction=f"fusion.{place}",
            scope="decoder/mlp/wi_0" if place % 10 == 0 else "decoder/attention",
            phase="forward",
            component="expert_mlp",
            activity="compute",
            exclusive_per_step_ns=1000.0 * (count - place),
            sum_per_step_ns=2000.0 * (count - place),
            rows_count=(place * 7919) % count,
            compute_flop=None if place % 3 else 10**9 + place,
            shape="bf16[8,4096]{1,0}",
            op_name="jit(step)/<script>alert(1)</script>",
            kernel_names=("loop_add_fusion",),
        )
        for place in range(count)
    )
    block = OperationsBlock(
        places_count=1,
        operations_count=count,
        total_sum_ns=1,
        total_exclusive_ns=1,
        evidence=Evidence.MEASURED,
        evidence_of={},
        operations=operations,
        rest=None,
    )
    return any_record(
        Summary, random, title="a step & its <operations>", is_simulated=True, operations=block, candidates=()
    )
