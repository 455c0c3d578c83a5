"""What parity says of two runs -> the changes between them, each counted once: an experiment has exactly one.

Several flags in one text are several changes. Facts that can only change together are one: the versions of JAX and its
parts, and the hash of a configuration with the settings in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rocktools.compare.experiment_document import ChangedFact
from rocktools.compare.parity import FactKind, Parity, ParityRow, ParityState

_TOGETHER: tuple[tuple[str, ...], ...] = (("jax_version", "jaxlib_version", "jax_plugin_version"),)
_OF_CONFIG = (
    *("remat_policy", "attention", "global_batch_sequences_count", "per_device_batch_sequences_count"),
    *("gradient_accumulation_steps_count", "sequence_tokens_count", "tokens_per_step_count", "mesh", "dtype"),
    *("weight_dtype", "optimizer", "dataset", "model_name"),
)
_BATCH = (
    *("global_batch_sequences_count", "per_device_batch_sequences_count", "tokens_per_step_count"),
    "gradient_accumulation_steps_count",
)
_CONFIG_HASH = "config_sha256"


def changes_of(parity: Parity) -> tuple[ChangedFact, ...]:
    """Every change that is recorded: what may make a difference, and work that was allowed to differ."""
    rows = [
        row
        for row in parity.rows
        if (row.state is ParityState.DIFFERENT and row.kind is FactKind.CHANGE)
        or (row.state is ParityState.ALLOWED and row.kind is not FactKind.IDENTITY)
    ]
    names = {row.name for row in rows}
    if names & set(_OF_CONFIG):
        rows = [row for row in rows if row.name != _CONFIG_HASH]
    changes: list[ChangedFact] = []
    for row in rows:
        if row.name == "xla_flags":
            changes += _flags(row)
            continue
        group = next((each for each in (*_TOGETHER, _BATCH) if row.name in each), (row.name,))
        present = [name for name in group if name in names]
        if row.name != present[0]:
            continue
        also = present[1:]
        if row.name in _OF_CONFIG and _CONFIG_HASH in names:
            also = [*also, _CONFIG_HASH]
        changes.append(ChangedFact(name=row.name, before=row.before, after=row.after, also=tuple(also)))
    return tuple(changes)


def _flags(row: ParityRow) -> list[ChangedFact]:
    """One change for each flag that differs; the last of several of one name counts."""
    sides = []
    for value in (row.before, row.after):
        try:
            words = shlex.split(str(value or ""))
        except ValueError:
            return [ChangedFact(name=row.name, before=row.before, after=row.after)]
        sides.append({name: text for name, _, text in (word.partition("=") for word in words)})
    before, after = sides
    names: Sequence[str] = sorted(before.keys() | after.keys())
    found = [
        ChangedFact(name=f"xla_flags {name}", before=before.get(name), after=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]
    return found or [ChangedFact(name=row.name, before=row.before, after=row.after)]
