"""What the demo's job does, and what goes wrong in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from rocktools.demo.packed_programs import DEVICES_COUNT, ProgramName
from rocktools.errors import UsageError, nearest_names


class Fault(str, Enum):
    """Something that makes the step slow, or the recording misleading."""

    EXPOSED_COLLECTIVE = "exposed-collective"
    STRAGGLER = "straggler"
    INPUT_STARVATION = "input-starvation"
    RECOMPILE = "recompile"
    FORMATTING_TAX = "formatting-tax"
    WARM_UP_CAPTURE = "warm-up-capture"
    LATE_RANK = "late-rank"

    def __str__(self) -> str:
        return self.value


COMPONENTS = (
    *("embedding", "pre_attention_norm", "attention", "post_attention_norm", "router", "dispatch", "wi_0", "wi_1"),
    *("ffn_act", "wo", "combine", "final_norm", "lm_head", "loss", "grad_accum", "optimizer"),
)
"""Named scopes of the demo's step, in the order of the step; of nested ones the outermost."""

_SLOW = re.compile(r"(?P<component>[^=]+)=(?:time:)?(?P<percent>\d+(?:\.\d+)?)\s*%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """A component whose kernels take longer than they should, with the same work and as many launches.

    Attributes:
        component: one of `COMPONENTS`.
        ratio: how much longer: 0.08 for 8 %.
    """

    component: str
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScenario:
    """A job to simulate; all of its devices take part, whether they are recorded or not.

    Attributes:
        seed: of all chance.
        program: which program it runs.
        ranks_count: processes that are recorded, of one device each.
        steps_count: steps that are recorded.
        first_step: number of the first of them.
        faults: what goes wrong.
        slowdowns: components that are slow.
    """

    seed: int = 0
    program: ProgramName = ProgramName.SHORT
    ranks_count: int = 2
    steps_count: int = 5
    first_step: int = 10
    faults: frozenset[Fault] = frozenset()
    slowdowns: tuple[Slowdown, ...] = field(default=())

    def __post_init__(self) -> None:
        if not 1 <= self.ranks_count <= DEVICES_COUNT:
            raise UsageError("demo-ranks", f"1 to {DEVICES_COUNT} ranks can be recorded, not {self.ranks_count}")
        if self.steps_count < 1:
            raise UsageError("demo-steps", f"at least one step is recorded, not {self.steps_count}")
        if Fault.RECOMPILE in self.faults and self.steps_count < 2:
            raise UsageError("demo-steps", "recompilation happens behind the first recorded step: record two or more")


def parse_slowdown(text: str) -> Slowdown:
    """`wi_0=8%`, or `wi_0=time:8%`.

    Raises:
        UsageError: it is neither, or there is no such component.
    """
    found = _SLOW.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            "demo-slowdown", f"not a slowdown: {text!r}", hint="--slow COMPONENT=8%, for example --slow wi_0=8%"
        )
    component = found["component"].strip()
    if component not in COMPONENTS:
        near = nearest_names(component, COMPONENTS) or COMPONENTS
        raise UsageError("demo-component", f"the step has no component {component!r}", hint=f"{', '.join(near)}")
    return Slowdown(component=component, ratio=float(found["percent"]) / 100)
