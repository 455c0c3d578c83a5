"""Unit suffixes, and numbers written for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.units import SUFFIXES, format_count, format_duration, format_ratio, format_si, unit_of

DURATION_SCALES = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
SI_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}

magnitudes = st.floats(min_value=1e-6, max_value=1e20)
# Where the fourth digit carries over: just below and above every power of ten.
edges = st.builds(lambda exponent, step: 10.0**exponent * (1 + step * 1e-5), st.integers(-3, 19), st.integers(-60, 60))
quantities = magnitudes | edges | st.integers(1, 10**19).map(float)


def half_a_unit_of_the_fourth_digit(value: float) -> float:
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - 3) * (1 + 1e-9)


@pytest.mark.parametrize(
    "name, unit",
    [
        ("start_ns", "ns"),
        ("duration_s", "s"),
        ("lds_bytes", "B"),
        ("grid_workitems_x", "work-items"),
        ("peak_flop_per_s", "FLOP/s"),
        ("hbm_bytes_per_s", "B/s"),
        ("simd_per_cu_count", "count"),
        ("lds_per_cu_bytes", "B"),
        ("share_ratio", "ratio"),
        ("agent_id", None),
        ("kernels", None),
        ("sum_value", None),
        ("tokens_per_s", None),
        ("bytes_per_flop", None),
        ("intensity_flop_per_byte", "FLOP/B"),
    ],
)
def test_unit_is_what_the_name_ends_in(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_gives_its_own_unit(suffix: str) -> None:
    assert unit_of("some" + suffix) == SUFFIXES[suffix]


@pytest.mark.parametrize(
    "duration_ns, text",
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (950, "950 ns"),
        (999.94, "999.9 ns"),
        (999.96, "1 µs"),
        (10_920, "10.92 µs"),
        (342_500, "342.5 µs"),
        (999_949, "999.9 µs"),
        (999_960, "1 ms"),
        (999_960_000, "1 s"),
        (20_760_000_000, "20.76 s"),
        (13_000_000_000_000_000, "13000000 s"),
        (-1_500, "-1.500 µs"),
    ],
)
def test_duration_for_people(duration_ns: float, text: str) -> None:
    assert format_duration(duration_ns) == text


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (999.96, "B", "1 kB"),
        (4_194_304, "B", "4.194 MB"),
        (2.517e15, "FLOP/s", "2.517 PFLOP/s"),
        (8e12, "B/s", "8 TB/s"),
        (0.5, "B", "0.5000 B"),
        (-4_194_304, "B", "-4.194 MB"),
        (2.5e21, "FLOP", "2500 EFLOP"),
    ],
)
def test_quantity_for_people(value: float, unit: str, text: str) -> None:
    assert format_si(value, unit) == text


@given(quantities)
def test_duration_read_back_is_within_half_a_unit_of_the_fourth_digit(duration_ns: float) -> None:
    number, unit = format_duration(duration_ns).split(" ")
    error = abs(float(number) * DURATION_SCALES[unit] - duration_ns)
    assert error <= half_a_unit_of_the_fourth_digit(duration_ns)


@given(quantities)
def test_quantity_read_back_is_within_half_a_unit_of_the_fourth_digit(value: float) -> None:
    number, prefix = format_si(value, "").split(" ")
    assert abs(float(number) * SI_SCALES[prefix] - value) <= half_a_unit_of_the_fourth_digit(value)


@given(quantities)
def test_no_duration_reads_1000_of_a_unit_that_has_a_greater_one(duration_ns: float) -> None:
    number, unit = format_duration(duration_ns).split(" ")
    assert unit == "s" or float(number) < 1000


@given(quantities)
def test_no_quantity_reads_1000_of_a_prefix_that_has_a_greater_one(value: float) -> None:
    number, prefix = format_si(value, "").split(" ")
    assert prefix == "E" or float(number) < 1000


@given(quantities)
def test_the_sign_changes_nothing_else(value: float) -> None:
    assert format_duration(-value) == "-" + format_duration(value)
    assert format_si(-value, "B") == "-" + format_si(value, "B")


@pytest.mark.parametrize(
    "ratio, text",
    [
        (0, "0.0 %"),
        (0.0001, "<0.1 %"),
        (0.000499, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.1234, "12.3 %"),
        (1, "100.0 %"),
        (-0.0001, ">-0.1 %"),
        (-0.25, "-25.0 %"),
    ],
)
def test_ratio_for_people(ratio: float, text: str) -> None:
    assert format_ratio(ratio) == text


@given(st.floats(min_value=1e-300, max_value=1))
def test_no_ratio_but_zero_reads_as_zero(ratio: float) -> None:
    assert format_ratio(ratio) != format_ratio(0)


def test_count_is_exact_beyond_float() -> None:
    assert format_count(2**53 + 1) == "9,007,199,254,740,993"
