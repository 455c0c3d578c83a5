"""The error tree, its texts and its exit codes."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from rocktools import errors
from rocktools.errors import InputError, RocktoolsError, UsageError, nearest_names

CLASSES = {
    name: found
    for name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == errors.__name__
}


def drawn_tree() -> dict[str, tuple[str | None, int]]:
    """The tree in the docstring of errors.py: name -> (parent, exit code)."""
    tree: dict[str, tuple[str | None, int]] = {}
    ancestors: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"(?P<branch> {4}[ │├└─]*)(?P<name>[A-Z]\w+) +(?P<code>\d)\b", line)
        if found is None:
            continue
        depth = len(found["branch"]) // 4 - 1
        ancestors[depth] = found["name"]
        tree[found["name"]] = (ancestors.get(depth - 1), int(found["code"]))
    return tree


def test_the_drawn_tree_names_every_class_with_its_parent_and_exit_code() -> None:
    defined = {
        name: (None if found is RocktoolsError else found.__base__.__name__, found.exit_code)
        for name, found in CLASSES.items()
    }
    assert drawn_tree() == defined


@pytest.mark.parametrize("found", CLASSES.values(), ids=CLASSES)
def test_no_error_ends_a_command_as_if_it_were_good(found: type[RocktoolsError]) -> None:
    assert found.exit_code != errors.EXIT_GOOD


def test_exit_codes_are_distinct() -> None:
    codes = [errors.EXIT_GOOD, errors.EXIT_FAILURE, errors.EXIT_USAGE, errors.EXIT_GATE]
    assert codes == [0, 1, 2, 3]


def test_text_says_what_then_where_then_what_to_try() -> None:
    error = InputError("rocpd-torn", "the file ends early", where="a.db, page 7", hint="rocktools rocpd recover a.db")
    assert str(error).splitlines() == [
        "rocpd-torn: the file ends early",
        "  where: a.db, page 7",
        "  try: rocktools rocpd recover a.db",
    ]


def test_text_without_place_and_hint_is_one_line() -> None:
    assert str(RocktoolsError("odd", "something is odd")) == "odd: something is odd"


@pytest.mark.parametrize("found", CLASSES.values(), ids=CLASSES)
def test_error_survives_the_way_back_from_a_worker_process(found: type[RocktoolsError]) -> None:
    error = found("a-reference", "what happened", where="here", hint="do that")
    returned = pickle.loads(pickle.dumps(error))
    assert type(returned) is found
    assert str(returned) == str(error)


def test_error_keeps_its_parts_for_scripts() -> None:
    error = UsageError("bad-regex", "( is not closed", where="--match", hint="escape it")
    assert (error.reference, error.what, error.where, error.hint) == (
        "bad-regex",
        "( is not closed",
        "--match",
        "escape it",
    )


@pytest.mark.parametrize(
    "wanted, best",
    [
        pytest.param("start", "start_ns", id="cut-short"),
        pytest.param("kernel_nmae", "kernel_name", id="letters-swapped"),
        pytest.param("Kernel_Name", "kernel_name", id="other-case"),
    ],
)
def test_nearest_name_comes_first(wanted: str, best: str) -> None:
    assert nearest_names(wanted, ["end_ns", "start_ns", "kernel_name", "kernel_id"])[0] == best


def test_nearest_names_keep_their_case() -> None:
    assert nearest_names("sq_waves", ["SQ_WAVES"]) == ["SQ_WAVES"]


def test_nothing_is_near_to_an_unrelated_name() -> None:
    assert nearest_names("zzz", ["start_ns", "end_ns"]) == []


def test_no_more_nearest_names_than_asked_for() -> None:
    assert len(nearest_names("col", ["col1", "col2", "col3", "col4"], at_most=2)) == 2
