"""Unprofiled steps and throughput: what counts, and that nothing profiled becomes tokens per second."""

from __future__ import annotations

import pytest

from rocktools.evidence import Evidence
from rocktools.sources.step_log import StepLogFile, StepRecord
from rocktools.summary.build_log import NO_LOG, build_step_log, build_throughput
from rocktools.summary.document import Missing, StepLog, Throughput
from rocktools.summary.facts import known, unknown

DEVICES = known(8, Evidence.MEASURED, "trace")
TOKENS = known(262_144, Evidence.DECLARED, "argv")


def _log(durations_s: list[float], config: dict[str, str] | None = None, **printed: float) -> StepLogFile:
    steps = tuple(
        StepRecord(step_number=number, duration_ns=round(seconds * 1e9), line=number, **printed)
        for number, seconds in enumerate(durations_s)
    )
    return StepLogFile(format="maxtext", steps=steps, config=config or {})


def _built(log: StepLogFile, warmup: int = 0) -> tuple[StepLog, list[str]]:
    block, findings = build_step_log(log, "log", warmup_steps_count=warmup)
    return block, [each.rule for each in findings]


def _throughput(block: StepLog, tokens=TOKENS, devices=DEVICES) -> Throughput:
    found = build_throughput(block, {"tokens_per_step_count": tokens}, devices)
    assert isinstance(found, Throughput)
    return found


def test_warm_up_does_not_count_and_the_median_stands_for_the_step() -> None:
    block, rules = _built(_log([60.0, 5.0, 2.0, 1.0, 3.0]), warmup=2)
    assert [each.exclusion for each in block.steps] == ["warm-up", "warm-up", None, None, None]
    assert (block.step_ns, block.statistic, block.is_single_sample) == (2e9, "median", False)
    assert block.statistics is not None
    assert block.statistics.samples_count == 3
    assert rules == []


def test_one_sample_is_called_one_sample() -> None:
    block, rules = _built(_log([60.0, 20.599]), warmup=1)
    assert (block.statistic, block.is_single_sample, block.step_ns) == ("sample", True, 20.599e9)
    assert rules == ["few-logged-steps"]
    assert _throughput(block).relative_spread_ratio is None


def test_throughput_of_the_mixtral_study() -> None:
    """262,144 tokens in 20.599 s on 8 devices are 1,590.757 tokens/s/device; the study prints 1,590.7."""
    block, _ = _built(_log([20.599, 20.599]))
    found = _throughput(block)
    assert found.tokens_per_s.value == pytest.approx(262_144 / 20.599)
    assert found.tokens_per_device_per_s.value == pytest.approx(1590.757, abs=5e-4)
    assert found.tokens_per_s.evidence is Evidence.DECLARED  # as weak as what says how many tokens a step has


def test_steps_that_the_job_profiled_itself_do_not_count() -> None:
    config = {"profiler": "xplane", "skip_first_n_steps_for_profiler": "1", "profiler_steps": "2"}
    block, rules = _built(_log([2.0, 9.0, 9.0, 2.0], config))
    assert [each.exclusion for each in block.steps] == [None, "profiled", "profiled", None]
    assert block.profiled_steps_count == 2
    assert block.step_ns == 2e9
    assert rules == ["step-log-of-a-profiled-run"]


def test_of_a_profiler_whose_window_is_unknown_no_step_counts() -> None:
    block, rules = _built(_log([2.0, 2.0], {"profiler": "xplane"}))
    assert block.step_ns is None
    assert rules == ["step-log-of-a-profiled-run", "few-logged-steps"]
    found = build_throughput(block, {"tokens_per_step_count": TOKENS}, DEVICES)
    assert isinstance(found, Missing)


@pytest.mark.parametrize("profiler", ["", "''", "none"])
def test_profiler_that_is_off_profiles_nothing(profiler: str) -> None:
    block, rules = _built(_log([2.0, 2.0], {"profiler": profiler}))
    assert block.profiled_steps_count == 0
    assert rules == []


def test_without_a_log_there_is_no_throughput() -> None:
    assert build_throughput(NO_LOG, {"tokens_per_step_count": TOKENS}, DEVICES) is NO_LOG


def test_where_tokens_are_unknown_the_job_may_have_printed_them() -> None:
    block, _ = _built(_log([2.0, 2.0], tokens_per_device_per_s=1000.0))
    found = _throughput(block, tokens=unknown("not told"))
    assert (found.tokens_per_device_per_s.value, found.tokens_per_s.value) == (1000.0, 8000.0)
    assert found.tokens_per_s.evidence is Evidence.DECLARED


def test_where_nothing_says_how_many_tokens_the_figure_is_missing_and_not_zero() -> None:
    block, _ = _built(_log([2.0, 2.0]))
    found = _throughput(block, tokens=unknown("not told"))
    assert found.tokens_per_s.value is None
    assert found.tokens_per_s.missing is not None
    assert found.tokens_per_s.missing.reason == "not told"
    assert found.step_ns == 2e9
