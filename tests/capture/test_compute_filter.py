"""The expression that finds a kernel in whatever text a rocprof-compute searches."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins.compute.device import searched_name

from rocktools.capture.compute_filter import compute_kernel_regex, find_last_word
from rocktools.capture.portable_regex import require_portable_regex
from rocktools.errors import UsageError


@pytest.mark.parametrize(
    "name, last_word",
    [
        ("loop_add_fusion", "loop_add_fusion"),
        ("vecCopy(double*, double*, double*, int, int)", "vecCopy"),
        ("void a::f<int, 3>(float*)", "f"),
        ("Foo<int, float>::foo(a[], int (int))", "foo"),
        (
            "void at::native::reduce_kernel<512, 1, at::R<float, f(at::T&)::{lambda(float, float)#1}>>(at::R)",
            "reduce_kernel",
        ),
        ("void f<(kind)4, true>(int) [clone .kd]", "f"),
        ("(anonymous)", ""),
        ("a>", ""),
        ("", ""),
    ],
)
def test_of_a_name_in_cpp_the_last_word_is_left(name, last_word):
    assert find_last_word(name) == last_word


words = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)


@dataclass(frozen=True)
class Cpp:
    """A demangled name, and the word that is left of it."""

    name: str
    word: str


@st.composite
def cpp_names(draw) -> Cpp:
    word = draw(words)
    scope = "".join(f"{each}::" for each in draw(st.lists(words, max_size=2)))
    arguments = ", ".join(draw(st.lists(st.sampled_from(["int", "float*", "a<int>", "f (int)", "x[]"]), max_size=3)))
    template = draw(st.sampled_from(["", "<int>", "<a<3>, b>", "<(kind)4>"]))
    return Cpp(f"{draw(st.sampled_from(['', 'void ']))}{scope}{word}{template}({arguments})", word)


@given(cpp=cpp_names())
def test_the_word_is_the_one_that_the_name_was_made_of(cpp):
    assert find_last_word(cpp.name) == cpp.word


@given(cpp=cpp_names())
def test_both_texts_of_a_name_in_cpp_are_found(cpp):
    regex = compute_kernel_regex(cpp.name, is_cut_short=True)
    require_portable_regex(regex)
    assert re.search(regex, cpp.name)
    assert searched_name(cpp.name) == cpp.word
    assert re.search(regex, cpp.word)
    assert re.search(regex, f"{cpp.word}_1") is None
    assert re.search(regex, f"x{cpp.word}") is None


@given(name=words)
def test_symbols_are_found_with_their_suffix_and_without(name):
    regex = compute_kernel_regex(name, is_cut_short=True)
    require_portable_regex(regex)
    assert searched_name(name) == f"{name}.kd"
    for text in (name, f"{name}.kd"):
        assert re.search(regex, text)
    for text in (f"{name}_1", f"{name}_1.kd", f"{name}Xkd", f"x{name}", f"{name}.kd.kd"):
        assert re.search(regex, text) is None


@given(name=words)
def test_where_whole_names_are_searched_nothing_else_is_found(name):
    regex = compute_kernel_regex(name, is_cut_short=False)
    assert regex == f"^{name}$"


@pytest.mark.parametrize("name", ["", "ncclDevKernel_Generic_4"])
def test_no_name_and_collectives_are_refused(name):
    with pytest.raises(UsageError):
        compute_kernel_regex(name, is_cut_short=True)
