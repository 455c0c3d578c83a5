"""One figure of another tool beside ours: CROSSCHECK, its verdicts, and the reasons for which figures may differ.

A reason is given only where what the other tool does, done by us, gives its figure: it is a claim that was checked on
this very number. Everything else that differs is unexplained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from rocktools.errors import ContractError
from rocktools.frames import Column, FrameSpec, require_frame


class Verdict(str, Enum):
    """What a comparison came to, the worst first."""

    UNEXPLAINED = "unexplained"
    EXPLAINED = "explained"
    EQUAL = "equal"

    def __str__(self) -> str:
        return self.value


REASONS: Mapping[str, str] = {
    "whole-nanoseconds": "xprof cuts durations, and their mean, to whole nanoseconds",
    "largest-count": "xprof adds up the times of instructions with one op_name, but of their counts takes the largest",
    "fusion-without-name": "xprof takes an op_name from the instruction alone; a fusion without one gets none, while "
    "rocktools looks into its computation",
    "idle-by-sum": "xprof takes idle time as the spans of devices minus the durations of annotated events added up: "
    "overlaps count twice, and events without an instruction are idle; rocktools takes the union of all events",
    "idle-included": "xprof's share is of the spans of all devices, idle time included; ours is of the time of all "
    "annotated events",
    "at-most-1000-rows": "xprof keeps the 1000 kernels that took longest",
    "no-rocm-details": "xprof reads registers and shared memory by names that only CUDA's profiler writes",
    "no-cost-of-calls": "xprof gives a custom call no FLOPs and no bytes; rocktools knows what library calls compute",
    "weighted-flop": "xprof weighs each elementwise operation by what it costs on a GPU, and counts index arithmetic; "
    "rocktools counts it as one operation",
    "scalar-operands": "xprof counts no bytes for operands of one element",
    "host-operations": "xprof groups events of the host by names of TensorFlow; rocktools keeps them one by one "
    "(`rocktools frame HOST_EVENTS`)",
    "first-device-only": "TraceLens takes the first device alone for gpu_timeline; ours is the mean of the devices",
    "classes-by-name": "TraceLens takes for communication what begins with nccl, and for a copy what begins with copy, "
    "memcpy or memset; rocktools goes by kind of event and HLO instruction",
    "categories-by-substring": "TraceLens sorts kernels by substrings of their names; rocktools has no such category, "
    "ours is the sum of the same names",
    "annotated-only": "TraceLens leaves out kernels without an HLO instruction",
    "share-of-listed": "TraceLens's percentage is of the kernels it lists; ours is of all kernels",
}
"""Reference -> what the other tool does, and what rocktools does."""

_NO_NUMBER = "the quantity is a text, or this side has no such row"
_NO_TEXT = "the quantity is a number, or this side has no such row"

CROSSCHECK = FrameSpec(
    name="CROSSCHECK",
    meaning="One row per figure that another tool and rocktools both give, whatever could not be explained first.",
    key=("tool", "table", "row_index", "quantity"),
    sort=(),
    columns=(
        Column("tool", "category", "`xprof` or `tracelens`"),
        Column("table", "category", "its table"),
        Column("row_index", "int64", "place of the row in it, from 0; behind its end what only rocktools has"),
        Column("row_name", "category", "what the row is of"),
        Column("quantity", "category", "what is compared, with its unit"),
        Column("theirs_value", "float64", "the other tool's figure, in the unit of the quantity", _NO_NUMBER),
        Column("ours_value", "float64", "ours", _NO_NUMBER),
        Column("theirs_text", "category", "the other tool's text", _NO_TEXT),
        Column("ours_text", "category", "ours", _NO_TEXT),
        Column("verdict", "category", "`equal`, `explained` or `unexplained`"),
        Column(
            "reason", "category", "why they differ, as `--part reasons` explains it", "they do not, or nobody knows"
        ),
    ),
)

CROSSCHECK_REASONS = FrameSpec(
    name="CROSSCHECK_REASONS",
    meaning="One row per reason for which figures of another tool differ from ours.",
    key=("reason",),
    sort=(),
    columns=(
        Column("reason", "category", "its name"),
        Column("rows_count", "int64", "figures that differ for it"),
        Column("explanation", "category", "what the other tool does, and what rocktools does"),
    ),
)

Figure = float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFigure:
    """A row of CROSSCHECK."""

    tool: str
    table: str
    row_index: int
    row_name: str
    quantity: str
    theirs: Figure
    ours: Figure
    verdict: Verdict
    reason: str | None = None


def is_close(a: Figure, b: Figure, *, at_most: float = 0.0) -> bool:
    """Whether two figures are the same, but for the last digits of a float.

    Args:
        at_most: by how much they may differ besides: half a unit of the last digit that was printed.
    """
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a == b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=max(at_most, 1e-12))


@dataclass(slots=True)
class RowChecker:
    """Collects the figures of one row of a table."""

    tool: str
    table: str
    row_index: int
    row_name: str
    found: list[CheckedFigure]

    def add(
        self,
        quantity: str,
        theirs: Figure,
        ours: Figure,
        *,
        at_most: float = 0.0,
        explanations: Mapping[str, Figure] | None = None,
    ) -> None:
        """Compare a figure.

        Args:
            at_most: tolerance, as in `is_close`.
            explanations: reason -> the figure that comes out if one does as the other tool does.

        Raises:
            ContractError: there is no such reason.
        """
        verdict, reason = Verdict.UNEXPLAINED, None
        if is_close(theirs, ours, at_most=at_most):
            verdict = Verdict.EQUAL
        else:
            for name, expected in (explanations or {}).items():
                if name not in REASONS:
                    raise ContractError("crosscheck-reason", f"there is no reason {name!r}")
                if is_close(theirs, expected, at_most=at_most):
                    verdict, reason = Verdict.EXPLAINED, name
                    break
        self.found.append(
            CheckedFigure(
                tool=self.tool,
                table=self.table,
                row_index=self.row_index,
                row_name=self.row_name,
                quantity=quantity,
                theirs=theirs,
                ours=ours,
                verdict=verdict,
                reason=reason,
            )
        )


def crosscheck_frame(figures: Sequence[CheckedFigure]) -> pd.DataFrame:
    """CROSSCHECK of the figures: unexplained ones first, then explained ones, in the order of the tables."""
    order = list(Verdict)
    ordered = sorted(figures, key=lambda each: order.index(each.verdict))
    numbers = {
        name: pd.Series([_number(getattr(each, name.partition("_")[0])) for each in ordered], dtype="float64")
        for name in ("theirs_value", "ours_value")
    }
    texts = {
        name: _labels([_text(getattr(each, name.partition("_")[0])) for each in ordered])
        for name in ("theirs_text", "ours_text")
    }
    frame = pd.DataFrame(
        {
            "tool": _labels([each.tool for each in ordered]),
            "table": _labels([each.table for each in ordered]),
            "row_index": pd.Series([each.row_index for each in ordered], dtype="int64"),
            "row_name": _labels([each.row_name for each in ordered]),
            "quantity": _labels([each.quantity for each in ordered]),
            **numbers,
            **texts,
            "verdict": _labels([each.verdict.value for each in ordered]),
            "reason": _labels([each.reason for each in ordered]),
        }
    )
    return require_frame(frame, CROSSCHECK)


def reasons_frame(figures: Sequence[CheckedFigure]) -> pd.DataFrame:
    """CROSSCHECK_REASONS of the figures, the most frequent first."""
    counts = {name: sum(each.reason == name for each in figures) for name in REASONS}
    used = sorted((name for name, count in counts.items() if count), key=lambda name: (-counts[name], name))
    frame = pd.DataFrame(
        {
            "reason": _labels(used),
            "rows_count": pd.Series([counts[name] for name in used], dtype="int64"),
            "explanation": _labels([REASONS[name] for name in used]),
        }
    )
    return require_frame(frame, CROSSCHECK_REASONS)


def _number(figure: Figure) -> float:
    return math.nan if figure is None or isinstance(figure, str) else float(figure)


def _text(figure: Figure) -> str | None:
    return figure if isinstance(figure, str) else None


def _labels(texts: Sequence[str | None]) -> pd.Categorical:
    return pd.Categorical(texts, categories=sorted({text for text in texts if text is not None}))
