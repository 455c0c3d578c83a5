"""HLO text: what is in it, what is told of what cannot be read, and that a cut never misleads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import InputError, UnknownFormat
from rocktools.hlo.module import HloModule
from rocktools.hlo.text_reader import parse_hlo_text

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")


def parse(text: str) -> HloModule:
    return parse_hlo_text(text, "step.txt")


def parse_entry(*lines: str) -> HloModule:
    """A module of one computation."""
    return parse(
        "HloModule m\n\nENTRY %e (p: f32[2]) -> f32[2] {\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
    )


def rules(module: HloModule) -> list[str]:
    return [finding.rule for finding in module.findings]


def test_the_gallery_is_read_whole():
    module = parse(GALLERY)
    assert (module.findings, module.is_complete, module.is_scheduled) == ((), True, True)
    assert (module.name, module.program_id, module.label, module.entry_name) == ("gallery", None, "gallery", "main.1")
    lines = [line for line in GALLERY.splitlines() if line.startswith("  ") and " = " in line]
    assert len(module.instructions) == len(lines)
    assert all(instruction.name in lines[i] for i, instruction in enumerate(module.instructions.values()))
    assert all(GALLERY.splitlines()[each.line_number - 1] in lines for each in module.instructions.values())


def test_the_first_line_has_the_attributes_of_the_module():
    attributes = parse(GALLERY).attributes
    assert attributes["num_partitions"] == "8"
    assert attributes["input_output_alias"] == "{ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }"
    assert attributes["frontend_attributes"] == '{fingerprint_before_lhs="12ab",mesh={"x"=8}}'


def test_an_instruction_has_everything_that_its_line_says():
    call = parse(GALLERY).instructions["custom-call.1"]
    assert (call.opcode, str(call.shape)) == ("custom-call", "(f32[8,32]{1,0}, s8[128]{0})")
    assert (call.operands, call.called, call.is_root) == (("p0", "weights"), (), False)
    assert call.custom_call_target == "__cublas$lt$matmul"
    assert call.attributes["output_to_operand_aliasing"] == "{{0}: (1, {})}"
    assert call.attributes["operand_layout_constraints"] == "{f32[8,16]{1,0}, f32[16,32]{1,0}}"
    assert call.backend_config() == {"gemm_backend_config": {"epilogue": "DEFAULT"}}
    assert (call.metadata.op_type, call.metadata.op_name) == ("dot", "jit(f)/layer/étage/dot_general")
    assert "metadata" not in call.attributes


def test_strings_lose_quotes_and_escapes_and_names_their_sign():
    call = parse(GALLERY).instructions["custom-call.2"]
    assert call.custom_call_target == 'say "hi"'
    assert call.attributes["backend_config"] == "opaque \\ text"
    assert call.attributes["control-predecessors"] == "{custom-call.1, while.1}"
    assert call.called == ("add", "less")


def test_called_computations_come_in_the_order_of_the_proto():
    instructions = parse(GALLERY).instructions
    assert instructions["while.1"].called == ("body", "condition")  # the text has the condition first
    assert instructions["while.1"].known_trip_count == 56
    assert instructions["conditional.1"].called == ("yes", "no")
    assert instructions["all-gather-start"].called == ("async_computation",)
    assert instructions["fusion.1"].called == ("outer_fused",)
    assert instructions["nested"].called == ("inner_fused",)


def test_parameters_and_constants_have_an_argument_instead_of_operands():
    instructions = parse(GALLERY).instructions
    assert (instructions["p1"].operands, instructions["p1"].parameter_number) == ((), 1)
    assert (instructions["matrix"].operands, instructions["large"].argument) == ((), "{...}")
    assert instructions["start"].argument == "-3"


def test_comments_among_operands_are_no_operands():
    assert parse(GALLERY).instructions["parts"].operands == (
        *("dot.1", "bytes.2", "custom-call.2", "token.1", "while.1", "call.1"),
    )


def test_file_and_line_come_from_the_innermost_stack_frame():
    module = parse(GALLERY)
    metadata = module.instructions["custom-call.1"].metadata
    assert (metadata.source_file, metadata.source_line, metadata.stack_frame_id) == ("model.py", 77, 2)
    # The text says parents 1 and 2, one too high: frame 1 would be its own parent.
    assert module.stack_frames[1].parent_id is None
    assert module.stack_frames[2].parent_id == 1
    assert module.stack_frames[1].file == 'train "loop".py'


def test_parents_of_frames_that_are_printed_right_stay():
    text = GALLERY.replace("1 parent_frame_id=1", "1 parent_frame_id=0").replace(
        "parent_frame_id=2", "parent_frame_id=1"
    )
    assert parse(text).stack_frames == parse(GALLERY).stack_frames


def test_file_and_line_may_stand_in_the_metadata_itself():
    module = parse_entry(
        'ROOT %p = f32[2] parameter(0), metadata={op_name="x" source_file="a \\"b\\".py" source_line=3}'
    )
    assert module.instructions["p"].metadata.source_file == 'a "b".py'
    assert module.instructions["p"].metadata.source_line == 3


FORMS = [
    ("%x = f32[2]{0} add(f32[2]{0:T(128)} %p, (f32[2], s32[]) %q), dimensions={}", ("p", "q")),
    ("x = f32[2]{0} add(p, q)", ("p", "q")),
    ("%x = f32[2]{0} add(%p, /*index=1*/%q) ", ("p", "q")),
    ("ROOT %x = (f32[2]{0}, /*index=1*/s32[]) tuple(%p, %q)", ("p", "q")),
    ("%x = token[] after-all()", ()),
    ("%x = s32[] partition-id(), metadata={}", ()),
    ('%x = f32[2] custom-call(%p), custom_call_target="a, b=(", backend_config={"k":"}"}', ("p",)),
    ("%x = f32[2] custom-call(%p), calls=%f, %g, kind=kLoop", ("p",)),
]


@pytest.mark.parametrize("line, operands", FORMS)
def test_instructions_are_read_in_every_form(line, operands):
    module = parse_entry(line)
    assert module.findings == ()
    assert module.instructions["x"].operands == operands


def test_several_computations_may_stand_without_braces():
    assert parse_entry("%x = f32[2] custom-call(%p), calls=%f, %g, kind=kLoop").instructions["x"].called == ("f", "g")


def test_replica_groups_of_a_mesh_keep_their_devices():
    groups = parse(GALLERY).instructions["mesh-reduce"].attributes["replica_groups"]
    assert groups == "mesh['a'=4,'b'=2], device_ids=(0,4,1,5,2,6,3,7) {'a':(1)2,'b'}"


def test_a_literal_may_go_over_several_lines():
    module = parse_entry("%c = s32[2,2] constant({", "  { 1, 2 },", "  { 3, 4 }", "  })", "ROOT %d = s32[2,2] copy(%c)")
    assert module.findings == ()
    assert list(module.instructions) == ["c", "d"]


def test_tables_behind_the_first_line_are_skipped():
    table = (
        'HloModule m, is_scheduled=true, origin_recovery_table={\n  {"a"} : {"b"},\n  "\n    HloModule x\n\n  "\n}\n\n'
    )
    module = parse(f"{table}ENTRY %e () -> f32[] {{\n  ROOT %c = f32[] constant(1)\n}}\n")
    assert (module.findings, module.is_scheduled, list(module.instructions)) == ((), True, ["c"])


def test_an_instruction_that_cannot_be_read_is_left_out_with_its_place():
    module = parse_entry("%p = f32[2] parameter(0)", "%x = while(%p), body=%b", "ROOT %y = f32[2] negate(%p)")
    assert list(module.instructions) == ["p", "y"]
    assert not module.is_complete
    (finding,) = module.findings
    assert finding.rule == "hlo-text-unreadable-line"
    assert finding.where == "step.txt, line 5, column 8"
    assert "a shape is missing" in finding.message


def test_of_many_unreadable_lines_the_first_are_told_and_the_rest_counted():
    module = parse_entry(*["%x = nonsense"] * 50)
    assert rules(module) == ["hlo-text-unreadable-line"] * 20 + ["hlo-text-more-unread"]
    assert module.findings[-1].numbers == {"count": 30}


@pytest.mark.parametrize("marker", ["...", "  ...", "// 300 lines omitted", "[... 1,234 lines truncated ...]", "…"])
def test_marks_of_lines_that_were_left_out_are_understood(marker):
    module = parse_entry("%p = f32[2] parameter(0)", marker, "ROOT %y = f32[2] negate(%x)")
    assert list(module.instructions) == ["p", "y"]
    if not marker.startswith("//"):  # a comment, for XLA's own reader too
        assert rules(module) == ["hlo-text-elided"]
        assert not module.is_complete


def test_text_that_ends_in_a_computation_says_so():
    module = parse(GALLERY[: GALLERY.index("  %dot.1 =")])
    assert not module.is_complete
    (finding,) = module.findings
    assert finding.rule == "hlo-text-truncated"
    assert "'main.1'" in finding.message
    assert finding.numbers["count"] == len(module.instructions)


def test_text_without_entry_is_not_complete():
    module = parse(GALLERY[: GALLERY.index("ENTRY")])
    assert (module.entry, module.is_complete, rules(module)) == (None, False, ["hlo-text-truncated"])
    assert len(module.computations) == 9


def test_a_computation_that_is_not_closed_ends_where_the_next_begins():
    text = "HloModule m\n%a (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\nENTRY %e () -> f32[] {\n}\n"
    module = parse(text)
    assert list(module.computations) == ["a", "e"]
    assert rules(module) == ["hlo-text-unclosed"]


def test_only_the_first_of_two_modules_is_read():
    module = parse(GALLERY + "\n" + GALLERY.replace("HloModule gallery", "HloModule other"))
    assert (module.name, rules(module)) == ("gallery", ["hlo-text-second-module"])


def test_lines_before_the_module_are_skipped():
    assert parse(f"I0000 dumping\n\n{GALLERY}").name == "gallery"


def test_line_ends_of_windows_change_nothing():
    module = parse(GALLERY.replace("\n", "\r\n"))
    assert module.findings == ()
    assert module.instructions == parse(GALLERY).instructions


@pytest.mark.parametrize("text, reference", [("", "hlo-text-empty"), (" \n", "hlo-text-empty")])
def test_empty_text_is_damage(text, reference):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.reference == reference


def test_other_text_is_refused():
    with pytest.raises(UnknownFormat, match="HloModule"):
        parse("module @jit_f {\n}\n")


def test_a_computation_is_found_by_its_name_its_root_and_its_parameters():
    computation = parse(GALLERY).computations["add"]
    assert computation.root is not None
    assert computation.root.name == "sum"
    assert [parameter.name for parameter in computation.parameters] == ["x", "y"]


ABSURD = "9" * 6000  # more digits than Python makes a number of


@pytest.mark.parametrize(
    "line",
    [
        f"%x = f32[{ABSURD}] negate(%p)",
        f"%x = f32[2]{{{ABSURD}}} negate(%p)",
        "%x = f32[99999999999,99999999999] negate(%p)",
    ],
)
def test_absurd_numbers_are_unreadable_not_followed(line):
    assert rules(parse_entry("%p = f32[2] parameter(0)", line)) == ["hlo-text-unreadable-line"]


def test_absurd_numbers_elsewhere_mean_nothing():
    module = parse_entry(
        f"%p = f32[2] parameter({ABSURD}), metadata={{source_line={ABSURD} stack_frame_id={ABSURD}}}",
        f'%w = f32[2] while(%p), body=%b, backend_config={{"known_trip_count":{{"n":"{ABSURD}"}}}}',
        f"%v = f32[2] while(%p), body=%b, backend_config={'[' * 9000}",
        f"%u = f32[2] while(%p), body=%b, backend_config={'[' * 9000}{']' * 9000}",
    )
    found = module.instructions
    assert (found["p"].parameter_number, found["p"].metadata.source_line) == (None, 0)
    assert (found["w"].known_trip_count, found["u"].backend_config()) == (None, {})
    assert "v" not in found


@given(st.integers(0, len(GALLERY)))
def test_every_prefix_gives_the_beginning_of_the_whole_or_an_input_error(length):
    whole = parse(GALLERY)
    try:
        part = parse(GALLERY[:length])
    except InputError:
        assert length <= len("HloModule ")
        return
    assert part.is_complete == (length >= len(GALLERY.rstrip()))
    assert part.is_complete or part.findings
    found = list(part.instructions.values())
    expected = list(whole.instructions.values())[: len(found)]
    if "StackFrames" in GALLERY[:length]:
        assert found == expected
    assert [each.name for each in found] == [each.name for each in expected]


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(GALLERY)), st.integers(0, 12), st.text(alphabet='{}[]()",=%/*\\<>: \n1a.-', max_size=4)
        ),
        max_size=6,
    )
)
def test_text_with_accidents_gives_a_result_or_an_input_error(accidents):
    text = GALLERY
    for place, removed, inserted in accidents:
        text = text[:place] + inserted + text[place + removed :]
    try:
        module = parse(text)
    except InputError:
        return
    assert module.is_complete or module.findings
    assert all(instruction.shape.minor_to_major is not None for instruction in module.instructions.values())
