"""Which executions are counted: the grammar, and what rocprofv3 reads out of our arguments."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocktools.capture.iterations import Iterations, parse_iterations
from rocktools.errors import UsageError


def read_as_rocprofv3(arguments: list[str]) -> set[int] | None:
    """What the tool counts: all values joined, split at brackets, commas and blanks, `a-b` with both ends; None is all.

    That is how the reference describes it, `[1,5]` being two numbers and a backward range nothing at all.
    """
    chosen: set[int] = set()
    for token in re.split(r"[\[\], ]+", ", ".join(arguments)):
        if "-" in token:
            first, last = token.split("-")
            chosen.update(range(int(first), int(last) + 1))
        elif token:
            chosen.add(int(token))
    return chosen or None


numbers = st.integers(1, 60)
ranges = st.one_of(numbers.map(lambda n: (n, n)), st.tuples(numbers, numbers).map(lambda pair: tuple(sorted(pair))))


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, set[int]]:
    """A request, in any spelling, and the set it means."""
    wanted: set[int] = set()
    parts = []
    for first, last in draw(st.lists(ranges, min_size=1, max_size=6)):
        wanted |= set(range(first, last + 1))
        dash, blank = draw(st.sampled_from(["-", " - ", "- "])), draw(st.sampled_from(["", " "]))
        is_single = first == last and draw(st.booleans())
        parts.append(f"{blank}{first}{'' if is_single else f'{dash}{last}'}{blank}")
    return ",".join(parts), wanted


@given(case=texts())
def test_it_contains_what_was_asked_for_and_nothing_else(case):
    text, wanted = case
    iterations = parse_iterations(text)
    assert {number for number in range(-1, 70) if number in iterations} == wanted
    assert iterations.count == len(wanted)
    assert iterations.last == max(wanted)


@given(case=texts())
def test_printing_and_parsing_change_nothing(case):
    iterations = parse_iterations(case[0])
    assert parse_iterations(str(iterations)) == iterations


@given(case=texts())
def test_ranges_are_ascending_and_do_not_touch(case):
    bounds = [bound for pair in parse_iterations(case[0]).ranges for bound in pair]
    assert bounds == sorted(bounds)
    assert all(after - before > 1 for before, after in zip(bounds[1::2], bounds[2::2], strict=False))


@given(case=texts())
@example(case=("10-10", {10}))
def test_rocprofv3_reads_the_arguments_as_the_same_set(case):
    text, wanted = case
    assert read_as_rocprofv3(parse_iterations(text).arguments()) == wanted


@given(case=texts())
def test_every_argument_is_one_bracketed_range(case):
    for argument in parse_iterations(case[0]).arguments():
        match = re.fullmatch(r"\[(\d+)-(\d+)\]", argument)
        assert match
        assert 1 <= int(match[1]) <= int(match[2])


@pytest.mark.parametrize(
    "text, ranges, arguments",
    [
        ("3", ((3, 3),), ["[3-3]"]),
        ("10-12", ((10, 12),), ["[10-12]"]),
        ("1-4,9", ((1, 4), (9, 9)), ["[1-4]", "[9-9]"]),
        ("9,1-4,3-6", ((1, 6), (9, 9)), ["[1-6]", "[9-9]"]),
        ("1,2,3", ((1, 3),), ["[1-3]"]),
        ("5,5", ((5, 5),), ["[5-5]"]),
        ("1-10,3", ((1, 10),), ["[1-10]"]),
        ("007", ((7, 7),), ["[7-7]"]),
        ("2147483647", ((2147483647, 2147483647),), ["[2147483647-2147483647]"]),
        ("1-1000000", ((1, 1_000_000),), ["[1-1000000]"]),
    ],
)
def test_ranges_are_merged_and_written_in_one_form(text, ranges, arguments):
    iterations = parse_iterations(text)
    assert iterations == Iterations(ranges)
    assert iterations.arguments() == arguments


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "no number and no range"),
        (" ", "no number and no range"),
        (",", "no number and no range"),
        ("1,", "no number and no range"),
        ("1,,2", "no number and no range"),
        ("a", "'a' in 'a' is no number"),
        ("-3", "no number and no range"),
        ("3-", "no number and no range"),
        ("1-2-3", "no number and no range"),
        ("[1-2]", "no number and no range"),
        ("1 2", "no number and no range"),
        ("1.5", "no number and no range"),
        ("+1", "no number and no range"),
        ("٣", "no number and no range"),
        ("1:3", "no number and no range"),
        ("0", "asks for 0"),
        ("0-3", "asks for 0"),
        ("3,00", "asks for 0"),
        ("5-1", "runs backwards, which rocprofv3 would take for all iterations"),
        ("1-2,9-3", "'9-3' runs backwards"),
        ("1-1000001", "1,000,001 iterations; the most is 1,000,000"),
        ("1-600000,700000-1200000", "1,100,001 iterations"),
        ("2147483648", "beyond 2,147,483,647"),
        ("1-99999999999999999999", "beyond 2,147,483,647"),
        ("9" * 5_000, "beyond 2,147,483,647"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text, reason):
    with pytest.raises(UsageError) as caught:
        parse_iterations(text)
    assert caught.value.reference == "bad-iterations"
    assert reason in caught.value.what
    assert len(caught.value.what) < 300


def test_a_backward_range_comes_with_the_forward_one():
    with pytest.raises(UsageError) as caught:
        parse_iterations("12-10")
    assert caught.value.hint == "10-12"


def test_the_model_of_the_tool_knows_its_traps():
    assert read_as_rocprofv3(["[1,5]"]) == {1, 5}
    assert read_as_rocprofv3(["[5-1]"]) is None
    assert read_as_rocprofv3(["[1, 2, [5-8]]", "10"]) == {1, 2, 5, 6, 7, 8, 10}
