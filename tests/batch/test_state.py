"""The state file: it comes back as it was, and what was running when we were killed is interrupted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rocktools.batch.state import (
    SCHEMA_FILE,
    STATE_NAME,
    Attempt,
    BatchState,
    Job,
    JobKind,
    JobState,
    interrupted_attempts,
    read_state,
    write_state,
)
from rocktools.errors import DamagedFile, InputError, UnsupportedVersion

GOOD = Attempt(
    number=1,
    folder="kernels/a/attempt-1",
    state=JobState.DONE,
    device=3,
    started_utc="2026-01-01T00:00:00.000+00:00",
    duration_s=12.5,
    exit_code=0,
    passes_count=20,
    launches_count=10,
    version="3.7.0",
    results=("kernels/a/attempt-1/workloads/a/MI355X",),
    files={"kernels/a/attempt-1/workloads/a/MI355X/pmc_perf.csv": "a" * 64},
    findings=({"rule": "r", "severity": "note", "where": "w", "message": "m", "numbers": {}, "advice": ""},),
)
BAD = Attempt(
    number=1, folder="kernels/b/attempt-1", state=JobState.FAILED, reason="timed-out", what="x", signal_number=9
)
RUNNING = Attempt(number=2, folder="kernels/b/attempt-2", state=JobState.RUNNING)
STATE = BatchState(
    plan_sha256="b" * 64,
    version="3.7.0",
    jobs=(
        Job(kind=JobKind.PEAKS, name="peaks"),
        Job(kind=JobKind.KERNEL, name="a", kernel="fusion_1", attempts=(GOOD,)),
        Job(kind=JobKind.KERNEL, name="b", kernel="fusion_2", attempts=(BAD, RUNNING)),
    ),
)


def test_state_comes_back_as_it_was_and_nothing_lies_beside_it(tmp_path):
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE
    assert [path.name for path in tmp_path.iterdir()] == [STATE_NAME]


def test_file_keeps_its_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(write_state(tmp_path, STATE).read_text(encoding="utf-8")), schema)


def test_state_of_a_job_is_that_of_its_last_attempt():
    assert [job.state for job in STATE.jobs] == [JobState.PENDING, JobState.DONE, JobState.RUNNING]
    assert not STATE.is_complete
    assert [job.name for job in STATE.kernels] == ["a", "b"]


def test_what_was_running_when_we_were_killed_is_interrupted_and_the_rest_is_as_before():
    found = interrupted_attempts(STATE)
    assert [job.state for job in found.jobs] == [JobState.PENDING, JobState.DONE, JobState.INTERRUPTED]
    last = found.job("b").last
    assert last is not None
    assert (last.number, last.reason) == (2, "killed")
    assert found.job("b").attempts[0] == BAD


def test_an_attempt_is_added_or_brought_up_to_date():
    ended = replace(RUNNING, state=JobState.DONE)
    found = STATE.with_attempt("b", ended).with_attempt("peaks", replace(GOOD, folder="peaks/attempt-1"))
    assert found.job("b").attempts == (BAD, ended)
    assert found.job("peaks").state is JobState.DONE
    assert found.is_complete


@pytest.mark.parametrize(
    "edit, error, reference",
    [
        (lambda text: text[: len(text) // 2], DamagedFile, "batch-state-damaged"),
        (lambda text: "[]", UnsupportedVersion, "batch-state-schema"),
        (lambda text: text.replace("batch-state/1", "batch-state/2"), UnsupportedVersion, "batch-state-schema"),
        (lambda text: text.replace('"done"', '"well"'), DamagedFile, "batch-state-damaged"),
        (lambda text: text.replace('"number": 1', '"number": "1"'), DamagedFile, "batch-state-damaged"),
        (lambda text: text.replace('"attempts"', '"tries"'), DamagedFile, "batch-state-damaged"),
        (lambda text: text.replace('"jobs": [', '"jobs": 5, "old": ['), DamagedFile, "batch-state-damaged"),
    ],
)
def test_damaged_state_is_a_plain_error(tmp_path, edit, error, reference):
    path = write_state(tmp_path, STATE)
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(error) as caught:
        read_state(tmp_path)
    assert caught.value.reference == reference


def test_folder_without_a_batch_is_named(tmp_path):
    with pytest.raises(InputError, match="no-batch"):
        read_state(tmp_path)
