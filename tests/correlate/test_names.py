"""Names of kernels, and the instructions they may come from."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_profiles import read_profile
from small_programs import make_flat_module, make_instruction, make_module
from spec_frames import make_frame

from rocktools.correlate.edges import Confidence
from rocktools.correlate.kernel_families import is_library_kernel
from rocktools.correlate.names import (
    NameRule,
    build_name_index,
    candidates_by_name,
    find_launched,
    find_link_by_name,
    link_by_name,
    sanitise_name,
    stem_of,
    strip_symbol,
)
from rocktools.findings import Severity
from rocktools.frames import DISPATCHES


def match(kernel_name: str, *instructions: str) -> tuple[str, tuple[str, ...]]:
    found = candidates_by_name(kernel_name, build_name_index(make_flat_module(*instructions)))
    return str(found.rule), found.candidates


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("loop_fusion.3", "loop_fusion_3"),
        ("gemm_fusion_dot.3", "gemm_fusion_dot_3"),
        ("custom-call.12", "custom_call_12"),
        ("wrapped_convert", "wrapped_convert"),
        ("fusion.3.remat.clone", "fusion_3_remat_clone"),
        ("3fusion", "_3fusion"),
        ("a$b", "a$b"),
        ("größe", "gr__e"),
        ("", ""),
    ],
)
def test_symbol_of_an_instruction(name, symbol):
    assert sanitise_name(name) == symbol


@given(st.text(max_size=12))
def test_symbols_have_only_legal_characters_and_are_symbols_of_themselves(name):
    symbol = sanitise_name(name)
    assert re.fullmatch(r"(?![0-9])[A-Za-z0-9_$]*", symbol)
    assert sanitise_name(symbol) == symbol


@pytest.mark.parametrize(
    "kernel", ["fusion_3.kd", "fusion_3 [clone .kd]", "fusion_3_impl", "fusion_3_impl.kd", "fusion_3"]
)
def test_what_toolchains_add_is_dropped(kernel):
    assert strip_symbol(kernel) == "fusion_3"


@pytest.mark.parametrize(("symbol", "stem"), [("sort_8_1", "sort_8"), ("fusion", "fusion"), ("f3", "f3"), ("_1", "_1")])
def test_one_number_at_the_end_is_dropped(symbol, stem):
    assert stem_of(symbol) == stem


def test_exact_name_outdoes_the_prefix():
    assert match("loop_fusion_3.kd", "loop_fusion", "loop_fusion.3", "loop_fusion.4") == ("exact", ("loop_fusion.3",))


def test_two_instructions_of_one_symbol_are_both_candidates():
    assert match("add_3", "add.3", "add_3") == ("exact", ("add.3", "add_3"))


def test_prefix_lists_all_of_the_stem_the_unnumbered_first():
    found = match("loop_fusion_9", "loop_fusion.3", "loop_fusion", "loop_add_fusion.9", "loop_fusion.4")
    assert found == ("prefix", ("loop_fusion", "loop_fusion.3", "loop_fusion.4"))


def test_a_kernel_without_a_number_finds_the_numbered_ones_by_its_prefix():
    assert match("wrapped_convert", "wrapped_convert.1") == ("prefix", ("wrapped_convert.1",))


def test_numbered_kernels_of_one_sort_find_it():
    """XLA launches sort.8 as sort_8_1, sort_8_2, ..."""
    assert match("sort_8_1", "sort.8", "sort.9") == ("prefix", ("sort.8",))


@pytest.mark.parametrize(
    "kernel", ["other_fusion_3", "", "__amd_rocclr_copyBuffer.kd", "Cijk_Ailk_Bljk_BBS_BH_MT16x16x16"]
)
def test_foreign_and_library_kernels_have_no_candidates(kernel):
    assert match(kernel, "loop_fusion.3", "__amd_rocclr_copyBuffer", "copy.1") == ("none", ())


def make_twins(first: int = 8, second: int = 8, opcode: str = "negate") -> list[str]:
    """The candidates of kernel `loop_fusion` where loop_fusion.1 fuses an equal computation, or one that differs."""
    module = make_module(
        {
            "fused": [
                make_instruction("p.1", "parameter", argument="0", size=first),
                make_instruction("negate.1", "negate", operands=("p.1",), size=first),
            ],
            "fused.1": [
                make_instruction("p.2", "parameter", argument="0", size=second),
                make_instruction("negate.2", opcode, operands=("p.2",), size=second),
            ],
            "main": [
                make_instruction("loop_fusion.1", called=("fused.1",), size=second),
                make_instruction("loop_fusion", called=("fused",), size=first),
            ],
        }
    )
    return list(candidates_by_name("loop_fusion", build_name_index(module)).candidates)


def test_an_instruction_that_fuses_the_same_may_share_the_kernel():
    assert make_twins() == ["loop_fusion", "loop_fusion.1"]


@pytest.mark.parametrize("difference", [{"second": 9}, {"opcode": "abs"}])
def test_an_instruction_that_fuses_something_else_does_not(difference):
    assert make_twins(**difference) == ["loop_fusion"]


def test_what_is_inside_of_fusions_and_reducers_launches_nothing():
    module = make_module(
        {
            "fused": [make_instruction("p", "parameter"), make_instruction("add.3", "add", operands=("p", "p"))],
            "adder": [make_instruction("add.4", "add")],
            "body": [make_instruction("loop_fusion.5", called=("fused",))],
            "condition": [make_instruction("compare.6", "compare")],
            "main": [
                make_instruction("zero", "constant"),
                make_instruction("while.1", "while", called=("body", "condition")),
                make_instruction("reduce.2", "reduce", called=("adder",)),
            ],
        }
    )
    assert [each.name for each in find_launched(module)] == ["loop_fusion.5", "compare.6", "reduce.2"]


def test_a_computation_that_calls_itself_ends_in_a_result():
    module = make_module(
        {"fused": [make_instruction("f", called=("fused",))], "main": [make_instruction("g", called=("fused",))]}
    )
    assert candidates_by_name("g", build_name_index(module)).candidates == ("g",)


def make_dispatches(*kernels: str) -> pd.DataFrame:
    rows = [{"run": "r", "process": "p", "dispatch_id": i, "kernel_name": name} for i, name in enumerate(kernels)]
    return make_frame(DISPATCHES, rows)


def test_exact_single_is_likely_several_and_prefixes_are_ambiguous_the_rest_unlinked():
    module = make_flat_module("loop_fusion.3", "add.1", "add_1", "input_fusion.2")
    kernels = ["loop_fusion_3", "add_1", "input_fusion_7", "foreign", "loop_fusion_3"]
    edges, findings = link_by_name(make_dispatches(*kernels), [module])
    assert edges["confidence"].tolist() == ["likely", "ambiguous", "ambiguous", "unlinked", "likely"]
    assert edges["method"].tolist() == ["name", "name", "name", "none", "name"]
    assert edges["instruction"].tolist()[0] == "loop_fusion.3"
    assert edges["candidates"].tolist()[1:3] == ["add.1, add_1", "input_fusion.2"]
    assert [finding.rule for finding in findings] == ["linked-by-name"]
    assert findings[0].numbers == {"named_count": 4, "ambiguous_count": 2, "rows_count": 5}


def test_names_that_give_candidates_only_are_a_note():
    _, (finding,) = link_by_name(make_dispatches("add_1"), [make_flat_module("add.1")], at_most=Confidence.AMBIGUOUS)
    assert (finding.rule, finding.severity) == ("candidates-by-name", Severity.NOTE)


def test_nothing_named_is_nothing_to_warn_about():
    edges, findings = link_by_name(make_dispatches("foreign"), [make_flat_module("add.1")])
    assert (edges["confidence"].tolist(), findings) == (["unlinked"], [])


def test_an_exact_match_in_one_program_outdoes_a_prefix_in_another():
    indices = [build_name_index(make_flat_module(name, program_id=name)) for name in ("add.4", "add.3")]
    link = find_link_by_name("add_3", indices)
    assert (link.program_id, link.instruction, link.confidence) == ("add.3", "add.3", Confidence.LIKELY)


def test_namesakes_in_two_programs_are_ambiguous():
    indices = [build_name_index(make_flat_module("add.3", program_id=program_id)) for program_id in ("7", "9")]
    assert find_link_by_name("add_3", indices).candidates == ("7/add.3", "9/add.3")


def test_rules_are_written_as_words():
    assert [str(rule) for rule in NameRule] == ["exact", "prefix", "none"]


def test_what_names_would_have_said_of_a_real_profile(shared):
    """MI355X, Transformer Engine: its annotations are the truth that names are held against.

    90 of 150 events run a kernel of another name than their instruction's. 75 run kernels that XLA generated, 15 of
    them one that is called after another instruction: 1046 of 12134 us, for which the namesake is wrong.
    """
    profile = read_profile(shared, "mi355_te_fused_attn")
    indices = {program_id: build_name_index(module) for program_id, module in profile.programs.items()}
    events = profile.device_events.to_dict("records")
    symbols = [sanitise_name(event["hlo_op"]) for event in events]
    assert sum(event["kernel_name"] != symbol for event, symbol in zip(events, symbols, strict=True)) == 90

    generated = [event for event in events if not is_library_kernel(event["kernel_name"])]
    matches = [candidates_by_name(event["kernel_name"], indices[event["program_id"]]) for event in generated]
    wrong = [
        (event["hlo_op"], match.candidates[0], event["duration_ps"])
        for event, match in zip(generated, matches, strict=True)
        if match.candidates[0] != event["hlo_op"]
    ]
    assert (len(generated), len(wrong)) == (75, 15)
    assert {(truth, namesake) for truth, namesake, _ in wrong} == {
        ("wrapped_convert.1", "wrapped_convert"),
        ("gemm_fusion_dot.3", "gemm_fusion_dot"),
        ("loop_reduce_fusion.2", "loop_reduce_fusion.3"),
    }
    assert sum(duration_ps for *_, duration_ps in wrong) == 1_046_048_000
    assert sum(event["duration_ps"] for event in events) == 12_133_585_000

    # Annotations link all of them right (test_annotations); names at least say that they do not know.
    for event, match in zip(generated, matches, strict=True):
        assert match.rule is NameRule.EXACT
        assert event["hlo_op"] in match.candidates
        assert len(match.candidates) == 1 or event["kernel_name"] in {
            "wrapped_convert",
            "gemm_fusion_dot",
            "loop_reduce_fusion_3",
        }
    assert sum(len(match.candidates) > 1 for match in matches) == 30


@pytest.mark.parametrize(("name", "generated_count"), [("jax08_attention", 66), ("jax_conv_minimal_08", 119)])
def test_names_of_real_programs_without_shared_kernels_are_right(shared, name, generated_count):
    profile = read_profile(shared, name)
    indices = {program_id: build_name_index(module) for program_id, module in profile.programs.items()}
    annotated = profile.device_events[profile.device_events["hlo_op"].notna()].to_dict("records")
    generated = [event for event in annotated if not is_library_kernel(event["kernel_name"])]
    assert len(generated) == generated_count
    for event in generated:
        match = candidates_by_name(event["kernel_name"], indices[event["program_id"]])
        assert match.candidates == (event["hlo_op"],)
