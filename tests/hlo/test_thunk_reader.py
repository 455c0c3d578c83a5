"""Thunk sequences: three printers' lines, nesting, metadata, and what happens to damaged and foreign files."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Severity
from rocktools.hlo.thunk_reader import parse_thunk_sequence, read_thunk_sequence
from rocktools.hlo.thunks import Thunk, ThunkSequence

# As jaxlib 0.10.2 prints them: a loop in a loop, an asynchronous collective, a copy.
NESTED = """\
001: kCopy         [source        | next=002 (1)] kCopy
002: kWhile        [prev=001 (1)  | next=012 (10)]   
condition:
    003: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
  body:
    005: kAsyncStart   [source        | next=006 (1) ] stream=communication_stream[0], async_id=5
        004: kAllGather [source | sink] kAllGather
    006: kWhile        [prev=005 (1)  | sink         ]       
condition:
        007: kCustomKernel [source | sink] loop_compare_fusion_1 grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
      body:
        008: kCustomKernel [source | sink] loop_add_fusion_17 grid: [4608, 2, 1] threads: [256, 1, 1]  shared_memory: 128 bytes
    009: kAsyncDone    [source        | sink         ] async_id=5
012: kCustomKernel [prev=002 (1)  | sink         ] fusion_3 grid: [7, 1, 1] threads: [64, 1, 1]  shared_memory: 0 bytes
"""  # noqa: E501, W291

BRANCHES = """\
000: kConditional\t
  branch_0:
    001: kConditional\t
      false_branch:
        002: kKernel\tkernel=a, profile_annotation=a.1, launch dimensions=blocks: {1, 1, 1}, threads/block: {2, 1, 1}
      true_branch:
        003: kGemm\t(no description)
    No thunks.  branch_2:
    004: kKernel\t, kernel = b_2, launch dimensions = blocks: {3, 1, 1}, threads/block: {4, 1, 1}

005: kSequential\t  006: kCopy\tkCopy
  007: kMemzero\tkMemzero

008: kNovelty\tsomething = 5
"""


def metadata(records: dict[int, tuple[str, str]]) -> str:
    """Thunk id -> (kind, instruction) as XLA's text proto."""
    return "".join(
        f'thunk_metadata {{\n  thunk_info {{\n    profile_annotation: "{instruction}"\n    thunk_id: {thunk_id}\n'
        f'  }}\n  thunk_kind: "{kind}"\n}}\n'
        for thunk_id, (kind, instruction) in records.items()
    )


def records_of(sequence: ThunkSequence) -> dict[int, tuple[str, str]]:
    return {thunk.thunk_id: (thunk.kind, f"{thunk.kind}.{thunk.thunk_id}") for thunk in sequence.walk()}


def ids(thunks: tuple[Thunk, ...]) -> list[int]:
    return [thunk.thunk_id for thunk in thunks]


def rules(sequence: ThunkSequence) -> list[str]:
    return [finding.rule for finding in sequence.findings]


def only(text: str) -> Thunk:
    [thunk] = parse_thunk_sequence(text, None, "s.txt").thunks
    return thunk


@pytest.mark.parametrize(
    "line",
    [
        "017: kKernel [prev=016 (1) | sink] k_1 grid: [5, 6, 1] threads: [256, 2, 1]  shared_memory: 64 bytes",
        "017: kKernel \tk_1 grid: [5, 6, 1] threads: [256, 2, 1] cluster: [1, 1, 1] shared_memory: 64 bytes",
    ],
)
def test_grid_and_threads_are_read_from_custom_kernels(line):
    thunk = only(line + "\n")
    assert (thunk.thunk_id, thunk.kind, thunk.kernel) == (17, "kKernel", "k_1")
    assert (thunk.grid_workgroups, thunk.workgroup_workitems, thunk.lds_bytes) == ((5, 6, 1), (256, 2, 1), 64)


@pytest.mark.parametrize(
    "rest, instruction",
    [
        (
            "kernel=wrapped_slice_7, profile_annotation=wrapped_slice.7, launch dimensions=blocks: {7168, 1, 1}, "
            "threads/block: {256, 1, 1}, cluster_dim=nullopt",
            "wrapped_slice.7",
        ),
        (
            ", kernel = wrapped_slice_7, launch dimensions = blocks: {7168, 1, 1}, threads/block: {256, 1, 1}",
            "",
        ),
    ],
)
def test_launch_dimensions_are_read_from_kernels_of_other_versions(rest, instruction):
    thunk = only(f"003: kKernel\t{rest}\n")
    assert (thunk.kernel, thunk.instruction) == ("wrapped_slice_7", instruction)
    assert (thunk.grid_workgroups, thunk.workgroup_workitems, thunk.lds_bytes) == ((7168, 1, 1), (256, 1, 1), None)


@pytest.mark.parametrize("rest", ["kCublasLtMatmul", "(no description)", ""])
def test_a_library_thunk_has_its_kind_only(rest):
    thunk = only(f"001: kCublasLtMatmul [source | next=002 (1)] {rest}\n")
    assert thunk == Thunk(thunk_id=1, kind="kCublasLtMatmul")


def test_loops_nest_although_conditions_are_not_indented():
    sequence = parse_thunk_sequence(NESTED, None, "s.txt")
    assert ids(sequence.thunks) == [1, 2, 12]
    outer = sequence.thunks[1]
    assert (ids(outer.condition), ids(outer.body)) == ([3], [5, 6, 9])
    inner = outer.body[1]
    assert (ids(inner.condition), ids(inner.body)) == ([7], [8])
    assert inner.body[0].grid_workgroups == (4608, 2, 1)


def test_an_asynchronous_start_holds_what_it_launches_and_its_done_has_the_same_id():
    start, _, done = parse_thunk_sequence(NESTED, None, "s.txt").thunks[1].body
    assert (start.stream, start.async_id, ids(start.body)) == ("communication_stream[0]", 5, [4])
    assert (done.kind, done.async_id, done.stream, done.body) == ("kAsyncDone", 5, "", ())


def test_branches_sequences_and_unknown_kinds_are_kept():
    sequence = parse_thunk_sequence(BRANCHES, None, "s.txt")
    conditional, sequential, novelty = sequence.thunks
    assert [ids(branch) for branch in conditional.branches] == [[1], [4]]
    assert [ids(branch) for branch in conditional.branches[0][0].branches] == [[2], [3]]
    assert (conditional.body, ids(sequential.body)) == ((), [6, 7])
    assert (novelty.thunk_id, novelty.kind, novelty.kernel) == (8, "kNovelty", "")
    assert rules(sequence) == ["thunk-without-instruction"]


def test_a_loop_that_launches_nothing_is_a_loop():
    text = "001: kWhile\t  \ncondition:\n  No thunks.  body:\n  No thunks.\n002: kCopy\tkCopy\n"
    sequence = parse_thunk_sequence(text, None, "s.txt")
    assert (ids(sequence.thunks), sequence.thunks[0].body) == ([1, 2], ())
    assert rules(sequence) == ["thunk-without-instruction"]


def test_a_program_that_launches_nothing_has_no_thunks():
    assert parse_thunk_sequence("No thunks.", "", "s.txt").thunks == ()


def test_metadata_names_the_instruction_of_every_id():
    records = records_of(parse_thunk_sequence(NESTED, None, "s.txt"))
    sequence = parse_thunk_sequence(NESTED, metadata(records), "s.txt")
    assert {thunk.thunk_id: (thunk.kind, thunk.instruction) for thunk in sequence.walk()} == records
    assert sequence.findings == ()


def test_text_protos_leave_out_zeros_and_escape_strings():
    text = (
        'thunk_metadata {\n  thunk_info {\n    profile_annotation: "a\\"b\\\\c\\303"\n  }\n  thunk_kind: "kCopy"\n}\n'
    )
    assert parse_thunk_sequence("000: kCopy\tkCopy\n", text, "s.txt").thunks[0].instruction == 'a"b\\c\xc3'


def test_thunks_without_an_instruction_are_counted():
    [finding] = parse_thunk_sequence(NESTED, None, "s.txt").findings
    assert (finding.rule, finding.severity) == ("thunk-without-instruction", Severity.WARNING)
    assert finding.numbers == {"thunks_count": 10, "all_thunks_count": 10}
    records = records_of(parse_thunk_sequence(NESTED, None, "s.txt"))
    records[5] = ("kAsyncStart", "")
    [finding] = parse_thunk_sequence(NESTED, metadata(records), "s.txt").findings
    assert "1 of 10 thunks have no HLO instruction: 1 kAsyncStart" in finding.message


def test_metadata_of_another_program_is_told_and_not_used():
    records = records_of(parse_thunk_sequence(NESTED, None, "s.txt"))
    other_kind = {**records, 8: ("kGemm", "dot.1")}
    other_ids = {thunk_id + 1: record for thunk_id, record in records.items() if thunk_id in (7, 8, 12)}
    for wrong in (other_kind, other_ids):
        sequence = parse_thunk_sequence(NESTED, metadata(wrong), "s.txt")
        assert rules(sequence) == ["thunk-metadata-of-another-program", "thunk-without-instruction"]
        assert sequence.findings[0].severity is Severity.FAULT
        assert {thunk.instruction for thunk in sequence.walk()} == {""}


def test_an_annotation_in_the_line_and_another_in_the_metadata_are_of_two_programs():
    sequence = parse_thunk_sequence(BRANCHES, metadata({2: ("kKernel", "a.2")}), "s.txt")
    assert rules(sequence)[0] == "thunk-metadata-of-another-program"


def test_metadata_of_more_thunks_says_that_the_sequence_is_cut():
    records = records_of(parse_thunk_sequence(NESTED, None, "s.txt"))
    whole_lines = "".join(NESTED.splitlines(keepends=True)[:-1])
    [finding] = parse_thunk_sequence(whole_lines, metadata(records), "s.txt").findings
    assert (finding.rule, finding.message[:46]) == (
        "thunk-sequence-incomplete",
        "1 thunks of the metadata are not in the sequen",
    )


def test_cut_metadata_is_told():
    records = records_of(parse_thunk_sequence(NESTED, None, "s.txt"))
    text = metadata(records)
    sequence = parse_thunk_sequence(NESTED, text[: len(text) - 30], "s.txt")
    assert rules(sequence) == ["thunk-metadata-cut", "thunk-without-instruction"]
    assert [thunk.thunk_id for thunk in sequence.walk() if not thunk.instruction] == [12]


def test_unknown_lines_are_counted_and_the_first_is_named():
    text = "001: kCopy\tkCopy\n*** new banner ***\n  body:\n002: kCopy\tkCopy\n"
    sequence = parse_thunk_sequence(text, None, "s.txt")
    assert ids(sequence.thunks) == [1, 2]
    finding = sequence.findings[0]
    assert (finding.rule, finding.where) == ("thunk-line-unknown", "s.txt, line 2")
    assert finding.numbers == {"lines_count": 2, "first_line": 2}


def test_repeated_ids_are_told():
    sequence = parse_thunk_sequence("001: kCopy\tkCopy\n001: kCopy\tkCopy\n", None, "s.txt")
    assert rules(sequence)[0] == "thunk-id-repeated"


def test_text_of_something_else_is_refused():
    with pytest.raises(UnknownFormat, match="no line of the text is a thunk"):
        parse_thunk_sequence("HloModule jit_f\n\nENTRY %main {\n}\n", None, "s.txt")
    with pytest.raises(DamagedFile, match="empty"):
        parse_thunk_sequence("", None, "s.txt")
    with pytest.raises(InputError, match="cannot-read"):
        read_thunk_sequence("no such file")


@given(st.integers(min_value=0, max_value=len(NESTED)))
def test_every_prefix_is_a_part_of_the_whole_or_a_clear_error(length):
    """A cut text gives the first thunks of the whole, nothing else, and says that it is cut."""
    whole = parse_thunk_sequence(NESTED, None, "s.txt")
    records = metadata(records_of(whole))
    all_ids = [thunk.thunk_id for thunk in whole.walk()]
    by_id = {thunk.thunk_id: thunk for thunk in whole.walk()}
    try:
        part = parse_thunk_sequence(NESTED[:length], records, "s.txt")
    except InputError:
        assert NESTED[:length].count("\n") == 0
        return
    found = [thunk.thunk_id for thunk in part.walk()]
    assert sorted(found) == sorted(all_ids[: len(found)])
    assert all(
        (thunk.kind, thunk.kernel) == (by_id[thunk.thunk_id].kind, by_id[thunk.thunk_id].kernel)
        for thunk in part.walk()
    )
    assert bool(part.findings) == (len(found) < len(all_ids))
    assert "thunk-metadata-of-another-program" not in rules(part)


@given(st.text(alphabet="0123456789: kWhileondbyC[]{}=,|\n\t", max_size=200))
def test_any_text_ends_in_a_result_or_an_input_error(text):
    with contextlib.suppress(InputError):
        parse_thunk_sequence(text, text, "s.txt")


@pytest.fixture
def mixtral(shared: Path) -> Path:
    return shared / "data" / "hlo" / "gfx950-mixtral-8x22b"


def dump(folder: Path, stem: str) -> tuple[Path, Path]:
    return folder / f"{stem}.thunk_sequence.txt", folder / f"{stem}.thunk_metadata.txt"


# Build -> thunks, kernels, matmuls (counts of the words in the files), and the loops: thunk, instruction,
# thunks in the condition.
REAL = {
    "triton": (419, 312, 0, [(17, "while.94", 1), (46, "while.91", 1), (161, "while.92", 1)]),
    "blaslt": (415, 255, 49, [(17, "while.94", 1), (46, "while.91", 1), (155, "while.92", 1)]),
}


@pytest.mark.parametrize("build", list(REAL))
def test_the_mixtral_sequences_are_read_whole(mixtral, build):
    paths = dump(mixtral / build, "module_0001.jit_step")
    sequence = read_thunk_sequence(*paths)
    thunks_count, kernels_count, matmuls_count, loops = REAL[build]
    walked = list(sequence.walk())
    assert sequence.findings == ()
    assert len(walked) == thunks_count
    assert sum(1 for thunk in walked if thunk.kernel and thunk.grid_workgroups) == kernels_count
    assert sum(thunk.kind == "kCublasLtMatmul" for thunk in walked) == matmuls_count
    # Brute force: the ids on the lines, in their order, once each.
    ids_on_lines = re.findall(r"^ *(\d+): k", paths[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert [thunk.thunk_id for thunk in walked] == [int(number) for number in ids_on_lines]
    whiles = [thunk for thunk in walked if thunk.kind == "kWhile"]
    assert [(one.thunk_id, one.instruction, len(one.condition)) for one in whiles] == loops
    outer, forward, backward = whiles
    assert outer in sequence.thunks
    assert forward in outer.body
    assert backward in outer.body


def test_mixtral_instructions_are_those_of_the_metadata(mixtral):
    sequence = read_thunk_sequence(*dump(mixtral / "triton", "module_0001.jit_step"))
    by_id = {thunk.thunk_id: thunk for thunk in sequence.walk()}
    # Read off the two files by eye.
    assert (by_id[2].kernel, by_id[2].instruction) == ("loop_broadcast_fusion_20", "loop_broadcast_fusion.20")
    assert (by_id[1].instruction, by_id[21].instruction) == ("copy.244", "partition-id.11.0")
    assert (by_id[66].kernel, by_id[66].lds_bytes) == ("gemm_fusion_dot_57", 8192)
    assert by_id[56].body == (by_id[55],)
    assert by_id[57].async_id == by_id[56].async_id == 56


def test_metadata_of_the_other_mixtral_build_is_refused(mixtral):
    sequence_path, _ = dump(mixtral / "triton", "module_0001.jit_step")
    _, metadata_path = dump(mixtral / "blaslt", "module_0001.jit_step")
    sequence = read_thunk_sequence(sequence_path, metadata_path)
    assert rules(sequence) == ["thunk-metadata-of-another-program", "thunk-without-instruction"]


@pytest.mark.parametrize(
    "stem, matmul", [("module_0011.jit_gspmd", "custom-call.1"), ("module_0014.jit_shardmap", None)]
)
def test_the_gfx942_sequences_are_two_library_thunks(shared, stem, matmul):
    sequence = read_thunk_sequence(*dump(shared / "data" / "hlo" / "gfx942", stem))
    assert [(thunk.thunk_id, thunk.kind) for thunk in sequence.thunks] == [(1, "kCublasLtMatmul"), (2, "kAllReduce")]
    assert matmul is None or sequence.thunks[0].instruction == matmul
    assert sequence.findings == ()
