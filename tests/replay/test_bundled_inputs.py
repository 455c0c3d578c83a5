"""Inputs are the same on every machine, legal for what they mean, and of the type that is asked for."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.replay.bundled_inputs import load_input, make_input, make_inputs, numpy_dtype

pytest.importorskip("ml_dtypes")


def _entry(dtype: str = "f32", dimensions: tuple[int, ...] = (64,), role: str = "data", **more: object) -> dict:
    return {"name": "p0.x", "operands": [0], "dtype": dtype, "dimensions": list(dimensions), "role": role, **more}


# The first values as Philox4x64-10 and the arithmetic of the docstrings give them, worked out in Python's integers:
# numpy promises the raw bits (NEP 19), and nothing here rounds before the last multiplication.
def _by_hand(seed: str, name: str, count: int) -> list[float]:
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}/0".encode()).digest()[:16], "little")
    words = [int(word) for word in np.random.Philox(key=key).random_raw(count)]
    totals = [sum(word >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 2 * 65535 for word in words]
    return [float(np.float32(total) * np.float32(1 / 37837.2)) for total in totals]


def test_data_is_made_of_raw_bits_alone():
    assert make_input(_entry(dimensions=(5,)), "seed").tolist() == _by_hand("seed", "p0.x", 5)


def test_values_of_one_seed_never_change():
    """Pinned: a replay that was measured last year must read the same bytes today."""
    entries = [_entry(), _entry("bf16"), _entry("s32", role="index", bound=99), _entry("pred", role="predicate")]
    digest = hashlib.sha256(b"".join(each.tobytes() for each in make_inputs(entries, "fusion.1"))).hexdigest()
    assert digest == "9cfb0658ec97b6ba08fe59e0a54f34dbb9182ea3068ba64e370c9a53af426b92"


def test_data_is_nearly_normal():
    """The mean of 2**16 such numbers is below 5 / 2**8 but once in a million; so is the variance's distance from 1."""
    values = make_input(_entry(dimensions=(1 << 16,)), "seed").astype("f8")
    assert abs(values.mean()) < 5 / 2**8
    assert abs(values.var() - 1) < 5 * 2**0.5 / 2**8


@pytest.mark.parametrize(
    "dtype",
    [
        *("f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1fn", "f8e8m0fnu"),
        *("s8", "u8", "s4", "u4", "s2", "u2", "c64", "c128"),
    ],
)
def test_every_type_down_to_four_bits_has_values_that_differ(dtype):
    values = make_input(_entry(dtype, (256,)), "seed")
    assert values.dtype == numpy_dtype(dtype)
    assert len(set(values.tolist())) >= 4
    if dtype[0] in "fb":
        assert np.isfinite(values.astype("f4")).all()


def test_quantised_data_uses_every_value():
    assert sorted(set(make_input(_entry("s4", (4096,)), "seed").astype(int).tolist())) == list(range(-8, 8))
    assert sorted(set(make_input(_entry("u4", (4096,)), "seed").astype(int).tolist())) == list(range(16))


@given(bound=st.integers(0, 50), count=st.integers(0, 40), is_sorted=st.booleans(), is_unique=st.booleans())
def test_indices_keep_what_the_program_promises(bound, count, is_sorted, is_unique):
    entry = _entry("s32", (count,), "index", bound=bound, is_sorted=is_sorted, is_unique=is_unique)
    values = make_input(entry, "seed")
    assert ((values >= 0) & (values <= bound)).all()
    if is_sorted:
        assert (np.diff(values) >= 0).all()
    if is_unique and count <= bound + 1:
        assert len(set(values.tolist())) == count


@given(rows=st.integers(0, 300), groups=st.integers(1, 9))
def test_group_sizes_share_all_rows(rows, groups):
    sizes = make_input(_entry("s32", (groups,), "group-sizes", bound=rows), "seed")
    assert sizes.sum() == rows
    assert (sizes >= 0).all()


@pytest.mark.parametrize(
    "entry, expected",
    [
        (_entry("s32", (), "start", bound=55), 27),
        (_entry("f32", (), "init"), 0),
        (_entry("u32", (), "device-number"), 0),
    ],
)
def test_scalars_with_a_meaning_have_one_value(entry, expected):
    assert make_input(entry, "seed") == expected


def test_positive_data_has_a_root():
    assert (make_input(_entry(role="positive", dimensions=(4096,)), "seed") > 0).all()


def test_sort_keys_differ():
    assert sorted(make_input(_entry("s32", (100,), "sort-key"), "seed").tolist()) == list(range(100))


def test_zeros_are_zeros_where_nothing_hangs_on_them():
    data, index = make_inputs([_entry(), _entry("s32", role="index", bound=99)], "seed", "zeros")
    assert not data.any()
    assert index.any()


def test_devices_have_their_own_data_and_common_indices():
    entries = [_entry(), _entry("s32", role="index", bound=99)]
    (first, places), (second, same) = (make_inputs(entries, "seed", device=device) for device in (0, 1))
    assert (first != second).any()
    assert (places == same).all()


def test_captured_operand_is_taken_by_name_or_by_number(tmp_path):
    values = np.arange(64, dtype="f4")
    np.save(tmp_path / "p0.x.npy", values)
    assert (load_input(_entry(), str(tmp_path)) == values).all()
    (tmp_path / "p0.x.npy").rename(tmp_path / "operand0.npy")
    listing = {"operands": [{"operand": 0, "file": "operand0.npy"}]}
    (tmp_path / "operands.json").write_text(json.dumps(listing), encoding="utf-8")
    assert (make_inputs([_entry()], "seed", str(tmp_path))[0] == values).all()


def test_narrow_types_come_back_from_files(tmp_path):
    """numpy writes types that it does not know as bytes without a name."""
    values = make_input(_entry("f8e4m3fn"), "seed")
    np.save(tmp_path / "p0.x.npy", values)
    loaded = load_input(_entry("f8e4m3fn"), str(tmp_path))
    assert loaded.dtype == values.dtype
    assert loaded.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "saved, complaint",
    [(np.zeros(3, "f4"), "has the shape"), (np.zeros(64, "f8"), "values of type float64"), (None, "has no p0.x.npy")],
)
def test_file_that_does_not_fit_is_refused(saved, complaint, tmp_path):
    if saved is not None:
        np.save(tmp_path / "p0.x.npy", saved)
    with pytest.raises((ValueError, FileNotFoundError), match=complaint):
        load_input(_entry(), str(tmp_path))
