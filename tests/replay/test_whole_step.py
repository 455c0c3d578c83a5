"""Everything that a Mixtral-8x22B step launches, on 8 devices, becomes a replay; nothing is compiled here."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from replay_programs import with_wide_types

from rocktools.hlo.dumps import read_program
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.replay.bundled_inputs import numpy_dtype
from rocktools.replay.emit import SCHEMA_FILE, write_bundle
from rocktools.replay.extract import Replay, build_job_program, build_replay
from rocktools.replay.readable_texts import FUNCTIONS, IMPORTS, render_prelude
from rocktools.replay.select import select_all, select_instruction, select_kernel

# Build -> kernels that are fusions, library products (INDEX.md of the real files).
BUILDS = {"triton": (312, 0), "blaslt": (255, 49)}


@pytest.fixture(scope="module", params=BUILDS)
def step(request, shared) -> tuple[str, list[Replay]]:
    folder = shared / "data/hlo/gfx950-mixtral-8x22b" / request.param
    path = next(folder.glob("*.hlo.pb"))
    job = build_job_program(read_program(path), path.read_bytes(), path.name)
    return request.param, [build_replay(job, each, rocktools_version="0") for each in select_all(job.program)]


def test_every_launch_has_a_replay_of_its_kind(step):
    build, replays = step
    kinds = Counter((each.selection.instruction.opcode, str(each.classification.kind)) for each in replays)
    kernels_count, products_count = BUILDS[build]
    assert kinds["fusion", "kernel"] == kernels_count
    assert kinds["custom-call", "library"] == products_count
    # The slices that XLA does as copies of memory, without a kernel.
    assert kinds["fusion", "copy"] == 11
    assert kinds["all-gather-start", "collective"] == 21
    assert kinds["all-reduce-start", "collective"] == 6
    assert kinds["async-start", "collective"] == 8  # reduce-scatters and all-to-alls


def test_slices_without_a_kernel_are_copies(step):
    names = {each.selection.instruction.name for each in step[1] if each.spec["kind"] == "copy"}
    slices = [each for each in step[1] if each.selection.instruction.name.startswith("wrapped_slice")]
    without_kernel = [each for each in slices if each.selection.instruction.name in names]
    assert len(without_kernel) == 11
    assert {each.spec["launches"][0]["kind"] for each in without_kernel} == {"kCopy"}


def test_every_program_is_one_instruction_with_the_name_of_the_kernel(step):
    for replay in step[1]:
        program = parse_hlo_proto(replay.program.data, "replay")
        assert program.entry is not None
        opcodes = [each.opcode for each in program.entry.instructions if each.opcode not in ("parameter", "constant")]
        has_done = replay.classification.has_done
        assert len(opcodes) == (2 if has_done else 1)
        assert program.is_scheduled
        if replay.selection.kernel_name:
            assert program.entry.root is not None
            assert program.entry.root.name == replay.selection.kernel_name


def test_every_readable_form_is_python(step):
    for replay in step[1]:
        assert replay.readable is not None, replay.refusal
        ast.parse(f"{render_prelude(replay.readable.text)}\n{replay.readable.text}")


def test_every_description_keeps_the_schema(step):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    for replay in step[1]:
        validator.validate(json.loads(json.dumps(replay.spec)))


def test_results_that_overwrite_an_operand_are_those_of_the_buffer_assignment(step):
    """28 loop fusions of the prototype's job and more of this one are in place; each names an operand of equal size."""
    count = 0
    for replay in step[1]:
        program = parse_hlo_proto(replay.program.data, "replay")
        assert program.entry is not None
        assert program.entry.root is not None
        result = program.entry.root.shape
        for index, number in replay.program.aliases:
            output = result.elements[index[0]] if index else result
            assert output.size_bytes == program.entry.parameters[number].shape.size_bytes
            count += 1
    assert count > 50


def test_kernel_with_twins_lists_them(shared, tmp_path: Path):
    folder = shared / "data/hlo/gfx950-mixtral-8x22b/triton"
    path = next(folder.glob("*.hlo.pb"))
    job = build_job_program(read_program(path), path.read_bytes(), path.name)
    chosen = select_kernel(job.program, "wrapped_transpose_1")
    assert (chosen.instruction.name, chosen.twins) == ("wrapped_transpose.1", ("wrapped_transpose.2",))
    assert select_instruction(job.program, "wrapped_transpose.2").kernel_name == "wrapped_transpose_1"
    write_bundle(build_replay(job, chosen, rocktools_version="0"), tmp_path / "bundle")
    assert (tmp_path / "bundle" / "replay.hlo.pb").stat().st_size < 4096


def test_readable_forms_have_the_shapes_of_the_program(step):
    """Traced, not compiled: jax works out shape and type of every line."""
    jax = pytest.importorskip("jax")
    names: dict[str, Any] = {}
    exec(f"{IMPORTS}{FUNCTIONS}", names)
    traced_count, known = 0, set()
    for replay in step[1]:
        kernel = replay.selection.kernel_name
        if replay.classification.devices_count > 1 or kernel in known:
            continue  # collectives need their axis; one instruction of a kernel will do
        known |= {kernel} if kernel else set()
        assert replay.readable is not None
        exec(replay.readable.text, names)
        shapes = [jax.ShapeDtypeStruct(each.shape.dimensions, numpy_dtype(each.shape.dtype)) for each in replay.inputs]
        with with_wide_types(jax):
            made = jax.tree.leaves(jax.eval_shape(names[replay.readable.function], *shapes))
        program = parse_hlo_proto(replay.program.data, "replay")
        assert program.entry is not None
        assert program.entry.root is not None
        expected = [(each.dimensions, numpy_dtype(each.dtype)) for each in program.entry.root.shape.leaves()]
        assert [(each.shape, each.dtype) for each in made] == expected, replay.selection.instruction.name
        traced_count += 1
    assert traced_count > 150
