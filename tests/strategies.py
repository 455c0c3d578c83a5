"""Hypothesis strategies that several test files draw from."""

from __future__ import annotations

from hypothesis import strategies as st

# Where a trace's clock may stand: a toy, a machine that booted two days ago, one that booted five months ago. The last
# is beyond 2**53: an algorithm that passes through float64 anywhere gets it wrong by a few nanoseconds.
CLOCK_OFFSETS = (0, 150_000_000_000_000, 13_000_000_000_000_000)

offsets = st.sampled_from(CLOCK_OFFSETS)


@st.composite
def interval_lists(draw: st.DrawFn, *, max_size: int = 12, span: int = 40) -> list[tuple[int, int]]:
    """Half-open intervals on small integers; many overlap, touch, repeat or are empty."""
    starts = st.integers(0, span)
    lengths = st.integers(0, span // 3)
    return [(start, start + length) for start, length in draw(st.lists(st.tuples(starts, lengths), max_size=max_size))]


@st.composite
def labelled_interval_lists(
    draw: st.DrawFn, *, labels: st.SearchStrategy[int], max_size: int = 12
) -> list[tuple[int, int, int]]:
    """Intervals as `interval_lists` gives them, each with a label."""
    return [(start, end, draw(labels)) for start, end in draw(interval_lists(max_size=max_size))]
