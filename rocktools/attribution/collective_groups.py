"""Communication kernels -> the replica group that each took part in, so that only devices that met are compared.

Replica groups name participants of the program; which device is which is recorded nowhere. Where a program has exactly
as many participants as its node has GPUs, the GPU's index on the node is the participant's number, as JAX numbers the
devices of one host. Anywhere else (several nodes, part of a node) no group is named, and all devices of a host count as
one group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from rocktools.attribution.collective_rates import find_replica_groups
from rocktools.hlo.module import HloModule
from rocktools.timeline.activities import Activity, labels_from_codes
from rocktools.timeline.grouping import codes_of, group_rows

_DEVICE = re.compile(r"(.*):gpu(\d+)")


def label_replica_groups(
    rows: pd.DataFrame, programs: Mapping[str, HloModule], gpus_count: Mapping[str, int]
) -> pd.Categorical:
    """The group of each row as text, `0` for the first; missing where it is no collective, or not known.

    Args:
        rows: ATTRIBUTED.
        programs: program id -> program.
        gpus_count: host, as in labels of devices -> GPUs of the node.
    """
    known = {program_id: find_replica_groups(module) for program_id, module in programs.items()}
    groups = group_rows([codes_of(rows[name]) for name in ("activity", "program_id", "instruction", "device")])
    examples = rows.iloc[groups.example]
    labels = [
        _group_of(known, gpus_count, *question)
        for question in zip(
            *(examples[name] for name in ("activity", "program_id", "instruction", "device")), strict=True
        )
    ]
    names = sorted({label for label in labels if label is not None}, key=int)
    of_label: dict[str | None, int] = {None: -1, **{name: code for code, name in enumerate(names)}}
    codes = np.array([of_label[label] for label in labels], dtype=np.int64)
    return labels_from_codes(codes[groups.of] if len(labels) else groups.of, names)


def _group_of(
    known: Mapping[str, Mapping[str, tuple[tuple[int, ...], ...]]],
    gpus_count: Mapping[str, int],
    activity: object,
    program_id: object,
    instruction: object,
    device: object,
) -> str | None:
    if activity != Activity.COMMUNICATION.value or pd.isna(instruction):
        return None
    groups = known.get(str(program_id), {}).get(str(instruction), ())
    place = _DEVICE.fullmatch(str(device))
    if place is None or sum(map(len, groups)) != gpus_count.get(place[1]):
        return None
    number = int(place[2])
    return next((str(index) for index, group in enumerate(groups) if number in group), None)
