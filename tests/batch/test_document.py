"""A plan as a file: it comes back as it was, moves with its folder, and what is edited wrongly is named."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rocktools.batch.bundles import Refusal
from rocktools.batch.document import SCHEMA_FILE, parse_plan, read_plan, render_plan
from rocktools.batch.pick import Order
from rocktools.batch.plan import (
    BatchPlan,
    Passes,
    PassSelection,
    PlannedKernel,
    RefusedKernel,
    estimate_batch,
)
from rocktools.errors import InputError, UnsupportedVersion
from rocktools.replay.prove import Level

HOME = Path("/data/study")
KERNELS = (
    PlannedKernel(
        name="fusion_1",
        replay=HOME / "replays/fusion.1",
        kernel="fusion_1",
        instruction="fusion.1",
        program_id="7",
        program_sha256="a" * 64,
        level=Level.IDENTICAL,
        component="mlp",
        total_ns=63_500_000_000_000_001,
        dispatches_count=3,
        twins=("fusion.2", "fusion.3"),
    ),
    PlannedKernel(name="gemm", replay=Path("/elsewhere/gemm"), kernel="Cijk_A: 'x' # <1024u, 16u>(int*)"),
)
REFUSED = (
    RefusedKernel(
        instruction="all-reduce.1",
        refusal=Refusal(reason="collective", why="it waits: for others", hint="see there"),
        kernel="nccl(x)",
        total_ns=5,
    ),
    RefusedKernel(
        instruction="copy.1", refusal=Refusal(reason="unproven", why="no proof"), replay=HOME / "replays/copy.1"
    ),
)
PLAN = BatchPlan(
    kernels=KERNELS,
    refused=REFUSED,
    selection=PassSelection(passes=Passes.BLOCKS, blocks=("2", "4.1")),
    architecture="gfx950",
    estimate=estimate_batch(KERNELS, PassSelection(passes=Passes.BLOCKS, blocks=("2", "4.1"))),
    sources=(HOME / "run", Path("/data/other run")),
    programs=(HOME / "run/hlo",),
    order=Order.COMPONENT,
    is_simulated=True,
    rocktools_version="0.1",
)
PATH = HOME / "plan.yaml"
TEXT = render_plan(PLAN, PATH)


def resolved(plan: BatchPlan) -> BatchPlan:
    """Without the `..` of relative paths."""
    return replace(
        plan,
        kernels=tuple(replace(each, replay=each.replay.resolve()) for each in plan.kernels),
        sources=tuple(path.resolve() for path in plan.sources),
        programs=tuple(path.resolve() for path in plan.programs),
    )


def test_plan_comes_back_as_it_was():
    assert resolved(parse_plan(TEXT, PATH)) == PLAN


@pytest.mark.parametrize(
    "selection",
    [
        PassSelection(),
        PassSelection(passes=Passes.SET, set_name="mem_thruput", iterations_count=1, warmups_count=0),
        PassSelection(passes=Passes.MULTIPLEXING, iterations_count=60),
    ],
)
def test_every_selection_comes_back(selection):
    plan = replace(PLAN, selection=selection, order=None, kernels=(), refused=())
    assert parse_plan(render_plan(plan, PATH), PATH).selection == selection


def test_file_keeps_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(TEXT), schema)


def test_paths_are_relative_so_that_the_folder_can_be_moved(tmp_path):
    document = yaml.safe_load(TEXT)
    assert document["kernels"][0]["replay"] == "replays/fusion.1"
    assert document["source"]["paths"][0] == "run"
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "plan.yaml").write_text(TEXT, encoding="utf-8")
    assert read_plan(moved / "plan.yaml").kernels[0].replay == moved / "replays/fusion.1"


def test_head_says_what_to_do_and_how_much_it_costs():
    assert TEXT.startswith("# Plan of a batch")
    assert "rocktools batch run plan.yaml -o DIR" in TEXT
    assert f"# A{PLAN.estimate.cost_text[1:]}: inferred" in TEXT


def test_three_keys_are_enough_for_a_kernel_written_by_hand():
    text = (
        "schema: rocktools.batch-plan/1\narchitecture: gfx942\npasses: {selection: blocks, blocks: [2, 4.1], "
        "iterations: 3}\nkernels:\n- {name: mine, replay: ../r, kernel: my_kernel}\n"
    )
    plan = parse_plan(text, PATH)
    assert plan.selection == PassSelection(
        passes=Passes.BLOCKS, blocks=("2", "4.1"), iterations_count=3, warmups_count=0
    )
    assert plan.kernels == (PlannedKernel(name="mine", replay=HOME / "../r", kernel="my_kernel"),)


@pytest.mark.parametrize(
    "old, new, where, what",
    [
        ("  kernel: fusion_1\n", "  kernal: fusion_1\n", "kernels[0].kernal", "unknown key 'kernal'"),
        ("- name: fusion_1\n  replay", "- replay", "kernels[0]", "the key 'name' is missing"),
        ("name: gemm", "name: fusion_1", "kernels[1].name", "there twice"),
        ("name: gemm", "name: ../gemm", "kernels[1].name", "no name of a workload"),
        ("name: gemm", "name: peaks", "kernels[1].name", "no name of a workload"),
        ("level: identical", "level: sure", "kernels[0].level", "'sure' is not known"),
        ("level: identical", "level: not-a-stand-in", "kernels[0].level", "says nothing about the job"),
        ("selection: blocks", "selection: all", "passes.blocks", "goes with `selection: blocks`"),
        ("selection: blocks", "selection: set", "passes.blocks", "goes with `selection: blocks`"),
        ("  blocks: ['2', '4.1']\n", "", "passes", "the key 'blocks' is missing"),
        ("selection: blocks", "selection: most", "passes.selection", "'most' is not known"),
        ("iterations: 10", "iterations: 0", "passes.iterations", "at least 1"),
        ("iterations: 10", "iterations: ten", "passes.iterations", "at least 1"),
        ("warm_up: 2", "warm_up: -1", "passes.warm_up", "at least 0"),
        ("by: component", "by: colour", "source.by", "'colour' is not known"),
        ("reason: collective", "reason: ''", "refused[0].reason", "must be a text"),
        ("dispatches_count: 3", "dispatches_count: yes", "kernels[0].dispatches_count", "must be an integer"),
        ("architecture: gfx950\n", "", "top", "the key 'architecture' is missing"),
        ("is_simulated: true", "is_simulated: maybe", "source.is_simulated", "must be true or false"),
    ],
)
def test_what_is_edited_wrongly_is_named_with_its_line(old, new, where, what):
    assert TEXT.count(old) >= 1
    edited = TEXT.replace(old, new, 1)
    with pytest.raises(InputError) as caught:
        parse_plan(edited, PATH)
    assert caught.value.reference == "batch-plan"
    assert what in caught.value.what
    place, _, entry = (caught.value.where or "").partition(": ")
    assert entry == where
    assert place.startswith(f"{PATH}:")
    line = int(place.rsplit(":", 1)[1])
    assert 1 <= line <= len(edited.splitlines())


def test_another_schema_is_refused_by_name():
    with pytest.raises(UnsupportedVersion, match=r"rocktools\.batch-plan/9"):
        parse_plan(TEXT.replace("batch-plan/1", "batch-plan/9"), PATH)


@given(st.integers(0, len(TEXT)), st.sampled_from(["", ":", "- ", "[", "'", "\t", "\0", "x: 1\n"]))
def test_damaged_plans_are_plain_errors(at, junk):
    """Cut at any place, with anything behind: it is read, or an error of ours."""
    with contextlib.suppress(InputError):
        parse_plan(TEXT[:at] + junk, PATH)


_texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=30)


@given(_texts.filter(str.strip), _texts.filter(str.strip), st.integers(0, 10**18))
def test_any_kernel_name_survives_the_file(kernel, component, total_ns):
    made = replace(KERNELS[0], kernel=kernel, component=component, total_ns=total_ns)
    [found] = parse_plan(render_plan(replace(PLAN, kernels=(made,)), PATH), PATH).kernels
    assert found == made
