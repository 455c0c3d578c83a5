"""YAML files of the user's: complaints name file, line and entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import InputError, UnsupportedVersion
from rocktools.yaml_file import parse_yaml, read_yaml_file

TEXT = """schema: a/1
rules:
  - {name: first}
  - name: second
    deep:
      - 1
      - two
"""


def _parse(text):
    return parse_yaml(text, source="f.yaml", reference="made-file")


@pytest.mark.parametrize(
    "place, where",
    [
        (("rules",), "f.yaml:2: rules"),
        (("rules", 0, "name"), "f.yaml:3: rules[0].name"),
        (("rules", 1), "f.yaml:4: rules[1]"),
        (("rules", 1, "deep", 1), "f.yaml:7: rules[1].deep[1]"),
        (("rules", 1, "absent"), "f.yaml:4: rules[1].absent"),
        ((), "f.yaml:1: top"),
    ],
)
def test_a_complaint_names_the_line_of_its_entry(place, where):
    error = _parse(TEXT).complaint("made-file", place, "what")
    assert (error.where, error.reference) == (where, "made-file")


@pytest.mark.parametrize(
    "text, where",
    [("a: [1", "f.yaml:1"), ("a: 1\nb: 2\na: 3\n", "f.yaml:3"), ("a: 1\n\tb: 2\n", "f.yaml:2")],
)
def test_what_is_no_yaml_or_ambiguous_is_refused_with_its_line(text, where):
    with pytest.raises(InputError) as caught:
        _parse(text)
    assert caught.value.where == where


def test_schema_is_asked_for_and_compared():
    with pytest.raises(InputError, match="first entry must be `schema: b/1`"):
        _parse("a: 1\n").require_schema("made-file", "b/1")
    with pytest.raises(UnsupportedVersion, match="keeps a/1, and b/1 is read"):
        _parse(TEXT).require_schema("made-file", "b/1")


def test_unknown_key_lists_the_nearest():
    file = _parse("segmnts: [a]\n")
    with pytest.raises(InputError) as caught:
        file.require_mapping("made-file", (), file.value, optional=("segments", "pattern"))
    assert caught.value.hint == "one of: segments"


@pytest.mark.parametrize("value", [True, 0, -1, 1.5, "7", None, [1]])
def test_a_count_is_a_positive_integer(value):
    with pytest.raises(InputError, match="must be an integer of at least 1"):
        _parse("a: 1\n").require_count("made-file", ("a",), value)


@pytest.mark.parametrize("value", ["1000000000000000001", "-99999999999999999999999", "0x" + "f" * 5000])
def test_a_count_that_no_column_holds_is_refused(value):
    file = parse_yaml(f"a: {value}", source="f.yaml", reference="r")
    with pytest.raises(InputError, match="must be an integer of at most 1,000,000,000,000,000,000"):
        file.require_count("r", ("a",), file.value["a"])


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_yaml_file(tmp_path / "none.yaml", "made-file")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        read_yaml_file(tmp_path / "bytes.yaml", "made-file")


@given(st.text(max_size=60))
def test_any_text_ends_in_a_value_or_an_input_error(text):
    try:
        file = _parse(text)
    except InputError:
        return
    assert file.source == "f.yaml"
