"""Chains of tiny programs, and paths through them, for tests of schedule alignment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tiny_program import Node, build_tiny

from rocktools.correlate.arrays import FloatArray
from rocktools.correlate.launch_chain import LaunchChain, LaunchGraph, build_launch_chain, build_launch_graph
from rocktools.correlate.launch_sites import build_launch_plan
from rocktools.correlate.schedule_learning import Decoding, Habits


def make_graph(*programs: Sequence[Node], main_stream_only: bool = False) -> LaunchGraph:
    """The sites of these programs; what launches nothing is left out."""
    plans = [build_launch_plan(build_tiny(nodes)) for nodes in programs]
    return build_launch_graph([plan for plan in plans if plan], main_stream_only=main_stream_only)


def make_chain(*programs: Sequence[Node], duration_ns: FloatArray | None = None) -> LaunchChain:
    """The chain before anything was learned."""
    graph = make_graph(*programs)
    emission = np.array([site.emission for site in graph.sites])
    return build_launch_chain(graph, emission, np.zeros(graph.sites_count) if duration_ns is None else duration_ns)


def place_names(graph: LaunchGraph, text: str) -> np.ndarray:
    """Sites by the first letters of their instructions, one word a dispatch; `.` is outside, `?` no site at all."""
    states = {site.instruction.partition(".")[0]: state for state, site in enumerate(graph.sites)}
    states["."] = graph.outside
    return np.array([states.get(word, -1) for word in text.split()], dtype=np.int64)


def decoding_at(graph: LaunchGraph, position: np.ndarray) -> Decoding:
    """Dispatches that are placed for certain."""
    return Decoding(
        state=position,
        position=position,
        is_first=position < graph.outside,
        ratio=np.ones(position.size),
        cell=np.arange(position.size),
    )


def habits_of(graph: LaunchGraph, emitted: Sequence[float], passed: Sequence[float]) -> Habits:
    """Habits with these counts."""
    return Habits(
        emission=np.array(emitted) / np.array(passed),
        duration_ns=np.zeros(graph.sites_count),
        emitted=np.array(emitted, dtype=np.float64),
        passed=np.array(passed, dtype=np.float64),
    )
