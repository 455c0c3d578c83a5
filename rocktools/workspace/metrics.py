"""Counter passes -> QUANTITIES: what `rocktools metrics` and `rocktools counters eval` show."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from rocktools.counters.catalog import architectures
from rocktools.counters.evaluate import Level, PassRule, evaluate
from rocktools.counters.formulas import Formulas, formulas_with, load_formulas
from rocktools.errors import NothingToRead, UsageError
from rocktools.findings import Finding
from rocktools.workspace.counted import CountedRuns, read_counted_runs

TYPED = "expression"
"""Name of the quantity that somebody typed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metrics:
    """Quantities of counter passes.

    Attributes:
        frame: QUANTITIES.
        counted: what they come from.
        findings: of the files, of the match of passes, and of the values.
        is_simulated: whether any file says that no hardware produced it.
    """

    frame: pd.DataFrame
    counted: CountedRuns
    findings: tuple[Finding, ...]
    is_simulated: bool


def load_formulas_of(counted: CountedRuns) -> dict[str, Formulas]:
    """The formulas of the architectures in counter passes; of all that are known, where none of them is."""
    known = architectures()
    wanted = [name for name in known if name in set(counted.table.architectures.tolist())]
    return {name: load_formulas(name) for name in wanted or known}


def read_metrics(
    arguments: Sequence[str | Path],
    *,
    level: Level = Level.KERNEL,
    pass_rule: PassRule = PassRule.STRICT,
    quantities: Collection[str] | None = None,
    architecture: str | None = None,
) -> Metrics:
    """Every quantity of the counter passes in everything that the arguments name.

    Args:
        arguments: as `read_counted_runs` takes them.
        level: a row for each kernel, or for each dispatch.
        pass_rule: what happens to counters that belong together and come from different passes.
        quantities: only these; None: all.
        architecture: of devices whose architecture no file tells.

    Raises:
        UsageError: nothing was named, or there is no such quantity.
        InputError: a file cannot be read, or there is no counter pass.
    """
    counted = read_counted_runs(arguments, architecture=architecture)
    evaluated = evaluate(
        counted.table, load_formulas_of(counted), level=level, pass_rule=pass_rule, quantities=quantities
    )
    return Metrics(
        frame=evaluated.frame,
        counted=counted,
        findings=(*counted.findings, *evaluated.findings),
        is_simulated=counted.is_simulated,
    )


def keep_kernels(metrics: Metrics, pattern: str) -> Metrics:
    """The rows of kernels whose name has a match of a regular expression.

    Raises:
        UsageError: the pattern is not a regex.
        NothingToRead: no kernel matches.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError("bad-regex", f"--match {pattern!r} is not a regex: {error}") from error
    is_kept = metrics.frame["kernel_name"].map(lambda name: compiled.search(str(name)) is not None).astype(bool)
    if not is_kept.any():
        raise NothingToRead(
            "no-kernel-matched",
            f"no counted kernel has a match of the regex {pattern!r}, which is case-sensitive",
            hint="run it without --match to see the names",
        )
    return replace(metrics, frame=metrics.frame[is_kept].reset_index(drop=True))


def evaluate_text(
    arguments: Sequence[str | Path],
    text: str,
    *,
    level: Level = Level.KERNEL,
    pass_rule: PassRule = PassRule.STRICT,
    architecture: str | None = None,
) -> Metrics:
    """One expression over counters, quantities and facts of the device, for every kernel or dispatch.

    Args:
        text: in the grammar of the formulas: `128 * TCC_REQ / elapsed_cycles`.
        arguments, level, pass_rule, architecture: as `read_metrics` takes them.

    Raises:
        FormulaError: the expression does not follow the grammar, or its units do not fit.
        UsageError: a name in it means nothing.
        InputError: a file cannot be read, or there is no counter pass.
    """
    counted = read_counted_runs(arguments, architecture=architecture)
    formulas = {name: formulas_with(each, TYPED, text) for name, each in load_formulas_of(counted).items()}
    evaluated = evaluate(counted.table, formulas, level=level, pass_rule=pass_rule, quantities=[TYPED])
    return Metrics(
        frame=evaluated.frame,
        counted=counted,
        findings=(*counted.findings, *evaluated.findings),
        is_simulated=counted.is_simulated,
    )
