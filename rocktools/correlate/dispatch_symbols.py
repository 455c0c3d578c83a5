"""DISPATCHES -> kernel symbols (name with geometry) and arrays by device, in which alignment works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.correlate.arrays import IntArray
from rocktools.correlate.kernel_meanings import KernelSymbol
from rocktools.frames import GRID, WORKGROUP

_MISSING = -1
_TIMES = (("start_ns", "end_ns"), ("pass_start_ns", "pass_end_ns"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DispatchTable:
    """What alignment needs of DISPATCHES, as arrays of one length.

    Attributes:
        symbols: the different symbols.
        symbol_of: of each dispatch.
        device_of: number of its run, process and agent.
        devices: labels of those, for messages.
        dispatch_id, start_ns, end_ns: as in DISPATCHES.
        stream_of: number of its stream, else of its queue; all 0 where neither was recorded.
    """

    symbols: tuple[KernelSymbol, ...]
    symbol_of: IntArray
    device_of: IntArray
    devices: tuple[str, ...]
    dispatch_id: IntArray
    start_ns: IntArray
    end_ns: IntArray
    stream_of: IntArray

    def rows_by_device(self) -> Iterator[tuple[str, IntArray]]:
        """Each device's label and dispatches."""
        order = np.argsort(self.device_of, kind="stable")
        bounds = np.searchsorted(self.device_of[order], np.arange(len(self.devices) + 1))
        for device, label in enumerate(self.devices):
            yield label, order[bounds[device] : bounds[device + 1]]


def build_dispatch_table(dispatches: pd.DataFrame) -> DispatchTable:
    """The arrays of these dispatches.

    Args:
        dispatches: DISPATCHES or COUNTED_DISPATCHES with the key, `agent_id`, `kernel_name` and times; geometry,
            `queue_id` and `stream_id` are used where they are there. Grids are in work-items, as the frames have them.
    """
    is_counted = "start_ns" not in dispatches.columns
    names, name_of = _labels(dispatches["kernel_name"])
    grid = _geometry(dispatches, GRID)
    workgroup = _geometry(dispatches, WORKGROUP)
    columns = [name_of, *grid, *workgroup]
    symbol_of, first = number_rows(columns)
    symbols = tuple(_symbol(names, columns, row) for row in first.tolist())
    runs, run_of = _labels(dispatches["run"])
    processes, process_of = _labels(dispatches["process"])
    agent = dispatches["agent_id"].to_numpy(dtype=np.int64)
    device_of, first_of_device = number_rows([run_of, process_of, agent])
    devices = tuple(
        f"{runs[run_of[row]]}, process {processes[process_of[row]]}, agent {agent[row]}" for row in first_of_device
    )
    return DispatchTable(
        symbols=symbols,
        symbol_of=symbol_of,
        device_of=device_of,
        devices=devices,
        dispatch_id=dispatches["dispatch_id"].to_numpy(dtype=np.int64),
        start_ns=dispatches[_TIMES[is_counted][0]].to_numpy(dtype=np.int64),
        end_ns=dispatches[_TIMES[is_counted][1]].to_numpy(dtype=np.int64),
        stream_of=_streams(dispatches),
    )


def number_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """A number for each row, equal where all columns are, by first appearance; and the first row of each number."""
    number = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        codes, values = pd.factorize(column)
        number = pd.factorize(number * max(len(values), 1) + codes)[0].astype(np.int64)
    count = int(number.max()) + 1 if number.size else 0
    first = np.zeros(count, dtype=np.int64)
    first[number[::-1]] = np.arange(number.size - 1, -1, -1)
    return number, first


def _labels(column: pd.Series) -> tuple[list[str], IntArray]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(label) for label in column.cat.categories], column.cat.codes.to_numpy().astype(np.int64)
    codes, labels = pd.factorize(column)
    return [str(label) for label in labels], codes.astype(np.int64)


def _integers(dispatches: pd.DataFrame, name: str) -> IntArray | None:
    if name not in dispatches.columns:
        return None
    return np.asarray(dispatches[name].to_numpy(dtype=np.int64, na_value=_MISSING))


def _geometry(dispatches: pd.DataFrame, names: Sequence[str]) -> list[IntArray]:
    nothing = np.full(len(dispatches), _MISSING, dtype=np.int64)
    found = [_integers(dispatches, name) for name in names]
    return [nothing if column is None else column for column in found]


def _symbol(names: Sequence[str], columns: Sequence[IntArray], row: int) -> KernelSymbol:
    name_code, *sizes = (int(column[row]) for column in columns)
    grid, workgroup = sizes[:3], sizes[3:]
    name = names[name_code] if name_code >= 0 else ""
    if min(workgroup) < 1 or min(grid) < 1:
        return KernelSymbol(name=name, grid_workgroups=None, workgroup_workitems=None)
    # The last workgroup of a dimension may be a part of one.
    x, y, z = (-(-items // size) for items, size in zip(grid, workgroup, strict=True))
    return KernelSymbol(
        name=name, grid_workgroups=(x, y, z), workgroup_workitems=(workgroup[0], workgroup[1], workgroup[2])
    )


def _streams(dispatches: pd.DataFrame) -> IntArray:
    for name in ("stream_id", "queue_id"):
        column = _integers(dispatches, name)
        if column is not None and column.size and (column != _MISSING).all() and column.min() != column.max():
            return np.asarray(pd.factorize(column)[0], dtype=np.int64)
    return np.zeros(len(dispatches), dtype=np.int64)
