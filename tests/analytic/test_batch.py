"""The tokens of a step, counted once."""

from __future__ import annotations

import pytest

from rocktools.analytic.batch import resolve_batch
from rocktools.errors import UsageError


def test_a_batch_of_one_device_is_multiplied_and_a_global_one_is_not():
    mine = resolve_batch(sequence_tokens=4096, devices_count=8, per_device_sequences=4, microsteps_count=2)
    whole = resolve_batch(sequence_tokens=4096, devices_count=8, global_sequences=64, microsteps_count=2)
    assert mine == whole
    assert (mine.sequences_count, mine.tokens_count) == (64, 262_144)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"per_device_sequences": 4, "global_sequences": 256}, "devices are multiplied in twice"),
        ({"per_device_sequences": 4, "global_sequences": 33}, "are 32, and the global batch is given as 33"),
        ({}, "no batch is given"),
        ({"per_device_sequences": 0}, "at least 1"),
        ({"global_sequences": 8, "microsteps_count": 0}, "at least 1"),
    ],
)
def test_batches_that_do_not_fit_are_refused(given, words):
    with pytest.raises(UsageError, match=words):
        resolve_batch(**{"sequence_tokens": 16, "devices_count": 8} | given)


def test_both_may_be_given_where_they_agree():
    batch = resolve_batch(sequence_tokens=16, devices_count=8, per_device_sequences=4, global_sequences=32)
    assert batch.sequences_count == 32
