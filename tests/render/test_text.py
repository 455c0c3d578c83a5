"""Tables as text: alignment, scaling, width, and what must never be hidden."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rocktools.evidence import Evidence
from rocktools.render.cells import MISSING, SIMULATED
from rocktools.render.table import Table, table_column, top_rows
from rocktools.render.text import ELLIPSIS, render_text, shorten_distinct, shorten_middle

LONG_NAME = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_WG32_8_1"


def _table(columns: dict[str, object], **facts: object) -> Table:
    frame = pd.DataFrame(columns)
    declared = tuple(
        table_column(name, "a column", evidence=Evidence.MEASURED, dtype=frame[name].dtype) for name in frame.columns
    )
    return Table(
        **{"name": "test", "title": "a test", "columns": declared, "frame": frame, "is_simulated": False, **facts}
    )


def _rows(text: str) -> list[str]:
    """The lines between the rule and the footer."""
    lines = text.split("\n")
    first = next(index for index, line in enumerate(lines) if line.startswith("─")) + 1
    return lines[first : lines.index("", first)]


def test_cells_are_scaled_aligned_and_headers_lose_the_unit_that_every_cell_has():
    table = _table(
        {
            "kernel_name": ["gemm", "copy"],
            "dispatches_count": pd.array([12_345, 7], dtype="Int64"),
            "sum_ns": [20_760_000_000, 950],
            "read_bytes": [4_194_304, 0],
            "share_ratio": [0.99, 0.0001],
            "peak_flop_per_s": [2.517e15, np.nan],
            "sum_value": [38_285_430.0, 0.1234567],
            "start_ns": [13_000_000_000_000_001, 5],
        }
    )
    assert render_text(table, width=160) == (
        "a test\n"
        "\n"
        "kernel_name  dispatches      sum      read   share           peak   sum_value           start_ns\n"
        "───────────  ──────────  ───────  ────────  ──────  ─────────────  ──────────  ─────────────────\n"
        "gemm             12,345  20.76 s  4.194 MB  99.0 %  2.517 PFLOP/s  38,285,430  13000000000000001\n"
        "copy                  7   950 ns       0 B  <0.1 %              —    0.123457                  5\n"
        "\n"
        "evidence: measured\n"
    )


def test_seconds_are_durations_too():
    assert _rows(render_text(_table({"span_s": [0.0025]}), width=80)) == ["2.500 ms"]


def test_missing_is_a_dash_in_every_dtype_and_never_zero():
    table = _table(
        {
            "sum_ns": pd.array([None, 0], dtype="Int64"),
            "share_ratio": [np.nan, 0.0],
            "phase": pd.Categorical([None, "forward"]),
            "kernel_name": pd.Series([None, "gemm"], dtype=object),
        }
    )
    missing, present = _rows(render_text(table, width=80))
    assert missing.split() == [MISSING] * 4
    assert present.split() == ["0", "ns", "0.0", "%", "forward", "gemm"]


def test_infinite_values_and_flags_are_readable():
    table = _table({"share_ratio": [np.inf, -np.inf], "is_simulated": [True, False]})
    assert [row.split() for row in _rows(render_text(table, width=80))] == [["inf", "yes"], ["-inf", "no"]]


def test_largest_int64_is_exact():
    table = _table({"start_ns": [2**63 - 1], "dispatch_id": [2**63 - 1], "waves_count": [2**63 - 1]})
    assert _rows(render_text(table, width=160))[0].split() == [str(2**63 - 1)] * 2 + [f"{2**63 - 1:,}"]


def test_two_columns_that_would_look_alike_keep_their_full_names():
    text = render_text(_table({"copied_bytes": [1], "copied_count": [2], "sum_ns": [3]}), width=80)
    assert text.split("\n")[2].split() == ["copied_bytes", "copied_count", "sum"]


def test_cut_line_tells_how_many_rows_there_are():
    text = render_text(top_rows(_table({"sum_ns": range(312)}), 20), width=80)
    assert "cut: showing 20 of 312 rows; --top 0 shows all\n" in text
    assert len(_rows(text)) == 20


def test_no_cut_line_when_nothing_was_cut():
    assert "cut:" not in render_text(_table({"sum_ns": range(3)}), width=80)


def test_simulated_table_says_so_above_everything():
    assert render_text(_table({"sum_ns": [1]}, is_simulated=True), width=80).startswith(f"{SIMULATED}\na test\n")
    assert "evidence: measured, in a simulation\n" in render_text(_table({"sum_ns": [1]}, is_simulated=True), width=80)
    assert "simulat" not in render_text(_table({"sum_ns": [1]}), width=80).lower()


def test_notes_stand_below():
    text = render_text(_table({"sum_ns": [1]}, notes=("unproven replay", "two\nlines")), width=80)
    assert text.endswith("evidence: measured\nnote: unproven replay\nnote: two\\nlines\n")


def test_evidence_that_differs_is_told_by_column():
    frame = pd.DataFrame({"sum_ns": [1], "bound_ns": [2]})
    columns = (
        table_column("sum_ns", "measured sum", evidence=Evidence.MEASURED),
        table_column("bound_ns", "lower bound", evidence=Evidence.ANALYTIC),
    )
    table = Table(name="test", title="a test", columns=columns, frame=frame, is_simulated=False)
    assert "evidence: measured (sum_ns); analytic (bound_ns)\n" in render_text(table, width=80)


def test_empty_table_says_so():
    assert "no rows\n" in render_text(_table({"sum_ns": [], "kernel_name": []}), width=80)


def test_names_are_shortened_in_the_middle_to_fit_the_width():
    table = _table({"kernel_name": [LONG_NAME, "copy"], "sum_ns": [342_464, 1]})
    lines = render_text(table, width=60).split("\n")
    assert max(map(len, lines)) == 60
    assert lines[4].startswith("Cijk_Ailk_")
    assert ELLIPSIS in lines[4]
    assert lines[4].endswith("WG32_8_1  342.5 µs")
    assert lines[5].startswith("copy ")


def test_names_are_whole_where_there_is_room():
    assert LONG_NAME in render_text(_table({"kernel_name": [LONG_NAME], "sum_ns": [1]}), width=160)


def test_the_widest_of_two_names_gives_first():
    table = _table({"kernel_name": [LONG_NAME], "range": ["step 17, microbatch 3, forward"], "sum_ns": [1]})
    row = _rows(render_text(table, width=100))[0]
    assert "step 17, microbatch 3, forward" in row
    assert ELLIPSIS in row
    assert cell_len(row) == 100


@pytest.mark.parametrize(
    "names, width",
    [
        ([f"ncclDevKernel_Generic_{number}(ncclDevKernelArgsStorage<4096ul>)" for number in (0, 1)], 24),
        ([f"{number}{'x' * 80}" for number in range(3)], 24),
        ([f"{'x' * 80}{number}" for number in range(3)], 24),
        ([f"{'x' * 19}{number}{'x' * 80}" for number in range(3)], 24),
        ([f"{'x' * 80}{number}{'x' * 19}" for number in range(3)], 24),
        ([f"{'x' * 40}{number}{'x' * 100}" for number in range(3)], 42),  # the head alone, and the ellipsis
    ],
)
def test_names_that_differ_stay_distinct_in_the_least_width_that_does_it(names, width):
    table = _table({"kernel_name": [*names, names[0], "copy"], "sum_ns": 1})
    shown = [row.rpartition("  ")[0].strip() for row in _rows(render_text(table, width=20))]
    assert len(set(shown)) == len(set(names)) + 1
    assert shown[0] == shown[-2]
    assert max(map(cell_len, shown)) == width


@given(st.lists(st.text(alphabet="ab融", max_size=40), max_size=6), st.integers(min_value=2, max_value=40))
def test_shortened_texts_fit_and_are_as_different_as_the_whole_ones(texts, width):
    short = shorten_distinct(texts, width)
    if short is None:
        assert any(cell_len(text) > width for text in texts)
        return
    assert all(cell_len(text) <= width for text in short)
    assert len(set(short)) == len(set(texts))


def _wide(**facts: object) -> Table:
    numbers = {name: [1_000_000_000] for name in ("total_ns", "min_ns", "mean_ns", "max_ns")}
    return _table({"kernel_name": [LONG_NAME], **numbers}, **facts)


def _header(text: str) -> list[str]:
    return next(line for line in text.split("\n") if line.startswith("kernel_name")).split()


@pytest.mark.parametrize(
    "width, shown, hidden",
    [
        (47, ["total", "min", "mean", "max"], None),
        (46, ["total", "min", "mean"], "max_ns"),
        (41, ["total", "mean"], "min_ns, max_ns"),
        (36, ["total"], "min_ns, mean_ns, max_ns"),
        (1, ["total"], "min_ns, mean_ns, max_ns"),
    ],
)
def test_least_important_columns_are_left_out_and_named_where_short_names_are_not_enough(width, shown, hidden):
    text = render_text(_wide(optional_columns=("mean_ns", "min_ns", "max_ns", "absent")), width=width)
    assert _header(text) == ["kernel_name", *shown]
    if hidden is None:
        assert "hidden" not in text
    else:
        assert text.endswith(f"\nhidden for width {width}: {hidden}; --format csv has all\n")


def test_name_takes_the_room_of_what_was_left_out():
    (row,) = _rows(render_text(_wide(optional_columns=("mean_ns", "min_ns", "max_ns")), width=46))
    assert cell_len(row) == 46
    assert cell_len(row.split("  ")[0]) == 28


def test_nothing_is_left_out_of_a_table_that_must_be_whole():
    text = render_text(_wide(optional_columns=("mean_ns", "min_ns")), width=30, is_whole=True)
    assert _header(text) == ["kernel_name", "total", "min", "mean", "max"]
    assert "hidden" not in text


def test_evidence_is_that_of_the_columns_shown():
    frame = pd.DataFrame({"sum_ns": [1], "bound_ns": [2]})
    columns = (
        table_column("sum_ns", "measured sum", evidence=Evidence.MEASURED),
        table_column("bound_ns", "lower bound", evidence=Evidence.ANALYTIC),
    )
    table = Table(
        name="test", title="a test", columns=columns, frame=frame, is_simulated=False, optional_columns=("bound_ns",)
    )
    assert "evidence: measured\nhidden for width 5: bound_ns; --format json has all\n" in render_text(
        table, width=5, other_format="json"
    )


def test_where_even_that_is_too_wide_lines_are_longer_and_no_column_that_must_stay_is_dropped():
    numbers = {f"column{index}_ns": [1_000_000_000 + index] for index in range(20)}
    table = _table({"kernel_name": [LONG_NAME], **numbers, "phase": ["a phase that is no name and stays whole"]})
    text = render_text(table, width=40)
    (row,) = _rows(text)
    assert len(row) > 40
    assert row.count("1 s") == 20
    assert "a phase that is no name and stays whole" in row
    assert cell_len(row.split("  ")[0]) == 24


def test_control_characters_cannot_reach_the_terminal():
    text = render_text(_table({"kernel_name": ["a\x1b[31mred\nb\tc\x9b"]}, title="x\x1b]0;y\x07"), width=80)
    assert "a\\x1b[31mred\\nb\\tc\\x9b" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_wide_characters_keep_the_columns_aligned():
    table = _table({"kernel_name": ["融合カーネル", "🚀", "abc"], "sum_ns": [1, 22, 333]})
    assert {cell_len(row) for row in _rows(render_text(table, width=80))} == {12 + 2 + 6}


# Control characters have been spelled out when a cell is shortened.
_cells = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=ELLIPSIS), max_size=60)


@given(_cells, st.integers(min_value=2, max_value=40))
def test_shortened_text_fits_and_keeps_both_ends(text, width):
    short = shorten_middle(text, width)
    assert cell_len(short) <= width
    if cell_len(text) <= width:
        assert short == text
    else:
        head, tail = short.split(ELLIPSIS)
        assert text.startswith(head)
        assert text.endswith(tail)


@pytest.mark.parametrize("width", [20, 80, 200])
def test_no_line_ends_in_blanks(width):
    text = render_text(_table({"sum_ns": [1, 2], "kernel_name": [LONG_NAME, "b"]}), width=width)
    assert all(line == line.rstrip() for line in text.split("\n"))
