"""The demo's programs: real, small, and what their facts say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.demo import packed_programs
from rocktools.demo.packed_programs import DEVICES_COUNT, PROGRAMS, ProgramName, read_packed
from rocktools.errors import ContractError
from rocktools.hlo.dumps import find_dumps, read_program


@pytest.mark.parametrize("name", list(ProgramName))
def test_a_program_is_what_its_facts_say(name: ProgramName, tmp_path: Path) -> None:
    facts, packed = PROGRAMS[name], read_packed(name)
    packed.write(tmp_path)
    (dump,) = find_dumps(tmp_path)
    module = read_program(dump).module
    assert (module.is_complete, module.label, module.attributes["num_partitions"]) == (True, "1", str(DEVICES_COUNT))
    loops = sorted(each.known_trip_count for each in module.instructions.values() if each.opcode == "while")
    assert loops == sorted([facts.microsteps, facts.layers, facts.layers])
    shapes = {str(each.shape.without_layout()) for each in module.instructions.values() if each.opcode == "parameter"}
    tokens = f"s32[{facts.microsteps},{facts.sequences_per_device},4096]"
    # An eighth of 8 experts by 16384: half of the experts on each device of a pair, a quarter of each of these.
    assert {tokens, f"bf16[{facts.layers},4,1536,{facts.intermediate}]"} <= shapes


def test_the_archive_stays_small() -> None:
    assert Path(packed_programs.__file__).with_name("programs.tar.xz").stat().st_size < 1_000_000


def test_no_program_names_a_folder_of_who_compiled_it(packed) -> None:
    text = next(content for name, content in packed.files.items() if name.endswith("after_optimizations.txt")).decode()
    names = text.split("FileNames\n")[1].split("\n\n")[0]
    paths = [line.split('"')[1] for line in names.splitlines()]
    assert "scripts/demo_train_step.py" in paths
    assert not [path for path in paths if Path(path).is_absolute()]


def test_a_program_can_be_dumped_under_another_id(packed, tmp_path: Path) -> None:
    packed.write(tmp_path, program_id=57)
    (dump,) = find_dumps(tmp_path)
    found = read_program(dump)
    assert (found.module.label, dump.stem) == ("57", "module_0057.jit_train_step")
    assert found.thunks is not None


def test_kernels_have_the_registers_of_the_compilation(packed) -> None:
    assert "gemm_fusion_dot" in packed.kernels_csv
    assert set(packed.versions) == {"jax", "jaxlib", "plugin", "python"}


def test_an_installation_without_the_archive_says_so(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packed_programs, "_ARCHIVE", tmp_path / "programs.tar.xz")
    with pytest.raises(ContractError, match="cannot be read"):
        read_packed(ProgramName.SHORT)
    (tmp_path / "programs.tar.xz").write_bytes(b"no archive")
    with pytest.raises(ContractError, match="cannot be read"):
        read_packed(ProgramName.SHORT)
