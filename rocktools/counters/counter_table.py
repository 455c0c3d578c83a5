"""Counter values of matched executions as arrays: one row per execution, one array per counter and pass.

Takes a frame in which executions of different passes have been matched already; that they are the same executions, and
how that was found out, is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.counters.expression import REDUCTIONS, Name
from rocktools.counters.formulas import FACTS
from rocktools.counters.meanings import split_reduction

KERNEL = ("run", "role", "device_index", "kernel_name")
EXECUTION = (*KERNEL, "ordinal")
_DEVICE = ["run", "device_index"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """A counter as one pass read it; arrays with one entry for each execution.

    Attributes:
        values: NaN where there is none.
        is_overcounted: whether there is a value that replay passes made useless.
    """

    pass_label: str
    values: np.ndarray
    is_overcounted: np.ndarray

    @property
    def is_there(self) -> np.ndarray:
        is_there: np.ndarray = ~np.isnan(self.values)
        return is_there

    def take(self, rows: np.ndarray) -> Reading:
        return Reading(pass_label=self.pass_label, values=self.values[rows], is_overcounted=self.is_overcounted[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CounterTable:
    """Counter values of executions on devices of any architecture.

    Attributes:
        executions: one row for each: run, role, device_index, kernel_name, ordinal; sorted by them.
        readings: counter with its reduction -> what each pass read, in the order of their labels.
        facts: fact of the device -> one value for each execution, NaN where it was not recorded.
        architectures: of each execution's device; "" where it was not recorded.
        has_declared_facts: whether the facts of each execution's device come from a table of models.
        requested: counters that were asked for, with or without their reduction.
    """

    executions: pd.DataFrame
    readings: Mapping[Name, tuple[Reading, ...]]
    facts: Mapping[str, np.ndarray]
    architectures: np.ndarray
    has_declared_facts: np.ndarray
    requested: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.executions)

    def take(self, rows: np.ndarray) -> CounterTable:
        """The executions at `rows`."""
        return CounterTable(
            executions=self.executions.iloc[rows].reset_index(drop=True),
            readings={name: tuple(each.take(rows) for each in found) for name, found in self.readings.items()},
            facts={name: values[rows] for name, values in self.facts.items()},
            architectures=self.architectures[rows],
            has_declared_facts=self.has_declared_facts[rows],
            requested=self.requested,
        )


def build_counter_table(
    matched: pd.DataFrame, agents: pd.DataFrame, *, requested: Collection[str] = (), declared_runs: Collection[str] = ()
) -> CounterTable:
    """The table of counter values.

    Args:
        matched: run, role, device_index, kernel_name, ordinal, counter, pass, sum_value, min_value, max_value; a
            counter that several passes read has a row for each. Further columns do no harm.
        agents: AGENTS of the same runs.
        requested: counters that were asked for; those without any value are missing, not only not collected.
        declared_runs: labels of runs whose facts of devices come from a table of models.
    """
    keys = matched[list(EXECUTION)].astype({"run": str, "role": str, "kernel_name": str})
    codes = keys.groupby(list(EXECUTION), sort=True, observed=True).ngroup().to_numpy()
    executions = keys.drop_duplicates().sort_values(list(EXECUTION), kind="stable", ignore_index=True)
    readings: dict[Name, list[Reading]] = {}
    for (counter, label), rows in matched.groupby(["counter", "pass"], observed=True, sort=True).indices.items():
        stem, reduction = split_reduction(str(counter))
        at = codes[rows]
        for each in (reduction,) if reduction else REDUCTIONS:
            # A counter that is named by its reduction has one value, which is its own sum.
            values = matched[f"{'sum' if reduction else each}_value"].to_numpy(dtype=np.float64)[rows]
            if each == "sum" or not np.isnan(values).all():
                reading = _reading(str(label), values, at, len(executions), is_sum=each == "sum")
                readings.setdefault(Name(stem, each), []).append(reading)
    devices = _device_facts(agents)
    joined = executions[_DEVICE].merge(devices, on=_DEVICE, how="left", validate="many_to_one")
    return CounterTable(
        executions=executions,
        readings={name: tuple(found) for name, found in readings.items()},
        facts={name: joined[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in FACTS},
        architectures=joined["arch"].fillna("").to_numpy(dtype=object),
        has_declared_facts=executions["run"].isin(list(declared_runs)).to_numpy(dtype=np.bool_),
        requested=frozenset(requested),
    )


def _reading(label: str, values: np.ndarray, at: np.ndarray, rows_count: int, *, is_sum: bool) -> Reading:
    whole, is_overcounted = np.full(rows_count, np.nan), np.zeros(rows_count, dtype=np.bool_)
    whole[at] = values
    # The readers leave a sum out where the values of replay passes cannot be told apart, and nowhere else.
    is_overcounted[at] = np.isnan(values) & is_sum
    return Reading(pass_label=label, values=whole, is_overcounted=is_overcounted)


def _device_facts(agents: pd.DataFrame) -> pd.DataFrame:
    """Facts of each GPU of a run: those of the first process that recorded them."""
    gpus = agents[agents["kind"].astype(str) != "CPU"]
    columns = gpus[["run", "agent_id", "type_index", "arch", *FACTS]].astype({"run": str, "arch": object})
    index = columns["type_index"].astype("Int64").fillna(columns["agent_id"].astype("Int64"))
    columns["device_index"] = index.astype("int64")
    for name in FACTS:
        columns[name] = columns[name].astype("Float64")
    return columns.groupby(_DEVICE, sort=False, as_index=False)[["arch", *FACTS]].first()
