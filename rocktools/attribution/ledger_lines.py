"""A component map and the buckets that have time -> the lines of a ledger's tables, and which buckets each line takes.

Each table is a partition: a bucket is in one line of it at most. Which lines there are depends on which buckets have
time; what a line takes does not, so that lines of parts of a trace are parts of the lines of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocktools.attribution.components import UNATTRIBUTED, ComponentMap, RowState, TableRow
from rocktools.attribution.gradients import Gradient
from rocktools.attribution.ledger import BucketKey, BucketSet
from rocktools.attribution.phases import BookedPhase
from rocktools.timeline.activities import Activity

PHASES_TABLE, MODEL_TABLE, GRADIENTS_TABLE, CROSS_TABLE = "phases", "model", "gradients", "cross_cutting"
COMPONENT_PHASES = (BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.REMATERIALIZED)
TABLES = (PHASES_TABLE, *(phase.value for phase in COMPONENT_PHASES), MODEL_TABLE, GRADIENTS_TABLE, CROSS_TABLE)
TOTAL = "Total"
_OUTSIDE = (BookedPhase.LOSS, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """One line of a table.

    Attributes:
        title: for people.
        takes: whether it takes a bucket; None where it is a line of words only.
        components: that it adds up; () where it is not made of components.
        absent: what stands there where it has no time; None for zeros.
        state: what stands there in any case instead of a number.
        note: what it includes, or where it is anchored.
    """

    title: str
    takes: Callable[[BucketKey], bool] | None
    components: tuple[str, ...] = ()
    absent: RowState | None = None
    state: RowState | None = None
    note: str = ""

    @property
    def label(self) -> str:
        """Its components in one text, which with table and title tells it from every other line."""
        return ", ".join(self.components)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinedTable:
    """One table.

    Attributes:
        name: as in `TABLES`.
        lines: the last is the total.
        sets: the buckets of each line, as positions.
    """

    name: str
    lines: tuple[TableLine, ...]
    sets: tuple[BucketSet, ...]


def build_lines(buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[LinedTable]:
    """The tables that have a line.

    Args:
        buckets: those that have time, each once.
        component_map: the one that rows were classified by.
    """
    lines = {
        PHASES_TABLE: _phase_lines(buckets),
        **{phase.value: _component_lines(phase, buckets, component_map) for phase in COMPONENT_PHASES},
        MODEL_TABLE: _model_lines(buckets, component_map),
        GRADIENTS_TABLE: _gradient_lines(buckets, component_map),
        CROSS_TABLE: _cross_lines(buckets),
    }
    return [_with_sets(name, lines[name], buckets) for name in TABLES if lines[name]]


def _with_sets(name: str, lines: Sequence[TableLine], buckets: Sequence[BucketKey]) -> LinedTable:
    """The table with its total; a bucket is in one line at most."""
    sets = [
        frozenset(i for i, key in enumerate(buckets) if line.takes is not None and line.takes(key)) for line in lines
    ]
    whole = frozenset[int]().union(*sets)
    assert len(whole) == sum(map(len, sets)), f"a bucket is in two lines of {name}"
    total = TableLine(title=TOTAL, takes=lambda _: True)
    return LinedTable(name=name, lines=(*lines, total), sets=(*sets, whole))


def _phase_lines(buckets: Sequence[BucketKey]) -> list[TableLine]:
    def computes(*phases: BookedPhase) -> Callable[[BucketKey], bool]:
        wanted = {phase.value for phase in phases}
        return lambda key: key[0] == Activity.COMPUTE.value and key[1] in wanted

    lines = [
        TableLine(title="Forward model compute", takes=computes(BookedPhase.FORWARD)),
        TableLine(title="Backward gradient compute", takes=computes(BookedPhase.BACKWARD)),
        TableLine(title="Rematerialized forward replay", takes=computes(BookedPhase.REMATERIALIZED)),
        TableLine(title="Loss, gradient accumulation and optimizer", takes=computes(*_OUTSIDE)),
        TableLine(title="Input", takes=computes(BookedPhase.INPUT)),
        TableLine(title="Communication", takes=lambda key: key[0] == Activity.COMMUNICATION.value),
        TableLine(title="Copies", takes=lambda key: key[0] == Activity.COPY.value),
        TableLine(title="Unattributed work", takes=computes(BookedPhase.UNATTRIBUTED)),
    ]
    optional = ("Input", "Copies")
    return [line for line in lines if line.title not in optional or _has_any(line, buckets)]


def _has_any(line: TableLine, buckets: Sequence[BucketKey]) -> bool:
    return line.takes is not None and any(line.takes(bucket) for bucket in buckets)


def _component_lines(phase: BookedPhase, buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[TableLine]:
    """The rows of the map, then a row for every component that has time and no row in it."""
    rows = component_map.tables.get(phase, ())
    named = {component for row in rows for component in row.components}
    present = {
        component
        for activity, theirs, component, _ in buckets
        if activity == Activity.COMPUTE.value and theirs == phase.value
    }
    order = [*component_map.components, UNATTRIBUTED]
    rest = sorted(present - named, key=lambda name: (order.index(name) if name in order else len(order), name))
    lines = [_map_line(phase, row, row.components) for row in rows]
    # A row of the map that says nothing about a model without that part is left out; one with a state is a statement.
    lines = [
        line for line in lines if line.state or line.absent is not RowState.NO_OPERATION or _has_any(line, buckets)
    ]
    for name in rest:
        title = "No component" if name == UNATTRIBUTED else component_map.title_of(name)
        lines.append(_map_line(phase, TableRow(title=title, components=(name,)), (name,)))
    return lines


def _map_line(phase: BookedPhase, row: TableRow, components: tuple[str, ...]) -> TableLine:
    def takes(key: BucketKey) -> bool:
        return key[0] == Activity.COMPUTE.value and key[1] == phase.value and key[2] in components

    return TableLine(
        title=row.title,
        takes=None if row.state else takes,
        components=components,
        absent=row.absent,
        state=row.state,
        note=row.note,
    )


def _model_lines(buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[TableLine]:
    """The compute of all three phases of the model by groups of components; a component without a group is one."""
    groups: dict[str, list[str]] = {}
    for component in component_map.components.values():
        groups.setdefault(component.group, []).append(component.name)
    lines = [
        TableLine(
            title=component_map.title_of(names[0]) if len(names) == 1 else group,
            takes=_of_model(frozenset(names)),
            components=tuple(names),
        )
        for group, names in groups.items()
    ]
    unknown = {name for _, _, name, _ in buckets} - set(component_map.components)
    for name in sorted(unknown, key=lambda name: (name == UNATTRIBUTED, name)):
        title = "No component" if name == UNATTRIBUTED else name
        lines.append(TableLine(title=title, takes=_of_model(frozenset({name})), components=(name,)))
    return [line for line in lines if _has_any(line, buckets)]


def _of_model(components: frozenset[str]) -> Callable[[BucketKey], bool]:
    phases = {phase.value for phase in COMPONENT_PHASES}
    return lambda key: key[0] == Activity.COMPUTE.value and key[1] in phases and key[2] in components


def _gradient_lines(buckets: Sequence[BucketKey], component_map: ComponentMap) -> list[TableLine]:
    """The rows of the backward table by what their products are the gradient of; there is always one for each."""
    kinds = ((Gradient.ACTIVATION.value, "Dgrad"), (Gradient.WEIGHT.value, "Wgrad"), ("", "neither, or not told apart"))
    lines = [
        TableLine(
            title=f"{line.title}: {title}",
            takes=_of_gradient(line.takes, gradient),
            components=line.components,
        )
        for line in _component_lines(BookedPhase.BACKWARD, buckets, component_map)
        if line.takes is not None
        for gradient, title in kinds
    ]
    return [line for line in lines if _has_any(line, buckets)]


def _of_gradient(takes: Callable[[BucketKey], bool], gradient: str) -> Callable[[BucketKey], bool]:
    return lambda key: key[3] == gradient and takes(key)


def _cross_lines(buckets: Sequence[BucketKey]) -> list[TableLine]:
    def at(activity: Activity, *phases: BookedPhase) -> Callable[[BucketKey], bool]:
        wanted = {phase.value for phase in phases}
        return lambda key: key[0] == activity.value and key[1] in wanted

    others = [phase for phase in BookedPhase if phase not in COMPONENT_PHASES]
    communication, compute = Activity.COMMUNICATION, Activity.COMPUTE
    lines = [
        TableLine(
            title="Forward collectives",
            takes=at(communication, BookedPhase.FORWARD),
            note="launched from forward name stacks",
        ),
        TableLine(
            title="Backward collectives",
            takes=at(communication, BookedPhase.BACKWARD),
            note="attached to gradient work",
        ),
        TableLine(
            title="Rematerialized collectives",
            takes=at(communication, BookedPhase.REMATERIALIZED),
            note="replayed inside of the checkpointed region",
        ),
        TableLine(
            title="Optimizer or unscoped collectives",
            takes=at(communication, *others),
            note="no phase of the model in their metadata",
        ),
        TableLine(title="Loss and metrics", takes=at(compute, BookedPhase.LOSS), note="outside of the model's VJP"),
        TableLine(
            title="Gradient accumulation, clipping and optimizer",
            takes=at(compute, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER),
        ),
        TableLine(title="Input", takes=at(compute, BookedPhase.INPUT)),
        TableLine(title="Copies", takes=at(Activity.COPY, *BookedPhase)),
        TableLine(
            title="Other unattributed work",
            takes=at(compute, BookedPhase.UNATTRIBUTED),
            note="kept without forcing it into a component",
        ),
    ]
    return [line for line in lines if line.title not in ("Input", "Copies") or _has_any(line, buckets)]
