"""HLO protos are found by the id of their module, whatever the keys of the metadata are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from xspace_messages import field

from rocktools.demo.xspace_writer import SpaceRecord, metadata_plane, write_xspace
from rocktools.sources.xspace.hlo_protos import program_id_text
from rocktools.sources.xspace.opening import open_xspace


def proto(module_id: int | None, name: bytes = b"jit_f") -> bytes:
    module = field(1, name) + (b"" if module_id is None else field(5, module_id)) + field(6, 9)
    return field(3, b"buffers") + field(1, module)


@pytest.mark.parametrize(
    "given, keys, expected",
    [
        # Keys count from 1 in new files, and are program ids in old ones: the module's own id holds in both.
        ({"jit_f(36)": proto(36), "jit_g(4)": proto(4)}, None, ["36", "4"]),
        ({"jit_f(36)": proto(36)}, {"jit_f(36)": 36}, ["36"]),
        ({"jit_f(1)": proto(36)}, None, ["36"]),
        # Without an id in the proto: the number in parentheses, then the key.
        ({"jit_f(36)": proto(None)}, None, ["36"]),
        ({"jit_f": proto(None)}, {"jit_f": 5}, ["5"]),
        ({"jit_f(x)(7)": b"\x0b"}, None, ["7"]),
        # Ids of TPUs are above 2**63.
        ({"jit_f": proto(-1)}, None, [str(2**64 - 1)]),
    ],
)
def test_key_of_a_proto(
    tmp_path: Path, given: Mapping[str, bytes], keys: Mapping[str, int] | None, expected: list[str]
) -> None:
    with open_xspace(write_xspace(tmp_path / "a.pb", SpaceRecord(planes=[metadata_plane(given, keys=keys)]))) as file:
        assert sorted(file.hlo_protos()) == sorted(expected)
        assert sorted(file.hlo_protos().values()) == sorted(given.values())


def test_a_profile_without_protos_has_none(tmp_path: Path) -> None:
    with open_xspace(write_xspace(tmp_path / "a.pb", SpaceRecord(planes=[]))) as file:
        assert file.hlo_protos() == {}


@pytest.mark.parametrize("value, text", [(0, "0"), (17, "17"), (-1, str(2**64 - 1)), (-(2**63), str(2**63))])
def test_program_ids_are_unsigned(value: int, text: str) -> None:
    assert program_id_text(value) == text
