"""Step times of logs: MaxText's lines whatever stands before them, CSV with units, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.sources.step_log import StepLogFile, read_step_log

MAXTEXT = """\
I0101 00:00:00.000000 1 pyconfig.py:1] Config param dtype: bfloat16
Config param per_device_batch_size: 24.0
Config param data_sharding: (('data', 'fsdp'),)
System Information: Jax Version: 0.7.2.dev20250826
System Information: Jaxlib Version: 0.7.2
System Information: Jax Backend: PJRT C API
Num_devices: 4, shape (1, 1, 4, 1)
completed step: 0, seconds: 44.5, TFLOP/s/device: 17.5, Tokens/s/device: 1094.5, total_weights: 196608, loss: 12.5
[0] I01 completed step: 1, seconds: 5.5, TFLOP/s/device: 134.5, Tokens/s/device: 8672.5, total_weights: 4096, loss: nan
"""


def _read(tmp_path: Path, text: str | bytes) -> StepLogFile:
    path = tmp_path / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_step_log(path)


def test_steps_and_configuration_of_maxtext(tmp_path: Path) -> None:
    found = _read(tmp_path, MAXTEXT)
    assert found.format == "maxtext"
    assert [each.step_number for each in found.steps] == [0, 1]
    assert [each.duration_ns for each in found.steps] == [44_500_000_000, 5_500_000_000]
    second = found.steps[1]
    assert second.flop_per_device_per_s == 134.5e12
    assert second.tokens_per_device_per_s == 8672.5
    assert second.tokens_count == 4096
    assert second.loss is None  # nan
    assert second.line == 9
    assert found.config["dtype"] == "bfloat16"
    assert found.config["per_device_batch_size"] == "24.0"
    assert (found.jax_version, found.jaxlib_version) == ("0.7.2.dev20250826", "0.7.2")
    assert (found.backend, found.devices_count) == ("PJRT C API", 4)
    assert found.findings == ()


def test_step_of_several_processes_lasts_as_long_as_with_the_slowest(tmp_path: Path) -> None:
    lines = [f"completed step: 3, seconds: {seconds}, loss: 1.0\n" for seconds in ("2.0", "2.5", "1.9")]
    found = _read(tmp_path, "".join(lines))
    assert [(each.duration_ns, each.processes_count) for each in found.steps] == [(2_500_000_000, 3)]
    assert [(each.rule, each.numbers["most_count"]) for each in found.findings] == [("step-logged-several-times", 3)]


@pytest.mark.parametrize(
    "header, value, duration_ns",
    [
        ("step,seconds", "1.5", 1_500_000_000),
        ("step,step_time_ms", "1.5", 1_500_000),
        ("global_step,duration_us", "1.5", 1_500),
        ("step,time_ns", "7", 7),
        ("Step, Step_Time_S", "2", 2_000_000_000),
    ],
)
def test_unit_of_csv_is_in_the_name(tmp_path: Path, header: str, value: str, duration_ns: int) -> None:
    found = _read(tmp_path, f"{header}\n5,{value}\n\n")
    assert [(each.step_number, each.duration_ns) for each in found.steps] == [(5, duration_ns)]
    assert found.format == "csv"


def test_other_columns_of_csv_are_taken_where_they_are_known(tmp_path: Path) -> None:
    found = _read(tmp_path, "loss,step,seconds,tokens_per_s_per_device,total_weights\n3.5,1,2,1000,64\n")
    step = found.steps[0]
    assert (step.loss, step.tokens_per_device_per_s, step.tokens_count) == (3.5, 1000, 64)


@pytest.mark.parametrize(
    "text, error, reference",
    [
        ("", NothingToRead, "no-steps-in-log"),
        ("nothing of interest\n", NothingToRead, "no-steps-in-log"),
        ("step,seconds\n", NothingToRead, "no-steps-in-log"),
        ("step,time\n1,2\n", UnknownFormat, "step-log-unit"),
        ("step,seconds,duration_ms\n1,2,3\n", UnknownFormat, "step-log-unit"),
        ("step,seconds\n1,fast\n", DamagedFile, "step-log-line"),
        ("step,seconds\n1\n", DamagedFile, "step-log-line"),
        ("step,seconds\n1.5,2\n", DamagedFile, "step-log-line"),
        ("step\x0cx,seconds\n1,2\n", NothingToRead, "no-steps-in-log"),
        ('"a\n",step,seconds\n1,2\n', NothingToRead, "no-steps-in-log"),
        ('step,"a\n1,2\n', UnknownFormat, "step-log-unit"),
        (b"\x00\x01completed step: 1", UnknownFormat, "not-a-step-log"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str | bytes, error: type[InputError], reference: str) -> None:
    with pytest.raises(error) as caught:
        _read(tmp_path, text)
    assert caught.value.reference == reference


def test_log_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot-read"):
        read_step_log(tmp_path / "none")


def test_every_prefix_of_a_log_gives_steps_or_an_input_error(tmp_path: Path) -> None:
    for text in (MAXTEXT, "step,seconds,loss\n1,2.5,3\n2,2.5,3\n"):
        for length in range(0, len(text), 7):
            try:
                found = _read(tmp_path, text[:length])
            except InputError:
                continue
            assert found.steps
