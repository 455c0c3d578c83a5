"""A compiled program -> what one execution of it launches, in order, loops unrolled: int64 arrays.

A *site* is a thunk that can put work on a stream. What it launches there, under which names and for how long, is not
decided here; nor is any time.

How XLA's executable runs (WhileThunk::ExecuteOnStream): with a known trip count the body runs that often and the
condition is never launched; without, the condition runs before every iteration and once more at the end. An
asynchronous start launches its thunks on a stream of its own; its done lets the main stream wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk

NO_SITE = -1  # of an operation that waits
_NOTHING = frozenset({"kAsyncDone", "kHostSendDone", "kHostRecvDone", "kSendDone", "kRecvDone", "kWaitForStreams"})
_CONTAINERS = frozenset({"kSequential", "kCommandBuffer", "kDynamicSlice", "kDynamicSliceFusion"})
MAIN_STREAM = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """What one execution launches; the arrays have one value per operation, in order of launch.

    Attributes:
        sites: the thunks, in the order of the thunk sequence.
        streams: names of the streams; the main one, "", first.
        stream_of_site: index into `streams`.
        loops_of_site: how many loops are around it.
        site: index into `sites`; `NO_SITE` where the main stream waits for an asynchronous start.
        async_id: of the asynchronous start that the operation belongs to or waits for; -1 elsewhere.
        iterations: (operations, deepest nesting): iteration of each enclosing loop, from outside in; -1 beyond.
    """

    sites: tuple[Thunk, ...]
    streams: tuple[str, ...]
    stream_of_site: np.ndarray
    loops_of_site: np.ndarray
    site: np.ndarray
    async_id: np.ndarray
    iterations: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Operations:
    """A stretch of the schedule while it is put together; columns as in `Schedule`."""

    site: np.ndarray
    async_id: np.ndarray
    iterations: np.ndarray

    def times(self, count: int, depth: int, *, first: int = 0) -> _Operations:
        """The stretch `count` times, as iterations `first`, `first` + 1, ... of the loop at `depth`."""
        iterations = np.tile(self.iterations, (count, 1))
        iterations[:, depth] = np.repeat(np.arange(first, first + count), len(self.site))
        return _Operations(
            site=np.tile(self.site, count), async_id=np.tile(self.async_id, count), iterations=iterations
        )


class _Unrolling:
    """Walks the thunks once per place where they run; holds what the walk has found."""

    def __init__(
        self, depth: int, trips: Mapping[str, int | None], unknown_trips_count: int, rng: np.random.Generator
    ) -> None:
        self.sites: dict[int, int] = {}  # by identity of the thunk: ids need not be unique in a damaged file
        self.thunks: list[Thunk] = []
        self.streams: list[str] = [MAIN_STREAM]
        self.stream_of_site: list[int] = []
        self.loops_of_site: list[int] = []
        self._depth = depth
        self._trips = trips
        self._unknown_trips_count = unknown_trips_count
        self._rng = rng

    def sequence(self, thunks: Sequence[Thunk], loops: int, stream: int, async_id: int) -> _Operations:
        return self._joined([self._thunk(thunk, loops, stream, async_id) for thunk in thunks])

    def _thunk(self, thunk: Thunk, loops: int, stream: int, async_id: int) -> _Operations:
        if thunk.kind == "kWhile":
            return self._loop(thunk, loops, stream, async_id)
        if thunk.branches:
            taken = thunk.branches[int(self._rng.integers(len(thunk.branches)))]
            return self.sequence(taken, loops, stream, async_id)
        if thunk.kind == "kAsyncStart":
            if thunk.stream and thunk.stream not in self.streams:
                self.streams.append(thunk.stream)
            own = self.streams.index(thunk.stream) if thunk.stream else stream
            return self.sequence(thunk.body, loops, own, _or_none(thunk.async_id))
        if thunk.kind == "kAsyncDone":
            return self._one(NO_SITE, _or_none(thunk.async_id))
        if thunk.body or thunk.kind in _CONTAINERS:
            return self.sequence(thunk.body, loops, stream, async_id)
        if thunk.kind in _NOTHING:
            return self._joined([])
        return self._one(self._site(thunk, loops, stream), async_id)

    def _loop(self, thunk: Thunk, loops: int, stream: int, async_id: int) -> _Operations:
        trips = self._trips.get(thunk.instruction)
        if trips is not None:
            return self.sequence(thunk.body, loops + 1, stream, async_id).times(trips, loops)
        trips = self._unknown_trips_count
        condition = self.sequence(thunk.condition, loops + 1, stream, async_id)
        body = self.sequence(thunk.body, loops + 1, stream, async_id)
        return self._joined(
            [self._joined([condition, body]).times(trips, loops), condition.times(1, loops, first=trips)]
        )

    def _site(self, thunk: Thunk, loops: int, stream: int) -> int:
        if id(thunk) not in self.sites:
            self.sites[id(thunk)] = len(self.thunks)
            self.thunks.append(thunk)
            self.stream_of_site.append(stream)
            self.loops_of_site.append(loops)
        return self.sites[id(thunk)]

    def _one(self, site: int, async_id: int) -> _Operations:
        return _Operations(
            site=np.array([site]), async_id=np.array([async_id]), iterations=np.full((1, self._depth), -1)
        )

    def _joined(self, parts: Sequence[_Operations]) -> _Operations:
        none = np.zeros(0, dtype=np.int64)
        return _Operations(
            site=np.concatenate([none, *(part.site for part in parts)]),
            async_id=np.concatenate([none, *(part.async_id for part in parts)]),
            iterations=np.concatenate([np.zeros((0, self._depth), dtype=np.int64), *(p.iterations for p in parts)]),
        )


def _loops_within(thunk: Thunk) -> int:
    """Depth of the loops in a thunk, its own included."""
    inner = (*thunk.condition, *thunk.body, *(one for branch in thunk.branches for one in branch))
    return int(thunk.kind == "kWhile") + max(map(_loops_within, inner), default=0)


def _or_none(async_id: int | None) -> int:
    return -1 if async_id is None else async_id


def unroll_program(
    program: CompiledProgram, *, unknown_trips_count: int = 3, rng: np.random.Generator | None = None
) -> Schedule:
    """What one execution of `program` launches.

    Args:
        program: with a thunk sequence; trip counts come from its module.
        unknown_trips_count: iterations of a loop whose trip count the compiler does not know.
        rng: chooses the branch of every conditional; None takes seed 0.
    """
    assert program.thunks is not None, "a program is unrolled by its thunk sequence"
    instructions = program.module.instructions
    loops = {thunk.instruction for thunk in program.thunks.walk() if thunk.kind == "kWhile"}
    trips = {name: instructions[name].known_trip_count for name in loops if name in instructions}
    depth = max(map(_loops_within, program.thunks.thunks), default=0)
    unrolling = _Unrolling(depth, trips, unknown_trips_count, rng or np.random.default_rng(0))
    operations = unrolling.sequence(program.thunks.thunks, 0, 0, -1)
    return Schedule(
        sites=tuple(unrolling.thunks),
        streams=tuple(unrolling.streams),
        stream_of_site=np.array(unrolling.stream_of_site, dtype=np.int64),
        loops_of_site=np.array(unrolling.loops_of_site, dtype=np.int64),
        site=operations.site,
        async_id=operations.async_id,
        iterations=operations.iterations,
    )
