"""Command line and log of a job -> its configuration: batch, sequence, mesh, precision, ...

Names are those of MaxText, which `name=value` arguments and `Config param` lines have in common. What a command line
says is of the profiled job; a log is of the unprofiled one, and should say the same. A global batch that was resolved
is for all devices already: it is never multiplied by their number again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from rocktools.evidence import Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.summary.document import JOB_FACTS, Fact, Value
from rocktools.summary.facts import known, unknown
from rocktools.summary.recorded import RecordedRun

_ARGUMENT = re.compile(r"([a-z][a-z0-9_]*)=(.*)", re.DOTALL)
_MESH = re.compile(r"(ici|dcn)_(\w+)_parallelism")
_TEXTS = {
    "run_name": "run_name",
    "model_name": "model_name",
    "hardware": "hardware",
    "dtype": "dtype",
    "weight_dtype": "weight_dtype",
    "remat_policy": "remat_policy",
    "attention": "attention",
    "optimizer": "opt_type",
    "dataset": "dataset_type",
    "profiler": "profiler",
}
_NUMBERS = {
    "global_batch_sequences_count": "global_batch_size_to_train_on",
    "per_device_batch_sequences_count": "per_device_batch_size",
    "gradient_accumulation_steps_count": "gradient_accumulation_steps",
    "sequence_tokens_count": "max_target_length",
    "steps_count": "steps",
}
_OF_A_RUN = re.compile(r"run_name|steps|.*profiler.*|.*_dir(ectory)?|.*_path|enable_checkpointing|.*tensorboard.*")
"""Settings in which two runs of the same job may differ."""

_NOT_TOLD = "neither the command line nor a log says so"

Settings = Mapping[str, tuple[str, str]]
"""Name -> value as text, and where it was read."""


def settings_of_runs(runs: Sequence[RecordedRun]) -> dict[str, tuple[str, str]]:
    """The `name=value` arguments of the profiled job; of a name that runs differ in, none."""
    found: dict[str, tuple[str, str]] = {}
    different: set[str] = set()
    for run in runs:
        for argument in run.job_argv:
            match = _ARGUMENT.fullmatch(argument)
            if match is None:
                continue
            if match[1] in found and found[match[1]][0] != match[2]:
                different.add(match[1])
            found[match[1]] = (match[2], f"{run.source}: argv")
    return {name: value for name, value in found.items() if name not in different}


def job_facts(of_job: Settings, of_log: Settings, devices_count: int | None) -> dict[str, Fact]:
    """Facts of all `JOB_FACTS`.

    Args:
        of_job: settings of the profiled job; they go before those of the log.
        of_log: settings by the log of the unprofiled run.
        devices_count: that the job ran on; None: unknown.
    """
    settings = {**of_log, **of_job}
    facts = dict.fromkeys(JOB_FACTS, unknown(_NOT_TOLD))
    for name, key in _TEXTS.items():
        if key in settings:
            facts[name] = known(settings[key][0], Evidence.DECLARED, settings[key][1])
    for name, key in _NUMBERS.items():
        value = _number(settings[key][0]) if key in settings else None
        if value is not None:
            facts[name] = known(value, Evidence.DECLARED, settings[key][1])
    mesh = {name: text for name, (text, _) in sorted(settings.items()) if _MESH.fullmatch(name) and text != "1"}
    if mesh:
        axes = " ".join(f"{name.removesuffix('_parallelism')}={text}" for name, text in mesh.items())
        facts["mesh"] = known(axes, Evidence.DECLARED, settings[next(iter(mesh))][1])
    if of_log:
        facts["config_sha256"] = known(_digest(of_log), Evidence.DECLARED, next(iter(of_log.values()))[1])
    facts["global_batch_sequences_count"] = _global_batch(facts, devices_count)
    facts["tokens_per_step_count"] = _product(
        (facts["global_batch_sequences_count"], facts["sequence_tokens_count"]),
        "global batch in sequences times their length",
        "the global batch or the length of sequences is not known",
    )
    return facts


def check_log_matches(of_job: Settings, of_log: Settings, where: str) -> tuple[Finding, ...]:
    """A finding where the log is of a job with other settings than the profiled one."""
    shared = sorted(name for name in set(of_job) & set(of_log) if not _OF_A_RUN.fullmatch(name))
    differing = [name for name in shared if not _is_same(of_job[name][0], of_log[name][0])]
    if not differing:
        return ()
    shown = ", ".join(f"{name} ({of_job[name][0]} and {of_log[name][0]})" for name in differing[:4])
    return (
        Finding(
            rule="step-log-of-another-job",
            severity=Severity.WARNING,
            where=where,
            message=f"the log is of a job whose settings are not those of the profiled one: {shown}",
            numbers={"settings_count": len(differing)},
            advice="name the log of the same job, run without a profiler",
        ),
    )


def _is_same(a: str, b: str) -> bool:
    return a.strip("'\"") == b.strip("'\"") or (_number(a) is not None and _number(a) == _number(b))


def _number(text: str) -> Value:
    """A whole number where it is one, else a float; None where it is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def _global_batch(facts: Mapping[str, Fact], devices_count: int | None) -> Fact:
    resolved = facts["global_batch_sequences_count"]
    if resolved.value is not None:
        return resolved
    devices = (
        unknown("the number of devices is not known")
        if devices_count is None
        else known(devices_count, Evidence.MEASURED, "devices that ran the steps")
    )
    return _product(
        (facts["per_device_batch_sequences_count"], facts["gradient_accumulation_steps_count"], devices),
        "sequences for each device, times accumulation steps, times devices",
        "neither it, nor batch for each device, accumulation and devices are known",
    )


def _product(factors: Sequence[Fact], source: str, reason: str) -> Fact:
    product: int | float = 1
    evidence = Evidence.ANALYTIC
    for each in factors:
        if isinstance(each.value, (str, bool)) or each.value is None or each.evidence is None:
            return unknown(reason)
        product *= each.value
        evidence = weakest(evidence, each.evidence)
    return known(int(product) if float(product).is_integer() else product, evidence, source)


def _digest(settings: Settings) -> str:
    """Of everything that makes the job; runs of one job have the same."""
    lines = [f"{name}={text}" for name, (text, _) in sorted(settings.items()) if not _OF_A_RUN.fullmatch(name)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", errors="replace")).hexdigest()
