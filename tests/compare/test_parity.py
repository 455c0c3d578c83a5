"""The gate in front of a comparison: other work is stopped, other instruments are doubted, changes are listed."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import pytest
from summary_documents import any_record

from rocktools.compare.compare import compare_summaries
from rocktools.compare.parity import FACT_NAMES, FactKind, Gate, ParityState, check_parity
from rocktools.evidence import Absence, Evidence
from rocktools.summary.document import JOB_FACTS, PROVENANCE_FACTS, Fact, Missing, Summary

_JOB = {"global_batch_sequences_count": 64, "sequence_tokens_count": 4096, "dtype": "bf16", "mesh": "(4, 2)"}
_PROVENANCE = {"device_product": "MI355X", "jaxlib_version": "0.10.2", "xla_flags": "--a=1 --b=2"}


def _facts(names: tuple[str, ...], known: dict[str, Any]) -> dict[str, Fact]:
    missing = Fact(value=None, missing=Missing(absence=Absence.NOT_COLLECTED, reason="nothing says so"))
    return {name: Fact(value=known[name], evidence=Evidence.DECLARED) if name in known else missing for name in names}


def _summary(**changed: Any) -> Summary:
    """A summary that knows a few facts; `changed` replaces or adds some."""
    summary = any_record(Summary, Random(5), is_simulated=False)
    job = {**_JOB, **{name: value for name, value in changed.items() if name in JOB_FACTS}}
    facts = {**_PROVENANCE, **{name: value for name, value in changed.items() if name in PROVENANCE_FACTS}}
    return dataclasses.replace(
        summary,
        metadata=dataclasses.replace(summary.metadata, job=_facts(JOB_FACTS, job), devices_count=8),
        provenance=dataclasses.replace(
            summary.provenance,
            facts=_facts(PROVENANCE_FACTS, facts),
            inputs_sha256=changed.get("inputs_sha256", "1" * 64),
        ),
    )


def test_every_fact_of_the_document_is_looked_at():
    others = {"hardware", "steps_count", "trace_schema_version", "memory_clock_hz", "power_cap", "performance_level"}
    others |= {"environment_added", "environment_removed"}
    assert set(JOB_FACTS) | set(PROVENANCE_FACTS) <= set(FACT_NAMES) | others


def test_another_batch_closes_the_gate_and_nothing_is_compared():
    comparison = compare_summaries(_summary(), _summary(global_batch_sequences_count=32))
    assert comparison.parity.gate is Gate.CLOSED
    assert comparison.parity.reasons[0] == "global_batch_sequences_count differs: 64 before, 32 after"
    assert comparison.steps is None
    assert comparison.buckets == ()


@pytest.mark.parametrize("name", ["sequence_tokens_count", "dtype", "mesh", "device_product"])
def test_other_work_closes_it_unless_it_is_allowed(name):
    other = _summary(**{name: "another"})
    assert check_parity(_summary(), other).gate is Gate.CLOSED
    allowed = check_parity(_summary(), other, allowed=[name])
    assert allowed.gate is Gate.DOUBTFUL
    assert {row.state for row in allowed.rows if row.name == name} == {ParityState.ALLOWED}


def test_a_simulation_is_not_compared_with_hardware():
    simulated = dataclasses.replace(_summary(), is_simulated=True)
    assert check_parity(_summary(), simulated).gate is Gate.CLOSED


def test_a_new_version_is_a_change_and_stops_only_where_provenance_is_strict():
    other = _summary(jaxlib_version="0.11.0", rocm_version="7.14")
    found = check_parity(_summary(), other)
    assert found.gate is Gate.DOUBTFUL
    assert found.changes == ("jaxlib_version",)
    assert {row.kind for row in found.rows if row.name == "jaxlib_version"} == {FactKind.CHANGE}
    strict = check_parity(_summary(), other, is_strict=True)
    assert strict.gate is Gate.CLOSED
    assert any("jaxlib_version differs" in reason for reason in strict.reasons)
    assert any("rocm_version is known on one side only" in reason for reason in strict.reasons)


def test_other_instruments_are_doubted():
    known = {"command_buffers": "on"}
    found = check_parity(_summary(**known), _summary(command_buffers="off"))
    assert found.gate is Gate.DOUBTFUL
    assert any("may be that of the measurement" in reason for reason in found.reasons)


def test_threads_of_a_host_are_not_compared_with_a_device():
    summary = _summary()
    quality = dataclasses.replace(
        summary.quality, overview=dataclasses.replace(summary.quality.overview, is_host_only=True)
    )
    device = dataclasses.replace(
        summary.quality, overview=dataclasses.replace(summary.quality.overview, is_host_only=False)
    )
    one, other = (dataclasses.replace(summary, quality=each) for each in (quality, device))
    assert check_parity(one, other).gate is Gate.CLOSED


def test_a_profile_and_a_trace_of_rocprofv3_are_other_instruments():
    summary = _summary()
    found = check_parity(
        dataclasses.replace(summary, metadata=dataclasses.replace(summary.metadata, source_formats=("xspace",))),
        dataclasses.replace(summary, metadata=dataclasses.replace(summary.metadata, source_formats=("rocpd",))),
    )
    assert found.gate is Gate.DOUBTFUL
    assert any("source_formats differs" in reason and "measurement" in reason for reason in found.reasons)


def test_a_closed_gate_says_what_closed_it_and_no_more():
    found = check_parity(_summary(command_buffers="on"), _summary(command_buffers="off", dtype="fp8"))
    assert found.reasons == ("dtype differs: 'bf16' before, 'fp8' after",)


def test_flags_in_another_order_are_the_same_flags():
    assert check_parity(_summary(), _summary(xla_flags="--b=2 --a=1")).changes == ()
    assert check_parity(_summary(), _summary(xla_flags="--b=2 --a=0 --a=1")).changes == ()
    assert check_parity(_summary(), _summary(xla_flags="--b=2 --a=3")).changes == ("xla_flags",)


def test_one_run_with_itself_is_told():
    assert check_parity(_summary(), _summary()).is_same_input
    assert not check_parity(_summary(), _summary(inputs_sha256="2" * 64)).is_same_input
    assert not check_parity(_summary(inputs_sha256=None), _summary(inputs_sha256=None)).is_same_input
    strict = check_parity(_summary(), _summary(inputs_sha256="2" * 64), is_strict=True)
    assert strict.gate is Gate.OPEN
