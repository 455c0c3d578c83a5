"""Brackets, commas and escapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.hlo.text_scan import UnreadableText, end_of_value, escape, find_closing, split_list, unescape


def test_brackets_in_strings_and_comments_close_nothing():
    text = '{a: "}", /* ) */ (b)} rest'
    assert text[find_closing(text, 0) :] == "} rest"


@pytest.mark.parametrize("text", ["{", '{"}', '{"a\\"}', "((a)"])
def test_what_is_left_open_is_told(text):
    with pytest.raises(UnreadableText) as caught:
        find_closing(text, 0)
    assert caught.value.is_open


def test_lists_are_cut_at_their_own_commas_only():
    assert split_list('a, /*index=1*/{b,c}, "d,e", f(g, h)') == ["a", "{b,c}", '"d,e"', "f(g, h)"]
    assert split_list(" /*nothing*/ ") == []


def test_a_value_ends_at_a_comma_of_its_own():
    assert end_of_value("{1,2}, next", 0) == 5
    assert end_of_value("last", 0) == 4
    with pytest.raises(UnreadableText, match="closes nothing"):
        end_of_value("a), b", 0)


def test_escapes_are_those_of_c_and_bytes_of_utf_8():
    assert unescape(r"v[\'w\'] \"x\" \\ \n \303\251 \x41") == "v['w'] \"x\" \\ \n é A"
    assert unescape(r"\377") == "ÿ"


@given(st.text())
def test_what_is_escaped_is_read_back(text):
    written = escape(text.encode("utf-8", "replace").decode())
    assert written.isascii()
    assert unescape(written) == text.encode("utf-8", "replace").decode()
