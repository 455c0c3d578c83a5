"""Summaries of made runs for experiments: step times, parts and buckets as a test wants them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from summary_documents import any_record

from rocktools.evidence import Absence, Evidence
from rocktools.summary.document import (
    JOB_FACTS,
    PROVENANCE_FACTS,
    Fact,
    JobStep,
    LedgerBlock,
    LedgerBucket,
    LoggedStep,
    Missing,
    OverlapBlock,
    OverlapMeans,
    OverlapStep,
    StepLog,
    Steps,
    Summary,
)

_JOB = {"global_batch_sequences_count": 64, "sequence_tokens_count": 4096, "dtype": "bf16", "mesh": "(4, 2)"}
_PROVENANCE = {"device_product": "MI355X", "jaxlib_version": "0.10.2", "xla_flags": "--a=1 --b=2"}
_NOTHING = Missing(absence=Absence.NOT_COLLECTED, reason="not in this test")


def made_summary(
    durations_ns: Sequence[int],
    *,
    sha256: str,
    compute_ns: Sequence[int] = (),
    attention_ns: Sequence[float] = (),
    losses: Mapping[int, float] | None = None,
    **facts: Any,
) -> Summary:
    """A run of one device.

    Args:
        durations_ns: of its steps, all of which count; they are spans, too.
        compute_ns: part of each step that is compute; () for half of it. What is left is exposed communication.
        attention_ns: forward attention in each step; () for a tenth of it.
        losses: step number -> loss in the log; None for no log.
        facts: values of facts of the job or of provenance.
    """
    summary = any_record(Summary, Random(5), is_simulated=False, title=f"run {sha256}")
    computed = list(compute_ns) or [duration // 2 for duration in durations_ns]
    spent = list(attention_ns) or [duration / 10 for duration in durations_ns]
    job = {**_JOB, **{name: value for name, value in facts.items() if name in JOB_FACTS}}
    known = {**_PROVENANCE, **{name: value for name, value in facts.items() if name in PROVENANCE_FACTS}}
    return dataclasses.replace(
        summary,
        metadata=dataclasses.replace(summary.metadata, job=_facts(JOB_FACTS, job), devices_count=1),
        provenance=dataclasses.replace(
            summary.provenance, facts=_facts(PROVENANCE_FACTS, known), inputs_sha256=sha256 * 64
        ),
        steps=_steps(durations_ns),
        step_log=_NOTHING if losses is None else _log(durations_ns, losses),
        overlap=_overlap(durations_ns, computed),
        ledger=_ledger(spent),
        operations=_NOTHING,
        families=_NOTHING,
        regions=_NOTHING,
    )


def _facts(names: Sequence[str], known: Mapping[str, Any]) -> dict[str, Fact]:
    return {
        name: Fact(value=known[name], evidence=Evidence.DECLARED)
        if name in known
        else Fact(value=None, missing=_NOTHING)
        for name in names
    }


def _steps(durations: Sequence[int]) -> Steps:
    series = tuple(
        any_record(JobStep, Random(1), run="run", step_index=at, duration_ns=duration, is_counted=True, step_class=None)
        for at, duration in enumerate(durations)
    )
    return any_record(Steps, Random(2), series=series, classes=())


def _log(durations: Sequence[int], losses: Mapping[int, float]) -> StepLog:
    steps = tuple(
        any_record(LoggedStep, Random(3), step_number=at, duration_ns=duration, loss=losses.get(at), exclusion=None)
        for at, duration in enumerate(durations)
    )
    return any_record(StepLog, Random(4), steps=steps, statistics=None)


def _overlap(durations: Sequence[int], computed: Sequence[int]) -> OverlapBlock:
    steps = tuple(
        any_record(
            OverlapStep,
            Random(5),
            run="run",
            device="gpu0",
            step_index=at,
            compute_ns=mine,
            exposed_communication_ns=duration - mine,
            exposed_copy_ns=0,
            idle_ns=0,
            span_ns=duration,
        )
        for at, (duration, mine) in enumerate(zip(durations, computed, strict=True))
    )
    count = len(durations)
    mean = any_record(
        OverlapMeans,
        Random(6),
        span_ns=sum(durations) / count,
        compute_ns=sum(computed) / count,
        exposed_communication_ns=(sum(durations) - sum(computed)) / count,
        exposed_copy_ns=0.0,
        idle_ns=0.0,
    )
    return any_record(OverlapBlock, Random(7), mean=mean, steps=steps)


def _ledger(attention: Sequence[float]) -> LedgerBlock:
    count = len(attention)
    buckets = tuple(
        any_record(
            LedgerBucket,
            Random(8),
            activity="compute",
            phase=phase,
            component="attention",
            sum_per_step_ns=factor * sum(attention) / count,
            series_ns=tuple(factor * each for each in attention),
            rows_count=count,
        )
        for phase, factor in (("forward", 1.0), ("backward", 2.0))
    )
    return any_record(LedgerBlock, Random(9), places_count=count, buckets=buckets, tables=())
