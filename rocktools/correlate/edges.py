"""Links -> the columns of DISPATCH_EDGES and EVENT_EDGES: what a method found, laid out over the rows it is about.

Rows are many and different links are few, so a method makes one `Link` per distinct question (a kernel in a program, an
annotation) and says which row has which. Nothing here decides what is linked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.errors import ContractError
from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, FrameSpec, nullable_int64, require_frame

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

SHOWN_CANDIDATES = 8


class Method(str, Enum):
    """How a link was found, strongest first."""

    ANNOTATION = "annotation"
    THUNK = "thunk"
    SCHEDULE = "schedule"
    NAME = "name"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


class Confidence(str, Enum):
    """How sure a link is, surest first."""

    CERTAIN = "certain"
    LIKELY = "likely"
    AMBIGUOUS = "ambiguous"
    UNLINKED = "unlinked"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one method says about one question.

    Attributes:
        program_id: program of the instruction; None where it is unlinked, or where candidates are of several programs.
        instruction: None where it is unlinked or ambiguous.
        method: how it was found.
        confidence: how sure it is.
        candidates: all instructions it may belong to, most probable first; with `program/` in front where they are of
            several programs.
        thunk_id: the one thunk that it can be; None where there are several, or none is known.
    """

    program_id: str | None = None
    instruction: str | None = None
    method: Method = Method.NONE
    confidence: Confidence = Confidence.UNLINKED
    candidates: tuple[str, ...] = ()
    thunk_id: int | None = None

    @property
    def candidates_text(self) -> str | None:
        """The first candidates, separated by a comma and a blank; None where the only one is linked, or none is."""
        return ", ".join(self.candidates[:SHOWN_CANDIDATES]) or None if self.instruction is None else None


UNLINKED = Link()


def build_link(found: Sequence[tuple[str, str]], *, method: Method, confidence: Confidence) -> Link:
    """One candidate is a link of that confidence, several are ambiguous, none is no link.

    Args:
        found: (program id, instruction), most probable first.
        method: how they were found.
        confidence: of a single candidate; where that is ambiguous, it is listed and not linked.
    """
    if not found:
        return UNLINKED
    programs = {program_id for program_id, _ in found}
    program_id = found[0][0] if len(programs) == 1 else None
    if len(found) == 1 and confidence is not Confidence.AMBIGUOUS:
        name = found[0][1]
        return Link(program_id=program_id, instruction=name, method=method, confidence=confidence, candidates=(name,))
    names = tuple(name if program_id is not None else f"{program}/{name}" for program, name in found)
    return Link(program_id=program_id, method=method, confidence=Confidence.AMBIGUOUS, candidates=names)


def group_rows(columns: Sequence[pd.Series]) -> tuple[IntArray, IntArray]:
    """The group of each row, and one row of each group; rows are together where all columns are equal, missing or not.

    Args:
        columns: of one frame; categories, or integers without missing values.
    """
    codes = {place: _codes(column) for place, column in enumerate(columns)}
    rows = pd.DataFrame(codes)
    of = rows.groupby(list(rows.columns), sort=False).ngroup().to_numpy().astype(np.int64)
    example = np.zeros(int(of.max(initial=-1)) + 1, dtype=np.int64)
    example[of] = np.arange(of.size)
    return of, example


def find_edges(edges: pd.DataFrame, rows: pd.DataFrame, key: Sequence[str]) -> IntArray:
    """For each row, the place of its edge; -1 where it has none.

    Args:
        edges: DISPATCH_EDGES or EVENT_EDGES, at least with the key.
        rows: dispatches or events, at least with the key.
        key: of the edges' frame.
    """
    known = {name: _codes(edges[name]) for name in key}
    asked = {name: codes_as_in(edges[name], rows[name]) for name in key}
    places = pd.DataFrame({**known, "place": np.arange(len(edges))}).drop_duplicates(list(key))
    found = pd.DataFrame(asked).merge(places, on=list(key), how="left", validate="many_to_one")["place"]
    place: IntArray = found.fillna(-1).to_numpy().astype(np.int64)
    return place


def codes_as_in(known: pd.Series, asked: pd.Series) -> IntArray:
    """Codes of `asked` that are equal where the labels of both are; a label that `known` lacks has one of its own.

    Args:
        known: a category, or integers without missing values.
        asked: of the same kind.
    """
    if not isinstance(known.dtype, pd.CategoricalDtype):
        return _codes(asked)
    codes = {label: code for code, label in enumerate(known.cat.categories)}
    of_category = [codes.setdefault(label, len(codes)) for label in asked.cat.categories]
    return np.array([*of_category, -1], dtype=np.int64)[_codes(asked)]


def choose_edges(first: pd.DataFrame, second: pd.DataFrame, is_second: BoolArray) -> pd.DataFrame:
    """Edges whose rows are of `second` where `is_second`, else of `first`.

    Args:
        first: DISPATCH_EDGES or EVENT_EDGES.
        second: of the same rows in the same order.
        is_second: one for each row.

    Raises:
        ContractError: they are not of the same rows.
    """
    spec = require_same_rows(first, second)
    columns = {name: _choose(first[name], second[name], is_second) for name in spec.names}
    return require_frame(pd.DataFrame(columns), spec)


def require_same_rows(first: pd.DataFrame, second: pd.DataFrame) -> FrameSpec:
    """The contract of both, DISPATCH_EDGES or EVENT_EDGES, if they are of the same rows in the same order.

    Raises:
        ContractError: they are not.
    """
    spec = DISPATCH_EDGES if "dispatch_id" in first.columns else EVENT_EDGES
    is_same = len(first) == len(second) and all(
        np.array_equal(_codes(first[name]), codes_as_in(first[name], second[name])) for name in spec.key
    )
    if not is_same:
        raise ContractError("edges-of-other-rows", f"{spec.name} can be put together only if they are of the same rows")
    return spec


def _choose(first: pd.Series, second: pd.Series, is_second: BoolArray) -> Any:
    if not isinstance(first.dtype, pd.CategoricalDtype):
        return first.where(~is_second, second).array
    labels = sorted({*first.cat.categories, *second.cat.categories})
    of_first, of_second = (column.cat.set_categories(labels).cat.codes.to_numpy() for column in (first, second))
    return pd.Categorical.from_codes(np.where(is_second, of_second, of_first), categories=labels)


def confidence_ranks(edges: pd.DataFrame) -> IntArray:
    """The place of each row's confidence in `Confidence`: the less, the surer."""
    ranks = {confidence.value: rank for rank, confidence in enumerate(Confidence)}
    of_category = np.array([ranks[label] for label in edges["confidence"].cat.categories], dtype=np.int64)
    rank_of_row: IntArray = of_category[edges["confidence"].cat.codes.to_numpy()]
    return rank_of_row


def _codes(column: pd.Series) -> IntArray:
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    codes: npt.NDArray[Any] = column.cat.codes.to_numpy() if is_category else column.to_numpy()
    return codes.astype(np.int64)


def build_event_edges(events: pd.DataFrame, links: Sequence[Link], of: IntArray) -> pd.DataFrame:
    """EVENT_EDGES.

    Args:
        events: DEVICE_EVENTS or HOST_EVENTS, at least with the key.
        links: the different ones.
        of: for each event, the place of its link.
    """
    keys = {name: _by_label(events[name]) for name in EVENT_EDGES.key}
    frame = pd.DataFrame({**keys, **_link_columns(links, of)})
    frame = frame.sort_values(list(EVENT_EDGES.sort), kind="stable", ignore_index=True)
    return require_frame(frame, EVENT_EDGES)


def build_dispatch_edges(dispatches: pd.DataFrame, links: Sequence[Link], of: IntArray) -> pd.DataFrame:
    """DISPATCH_EDGES of links that say the instruction, but not which execution of the program.

    Args:
        dispatches: DISPATCHES or COUNTED_DISPATCHES, at least with the key of DISPATCHES.
        links: the different ones.
        of: for each row, the place of its link. Of a dispatch with several rows (replays), the first counts.
    """
    is_first = ~dispatches.duplicated(list(DISPATCH_EDGES.key)).to_numpy(dtype=np.bool_)
    dispatches, of, count = dispatches[is_first], of[is_first], int(is_first.sum())
    keys = {name: _by_label(dispatches[name]) for name in DISPATCH_EDGES.key}
    no_text = np.full(count, -1, dtype=np.int64)
    place: dict[str, Any] = {
        "thunk_id": _integers([link.thunk_id for link in links], of),
        "execution_index": nullable_int64(np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)),
        "iterations": pd.Categorical.from_codes(no_text, categories=[]),
        "is_iteration_sure": np.zeros(count, dtype=np.bool_),
    }
    frame = pd.DataFrame({**keys, **_link_columns(links, of), **place})
    frame = frame.sort_values(list(DISPATCH_EDGES.sort), kind="stable", ignore_index=True)
    return require_frame(frame, DISPATCH_EDGES)


def _link_columns(links: Sequence[Link], of: IntArray) -> dict[str, Any]:
    counts = np.array([len(link.candidates) for link in links], dtype=np.int64)
    return {
        "program_id": _texts([link.program_id for link in links], of),
        "instruction": _texts([link.instruction for link in links], of),
        "method": _texts([link.method.value for link in links], of),
        "confidence": _texts([link.confidence.value for link in links], of),
        "probability_ratio": np.full(of.size, np.nan),
        "candidates_count": counts[of],
        "candidates": _texts([link.candidates_text for link in links], of),
    }


def _texts(values: Sequence[str | None], of: IntArray) -> pd.Categorical:
    labels = sorted({value for value in values if value is not None})
    codes = {label: code for code, label in enumerate(labels)}
    of_value = np.array([-1 if value is None else codes[value] for value in values], dtype=np.int64)
    return pd.Categorical.from_codes(of_value[of], categories=labels)


def _integers(values: Sequence[int | None], of: IntArray) -> Any:
    numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    return nullable_int64(numbers[of], is_missing[of])


def _by_label(column: pd.Series) -> Any:
    """The column; a category's labels in alphabetical order, in which the contract sorts rows."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.array
    return column.cat.set_categories(sorted(column.cat.categories)).array
