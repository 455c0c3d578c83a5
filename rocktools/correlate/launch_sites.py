"""The thunk sequence of a program -> its launch sites and the ways through them.

A site is one place in the schedule that puts, or may put, kernels on a queue. Thunks that only steer (loops, branches,
sequences, waits) become the flow between sites. What a trace looks like is not known here.

Facts this rests on: a while whose trip count is known launches its body and never its condition (XLA's WhileThunk takes
the loop for counted); one without runs its condition once more than its body. A collective inside an asynchronous start
runs on the stream that the start names; its window ends where the done of the same `async_id` stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from rocktools.hlo.module import HloModule
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk


class SiteKind(str, Enum):
    """What a site launches, as far as the kind of its thunk says."""

    GENERATED = "generated"  # a kernel that XLA made: symbol and geometry are known
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    COLLECTIVE = "collective"
    COPY = "copy"
    FILL = "fill"
    LIBRARY = "library"  # custom calls and whatever else may launch kernels of any name

    def __str__(self) -> str:
        return self.value


_KINDS: Mapping[str, SiteKind] = {
    **dict.fromkeys(("kCublasLtMatmul", "kCublasLtGroupedMatmul", "kGemm"), SiteKind.MATMUL),
    "kConvolution": SiteKind.CONVOLUTION,
    **dict.fromkeys(
        (
            *("kAllGather", "kAllReduce", "kReduceScatter", "kAllToAll", "kCollectivePermute"),
            *("kCollectiveBroadcast", "kRaggedAllToAll", "kSend", "kRecv"),
        ),
        SiteKind.COLLECTIVE,
    ),
    **dict.fromkeys(("kCopy", "kDynamicMemcpy"), SiteKind.COPY),
    **dict.fromkeys(("kPartitionId", "kReplicaId", "kMemset32BitValue", "kMemzero"), SiteKind.FILL),
    **dict.fromkeys(
        (
            *("kCustomCall", "kCustomKernel", "kKernel", "kFft", "kTriangularSolve", "kCholesky", "kCubSort"),
            *("kSelectK", "kNorm", "kCuDnn", "kCommandBuffer", "kCollectiveKernel"),
        ),
        SiteKind.LIBRARY,
    ),
}
_MAY_LEAVE_NOTHING = frozenset({SiteKind.COPY, SiteKind.FILL, SiteKind.LIBRARY})
"""A copy may be done by a copy engine, and a custom call may launch nothing."""

USUAL_EMISSION = 0.98
DOUBTFUL_EMISSION = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSite:
    """One place in the schedule of one program.

    Attributes:
        thunk_id: within the program.
        instruction: the HLO instruction; "" where the metadata has none.
        kind: what it launches.
        kernel: symbol of a generated kernel; "" elsewhere.
        grid_workgroups, workgroup_workitems: of a generated kernel; () elsewhere.
        stream: of an asynchronous start; "" on the main stream.
        loops: thunk ids of the enclosing loops, outermost first.
        order: place in the launch order of the text.
        done_order: place in that order where the main stream waits for it; None where nothing waits.
        emission: how probable it is, before a trace was seen, that passing the site leaves a dispatch.
    """

    thunk_id: int
    instruction: str
    kind: SiteKind
    kernel: str = ""
    grid_workgroups: tuple[int, ...] = ()
    workgroup_workitems: tuple[int, ...] = ()
    stream: str = ""
    loops: tuple[int, ...] = ()
    order: int
    done_order: int | None = None
    emission: float = USUAL_EMISSION


@dataclass(frozen=True, slots=True)
class Launch:
    """The flow passes a site."""

    site: int


@dataclass(frozen=True, slots=True)
class Loop:
    """The flow goes around; `trip_count` is None where it is not known, and only then the condition is launched."""

    thunk_id: int
    trip_count: int | None
    condition: tuple[Step, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The flow takes one of several ways."""

    branches: tuple[tuple[Step, ...], ...]


Step = Launch | Loop | Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The sites of one program, in launch order, and the flow through them.

    Attributes:
        program_id: as in INSTRUCTIONS.
        sites: in the order of the text.
        flow: of the top level.
        trip_counts: loop (thunk id) -> how often its body runs, None where not known.
    """

    program_id: str
    sites: tuple[LaunchSite, ...]
    flow: tuple[Step, ...]
    trip_counts: Mapping[int, int | None] = field(default_factory=dict)


def build_launch_plan(program: CompiledProgram) -> LaunchPlan | None:
    """The plan of a program; None where its dump has no thunk sequence, or one that launches nothing."""
    if program.thunks is None:
        return None
    walk = _Walk(module=program.module)
    flow = walk.steps(program.thunks.thunks, _Place())
    if not walk.sites:
        return None
    return LaunchPlan(
        program_id=program.module.label,
        sites=tuple(walk.finished_sites()),
        flow=flow,
        trip_counts=walk.trip_counts,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """What encloses a thunk."""

    loops: tuple[int, ...] = ()
    stream: str = ""
    async_id: int | None = None
    is_doubtful: bool = False


@dataclass(slots=True, eq=False)
class _Walk:
    """The state of one walk through the thunks."""

    module: HloModule
    sites: list[LaunchSite] = field(default_factory=list)
    async_ids: list[int | None] = field(default_factory=list)
    done_orders: dict[int, int] = field(default_factory=dict)
    trip_counts: dict[int, int | None] = field(default_factory=dict)
    order: int = 0

    def steps(self, thunks: Iterable[Thunk], place: _Place) -> tuple[Step, ...]:
        found: list[Step] = []
        for thunk in thunks:
            found.extend(self._steps_of(thunk, place))
        return tuple(found)

    def _steps_of(self, thunk: Thunk, place: _Place) -> Sequence[Step]:
        if thunk.kind == "kWhile":
            return (self._loop(thunk, place),)
        if thunk.branches:
            doubtful = _Place(place.loops, place.stream, place.async_id, True)
            return (Choice(tuple(self.steps(branch, doubtful) for branch in thunk.branches)),)
        if thunk.kind == "kAsyncDone":
            if thunk.async_id is not None:
                self.done_orders[thunk.async_id] = self.order
                self.order += 1
            return ()
        if thunk.body:
            inner = place
            if thunk.stream or thunk.async_id is not None:
                inner = _Place(place.loops, thunk.stream, thunk.async_id, place.is_doubtful)
            return self.steps(thunk.body, inner)
        kind = SiteKind.GENERATED if thunk.kernel else _KINDS.get(thunk.kind)
        return () if kind is None else (self._launch(thunk, kind, place),)

    def _loop(self, thunk: Thunk, place: _Place) -> Loop:
        instruction = self.module.instructions.get(thunk.instruction)
        trip_count = None if instruction is None else instruction.known_trip_count
        self.trip_counts[thunk.thunk_id] = trip_count
        inner = _Place((*place.loops, thunk.thunk_id), place.stream, place.async_id, place.is_doubtful)
        in_condition = _Place(inner.loops, inner.stream, inner.async_id, True)
        condition = self.steps(thunk.condition, in_condition) if trip_count is None else ()
        return Loop(thunk.thunk_id, trip_count, condition, self.steps(thunk.body, inner))

    def _launch(self, thunk: Thunk, kind: SiteKind, place: _Place) -> Launch:
        is_doubtful = place.is_doubtful or kind in _MAY_LEAVE_NOTHING
        self.sites.append(
            LaunchSite(
                thunk_id=thunk.thunk_id,
                instruction=thunk.instruction,
                kind=kind,
                kernel=thunk.kernel,
                grid_workgroups=thunk.grid_workgroups,
                workgroup_workitems=thunk.workgroup_workitems,
                stream=place.stream,
                loops=place.loops,
                order=self.order,
                emission=DOUBTFUL_EMISSION if is_doubtful else USUAL_EMISSION,
            )
        )
        self.async_ids.append(place.async_id)
        self.order += 1
        return Launch(len(self.sites) - 1)

    def finished_sites(self) -> Iterable[LaunchSite]:
        """The sites, with the places of their dones, which come later in the text."""
        for site, async_id in zip(self.sites, self.async_ids, strict=True):
            done = None if async_id is None else self.done_orders.get(async_id)
            yield site if done is None else replace(site, done_order=done)
