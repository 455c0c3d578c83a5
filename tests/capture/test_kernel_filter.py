"""Which kernels are counted: names, prefixes and expressions, read alike by Python and by both engines of rocprofv3."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import first_match_regex
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocktools.capture.kernel_filter import COLLECTIVE_KERNELS, exclusion, filter_names, filter_prefix, filter_regex
from rocktools.capture.portable_regex import require_portable_regex
from rocktools.errors import UsageError

KERNELS = (
    "loop_fusion_3",
    "loop_fusion_31",
    "input_reduce_fusion",
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1",
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm<float, 256>, true>(ck::Argument*)",
    "void (anonymous namespace)::softmax<int[4]>(float const*, float*, int) [clone .cold]",
    "std::enable_if<(1 & 3) != 0, void>::type f$1<'c', \"s\">(T&&)",
    "a.b*c+d?e|f^g{2}\\d",
    "größe_Ω<λ>",
)

_WORDS = ("loop", "fusion", "_", "1", "12", "ck::", "<", ">", "(", ")", "[", "]", "{2}", "*", "+", "?", "|", "^", "$")
_MORE_WORDS = (".", "\\", "\\d", "&", "#", "-", "~", ", ", "unsigned long", "é", "Ω", "'", '"', "!", "/", "=", "a")
# As readers give them: nothing but printable characters, no blanks at the ends.
kernel_names = (
    st.one_of(
        st.sampled_from(KERNELS),
        st.lists(st.sampled_from(_WORDS + _MORE_WORDS), min_size=1, max_size=8).map("".join),
        st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=12),
    )
    .map(str.strip)
    .filter(bool)
)


@given(wanted=kernel_names, other=kernel_names)
def test_a_name_finds_itself_and_nothing_else(wanted, other):
    kernels = filter_names([wanted], exclude=None)
    assert kernels.matches(wanted)
    assert kernels.matches(other) == (wanted == other)
    assert not kernels.matches(f"{wanted}1")
    assert not kernels.matches(f"1{wanted}")


@given(wanted=st.lists(kernel_names, min_size=1, max_size=4), other=kernel_names)
@example(wanted=["fusion_1", "fusion_12"], other="fusion_123")
@example(wanted=["f", "f"], other="ff")
def test_several_names_find_each_of_them_in_both_engines(wanted, other):
    """The home-made engine takes the first alternative of a group that fits, and never comes back for a longer one."""
    kernels = filter_names(wanted, exclude=None)
    for name in (*wanted, other):
        assert kernels.matches(name) == (name in wanted)
        assert first_match_regex.is_found(kernels.include, name) == (name in wanted)


@given(prefix=kernel_names, rest=kernel_names)
def test_a_prefix_finds_what_begins_with_it(prefix, rest):
    kernels = filter_prefix(prefix, exclude=None)
    for name in (prefix, prefix + rest, rest, rest + prefix):
        assert kernels.matches(name) == name.startswith(prefix)
        assert first_match_regex.is_found(kernels.include, name) == name.startswith(prefix)


@given(name=kernel_names)
def test_names_and_prefixes_are_portable_by_themselves(name):
    require_portable_regex(filter_names([name], exclude=None).include)
    require_portable_regex(filter_prefix(name, exclude=None).include)


@pytest.mark.parametrize("names", [[], [""], ["loop_fusion_3", ""]])
def test_an_empty_name_is_refused(names):
    with pytest.raises(UsageError, match="kernel-name-empty"):
        filter_names(names)


def test_an_empty_prefix_is_refused():
    with pytest.raises(UsageError, match="kernel-prefix-empty"):
        filter_prefix("")


def test_the_meaning_names_what_was_asked_for():
    assert filter_names(["a", "b"]).meaning == "kernels named a, b"
    assert filter_prefix("loop").meaning == "kernels that begin with loop"
    assert filter_regex("^loop|gemm").meaning == "kernels that match /^loop|gemm/"


@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce_Sum_f32", "rccl_main", "void mscclpp::allreduce<int>()"])
def test_collectives_are_left_out_unless_exclusion_is_switched_off(name):
    assert not filter_regex(".").matches(name)
    assert filter_regex(".", exclude=None).matches(name)
    for build in (filter_prefix, lambda prefix, **options: filter_names([prefix], **options)):
        with pytest.raises(UsageError, match="kernel-is-excluded") as caught:
            build(name)
        assert name in caught.value.what
        assert "--exclude ''" in (caught.value.hint or "")
        assert build(name, exclude=None).matches(name)


def test_an_expression_of_the_users_leaves_collectives_out_too():
    kernels = filter_regex(".", exclude=exclusion("^gemm|copy"))
    for name in ("ncclDevKernel_Generic_1", "rccl_x", "mscclpp_y", "gemm_fusion", "wrapped_copy"):
        assert not kernels.matches(name)
    assert kernels.matches("loop_fusion")
    assert exclusion(None) == COLLECTIVE_KERNELS
    assert exclusion("") is None
    with pytest.raises(UsageError):
        exclusion("(?i)copy")


def test_the_default_exclusion_keeps_ordinary_kernels():
    assert all(filter_regex(".").matches(name) for name in KERNELS)
    assert filter_regex(".").exclude == COLLECTIVE_KERNELS


def test_an_exclusion_of_ones_own_must_be_portable_too():
    assert not filter_regex("loop", exclude="_31$").matches("loop_fusion_31")
    with pytest.raises(UsageError, match="lookahead"):
        filter_regex("loop", exclude="(?=x)")


# Expression -> what the refusal names.
REFUSED = (
    ("", "empty expression"),
    ("(?:a)b", "non-capturing groups at position 1"),
    ("a(?=b)", "lookahead at position 2"),
    ("a(?!b)", "lookahead"),
    ("(?<=a)b", "lookbehind"),
    ("(?P<n>a)", "named groups"),
    ("(?i)loop", "inline flags"),
    (r"\bloop", r"the escape \b"),
    (r"loop\n", r"the escape \n"),
    (r"\x41", r"the escape \x"),
    (r"\Aloop", r"the escape \A"),
    (r"(a)\1", "a back-reference at position 4"),
    ("loop\\", "a backslash at the end"),
    ("[[:alpha:]]", "named character classes"),
    ("[[.hyphen.]]", "named character classes"),
    ("[a[b]", "an unescaped '[' in a class"),
    ("[]a]", "an empty character class"),
    ("[^]a]", "an empty character class"),
    ("[a-", "a character class that is not closed"),
    ("[abc", "a character class that is not closed"),
    (r"[\S]", r"the escape \S in a class"),
    (r"[a\-z]", "an escaped dash inside a class"),
    (r"[\d-z]", "neither first nor last nor between"),
    ("[a-c-e]", "neither first nor last nor between"),
    (r"[a-\d]", "ends in a set"),
    ("[z-a]", "bad character range"),
    ("[a&&b]", "'&&' in a class"),
    ("[a--b]", "'--' in a class"),
    ("[é]", "outside ASCII in a class"),
    ("é+", "outside ASCII"),
    (r"\€?", "outside ASCII"),
    ("(a", "an opening parenthesis without a closing one"),
    ("a)", "a closing parenthesis without an opening one at position 2"),
    ("a]", "an unescaped ']'"),
    ("a}", "an unescaped '}'"),
    ("a{x}", "an unescaped '{'"),
    ("a{,3}", "an unescaped '{'"),
    ("a{3,2}", "min repeat greater"),
    ("*a", "nothing to repeat before '*'"),
    ("a|+b", "nothing to repeat before '+'"),
    ("^*a", "nothing to repeat before '*'"),
    ("a$?", "nothing to repeat before '?'"),
    ("(*a)", "nothing to repeat before '*'"),
    ("a**", "a quantifier of a quantifier"),
    ("a*?+", "a quantifier of a quantifier"),
    ("a{2}{3}", "a quantifier of a quantifier"),
    ("a++", "a possessive quantifier"),
    ("a{2}+", "a possessive quantifier"),
    ("a{99999999999}", "repeats so much"),
    ("((a{300}){300}){300}", "repeats so much"),
    ("nccl|", "an empty alternative"),
    ("|nccl", "an empty alternative"),
    ("a()b", "an empty alternative or group"),
    ("^(fusion_1|fusion_12)$", "a group that can end in several places, with something behind it, at position 2"),
    ("(loop.*)_fusion", "a group that can end in several places"),
    ("(^|_)fusion", "a group that can end in several places"),
    ("((a+))b", "a group that can end in several places"),
    ("(a|ab)*", "a repeated group that can end in several places"),
    ("(a*)+", "a repeated group that can be empty"),
    ("(^)?a", "a repeated group that can be empty"),
)


@pytest.mark.parametrize("regex, reason", REFUSED)
def test_what_engines_read_differently_is_refused_with_its_reason(regex, reason):
    with pytest.raises(UsageError) as caught:
        filter_regex(regex)
    assert caught.value.reference == "bad-kernel-regex"
    assert reason in caught.value.what
    assert caught.value.exit_code == 2


# Refused expressions that the home-made engine reads in its own way: expression, name, what ECMAScript would find.
MISREAD = (
    ("(?:a)b", "ab", True),
    ("a(?!b)", "ac", True),
    ("(?i)loop", "LOOP", True),
    (r"\bloop", "a loop", True),
    ("[[:alpha:]]x", "ax", True),
    (r"(a)\1", "aa", True),
    (r"[\S]", "a", True),
    (r"[a\-z]", "m", False),
    ("^(fusion_1|fusion_12)$", "fusion_12", True),
    ("(loop.*)_fusion", "loop_add_fusion", True),
    ("(^|_)fusion", "_fusion", True),
    ("((a+))ab", "aaab", True),
    ("^(a|ab)*c", "abc", True),
    ("x(a*)+y", "xy", True),
)


@pytest.mark.parametrize("regex, name, is_right", MISREAD)
def test_the_refused_expressions_are_misread(regex, name, is_right):
    assert first_match_regex.is_found(regex, name) != is_right
    with pytest.raises(UsageError):
        require_portable_regex(regex)


# Expression, names it finds, names it does not find.
ACCEPTED = (
    (".", KERNELS, ()),
    (".*", KERNELS, ()),
    ("^loop_fusion", ("loop_fusion_3",), ("a_loop_fusion",)),
    ("fusion_3$", ("loop_fusion_3",), ("loop_fusion_31",)),
    ("^fusion_1$|^fusion_12$", ("fusion_1", "fusion_12"), ("fusion_123",)),
    ("(loop|input)_.*fusion", ("loop_fusion", "input_reduce_fusion"), ("loopfusion",)),
    ("^(loop|input)", ("loop_fusion_3",), ("a_loop",)),
    (r"Cijk_.*_MT(\d+)x(\d+)x", ("Cijk_A_MT256x128x64",), ("Cijk_MT256x128x64",)),
    (r"gemm<(\d+)>", ("gemm<12>",), ("gemm<a>",)),
    ("((ab)+)c", ("ababc",), ("bc",)),
    ("a{2,3}b", ("aaab",), ("ab",)),
    ("^a+?b??c{1}?$", ("aac", "abc"), ("c",)),
    (r"[\w:]+<", ("ck::gemm<",), ("<",)),
    (r"[+\-]", ("a-b",), ("ab",)),
    (r"[^\d]$", ("a",), ("1",)),
    (r"[\]\\^.*-]", ("]", "\\", "^", "-"), ("a",)),
    (r"\(anonymous namespace\)", (KERNELS[5],), ("anonymous namespace",)),
    (r"\W", ("a b", "é"), ("ab",)),
    (r"^\w+$", ("a_1",), ("é", "")),
    ("Ω", ("größe_Ω",), ("größe",)),
    ("(a|b)(c|d){2}e", ("acde",), ("ade",)),
    ("x(ab|a)", ("xa", "xab"), ("x",)),
)


@pytest.mark.parametrize("regex, found, missed", ACCEPTED)
def test_portable_expressions_find_what_they_say(regex, found, missed):
    kernels = filter_regex(regex)
    assert kernels.include == regex
    assert [name for name in found if not kernels.matches(name)] == []
    assert [name for name in missed if kernels.matches(name)] == []


_TOKENS = ("a", "b", "ab", "_", "1", "-", "^", "$", ".", "|", "(", ")", "[", "]", "[^", "[ab]", r"[\w-]", r"\d", r"\w")
_TOKENS += (r"\W", r"\s", r"\S", r"\D", r"\.", r"\-", "*", "+", "?", "{2}", "{1,2}", "*?", "(a|b)", "(a|ab)", "(ab)")
_TOKENS += (
    "(a+)",
    "é",
    r"\[",
    r"[\d_]",
    "[^a-]",
    "[]",
    "{0}",
    "[a-b-1]",
    "[+-9]",
    r"[\]a]",
    r"\ ",
    "(a|b1)",
    "?:",
    "?",
)
expressions = st.lists(st.sampled_from(_TOKENS), min_size=1, max_size=8).map("".join)
texts = st.text("aab_11-A <é.*]", max_size=8)


@given(regex=expressions, name=texts)
def test_whatever_is_accepted_means_the_same_to_python_and_to_the_home_made_engine(regex, name):
    try:
        kernels = filter_regex(regex, exclude=None)
    except UsageError:
        return
    re.compile(regex)
    assert kernels.matches(name) == first_match_regex.is_found(regex, name)


_SEARCH_PROGRAM = r"""
#include <iostream>
#include <regex>
#include <string>
int main() {
    std::string pattern, name;
    while (std::getline(std::cin, pattern, '\t') && std::getline(std::cin, name)) {
        try {
            std::cout << (std::regex_search(name, std::regex(pattern)) ? "found" : "missed") << '\n';
        } catch (const std::regex_error&) {
            std::cout << "thrown\n";
        }
    }
}
"""


@pytest.fixture(scope="module")
def std_regex_search(tmp_path_factory):
    """Answers of C++ std::regex_search for pairs of expression and name."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler: std::regex cannot be asked")
    folder: Path = tmp_path_factory.mktemp("std_regex")
    source, program = folder / "search.cpp", folder / "search"
    source.write_text(_SEARCH_PROGRAM)
    built = subprocess.run([compiler, "-O0", "-o", program, source], capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"{compiler} does not work: {built.stderr[:200]}")

    def ask(pairs: Sequence[tuple[str, str]]) -> list[str]:
        text = "".join(f"{regex}\t{name}\n" for regex, name in pairs)
        answered = subprocess.run([program], input=text, capture_output=True, check=True, text=True, encoding="utf-8")
        return answered.stdout.split()

    return ask


def test_std_regex_agrees_on_the_table(std_regex_search):
    pairs = [(regex, name) for regex, found, missed in ACCEPTED for name in (*found, *missed)]
    pairs += [(filter_names([one]).include, other) for one in KERNELS for other in KERNELS]
    pairs += [(filter_prefix(one[:-2]).include, other) for one in KERNELS for other in KERNELS]
    expected = ["found" if filter_regex(regex).matches(name) else "missed" for regex, name in pairs]
    assert list(zip(pairs, std_regex_search(pairs), strict=True)) == list(zip(pairs, expected, strict=True))


def test_all_three_engines_agree_on_random_portable_expressions(std_regex_search):
    chance = random.Random(20)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < 4_000:
        regex = "".join(chance.choice(_TOKENS) for _ in range(chance.randint(1, 7)))
        try:
            require_portable_regex(regex)
        except UsageError:
            continue
        names = ("".join(chance.choice("aab_11-A <é.*]") for _ in range(chance.randint(0, 6))) for _ in range(4))
        pairs += [(regex, name) for name in names]
    expected = ["found" if filter_regex(regex, exclude=None).matches(name) else "missed" for regex, name in pairs]
    home_made = ["found" if first_match_regex.is_found(regex, name) else "missed" for regex, name in pairs]
    assert [pair for pair, one, other in zip(pairs, home_made, expected, strict=True) if one != other] == []
    answers = std_regex_search(pairs)
    assert [pair for pair, one, other in zip(pairs, answers, expected, strict=True) if one != other] == []
    assert 400 < expected.count("found") < 3_600


def test_std_regex_reads_what_the_home_made_engine_misreads(std_regex_search):
    known = [case for case in MISREAD if not case[0].startswith("(?i)")]  # ECMAScript has no inline flags
    answers = std_regex_search([(regex, name) for regex, name, _ in known])
    assert answers == ["found" if is_right else "missed" for _, _, is_right in known]
