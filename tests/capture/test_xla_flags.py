"""XLA_FLAGS: read as XLA reads it, merged without changing what others set, and checked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocktools.capture.xla_flags import (
    XlaFlag,
    attribution_environment,
    attribution_flags,
    check_xla_flags,
    has_command_buffers,
    merge_xla_flags,
    parse_xla_flags,
    render_xla_flags,
)
from rocktools.errors import UsageError
from rocktools.findings import Severity

OFF = "--xla_gpu_enable_command_buffer="

names = st.text("abcxyz_-0189", min_size=1, max_size=8).filter(lambda name: not name.startswith("-"))
# No NUL: an environment variable cannot hold one. Much of what matters: blanks, quotes, backslashes, dashes, =.
values = st.text(st.sampled_from(" \t\r\n'\"\\-=,.+ax\u00e9\u2028"), max_size=12)
wanted_flags = st.dictionaries(names, st.none() | values, max_size=4)
flags = st.builds(lambda name, value: XlaFlag(name=name, value=value), names, st.none() | values)
any_text = st.text(st.sampled_from(" \t\n'\"\\-=ab_."), max_size=30)


def pairs(text: str) -> list[tuple[str, str | None]]:
    return [(flag.dashes + flag.name, flag.value) for flag in parse_xla_flags(text).flags]


# Reading


@pytest.mark.parametrize(
    "text, expected, unread",
    [
        ("", [], ""),
        ("--a", [("--a", None)], ""),
        (" \t--a=b\n--c= \r\n", [("--a", "b"), ("--c", "")], ""),
        ("--a=''", [("--a", "")], ""),
        ("--a='b c' --d", [("--a", "b c"), ("--d", None)], ""),
        ('--a="b \'c\' \\"d\\" \\\\ \\e"', [("--a", "b 'c' \"d\" \\ e")], ""),
        ("--a='b \\'", [("--a", "b \\")], ""),
        ("--a=b'c'\"d", [("--a", "b'c'\"d")], ""),  # quotes elsewhere are part of the value
        ("--a=b=c", [("--a", "b=c")], ""),
        ("--a='b'--c", [("--a", "b"), ("--c", None)], ""),
        ("--a='b c", [("--a", "b c")], ""),  # not closed: the rest
        ("--a=b'c d'", [("--a", "b'c")], "d'"),
        ("--a b --c", [("--a", None)], "b --c"),
        ("--a='b'c --d", [("--a", "b")], "c --d"),
        ("-a --b", [("-a", None), ("--b", None)], ""),
        ("--a.b='c'", [("--a.b", "'c'")], ""),  # quoting needs a plain name
        ("--a=x\u00a0y", [("--a", "x\u00a0y")], ""),  # only ASCII blanks separate
        ("--", [("--", None)], ""),
    ],
)
def test_text_is_read_as_xla_reads_it(text, expected, unread):
    assert pairs(text) == expected
    assert parse_xla_flags(text).unread == unread


@given(st.lists(flags, max_size=6))
def test_written_flags_are_read_back(found):
    parsed = parse_xla_flags(render_xla_flags(found))
    assert [(flag.name, flag.value) for flag in parsed.flags] == [(flag.name, flag.value) for flag in found]
    assert parsed.unread == ""


@given(any_text)
@example("--a='")
@example('--a="\\')
@example("-\\='")
def test_any_text_is_read_and_writing_it_again_changes_nothing(text):
    parsed = parse_xla_flags(text)
    assert text.endswith(parsed.unread)
    assert pairs(render_xla_flags(parsed.flags)) == pairs(text)


def test_empty_value_is_never_written_with_quotes():
    assert render_xla_flags([XlaFlag(name="a", value="", quote="'")]) == "--a="


# Merging


@given(st.lists(flags, max_size=6), wanted_flags)
def test_merge_sets_what_is_wanted_and_keeps_the_rest_in_order(old, wanted):
    merged = parse_xla_flags(merge_xla_flags(render_xla_flags(old), wanted)).flags
    kept = [(flag.name, flag.value) for flag in old if flag.name not in wanted]
    assert [(flag.name, flag.value) for flag in merged] == [*kept, *wanted.items()]


@given(st.lists(flags, max_size=6), wanted_flags)
def test_merging_twice_is_merging_once(old, wanted):
    once = merge_xla_flags(render_xla_flags(old), wanted)
    assert merge_xla_flags(once, wanted) == once


@pytest.mark.parametrize("old", [None, "", " \t"])
def test_merge_into_nothing_is_what_is_wanted(old):
    """Blanks alone, which XLA would take for a file name, do not stay."""
    assert merge_xla_flags(old, {"a": "", "b": None}) == "--a= --b"


def test_repeats_of_other_flags_stay_for_some_of_them_are_lists():
    old = "--xla_disable_hlo_passes=x --a=1 --xla_disable_hlo_passes=y --a=2"
    assert merge_xla_flags(old, {"a": "3"}) == "--xla_disable_hlo_passes=x --xla_disable_hlo_passes=y --a=3"


@pytest.mark.parametrize("quoted", ["''", '""', "'FUSION'", ""])
def test_command_buffers_are_off_without_quotes_whatever_was_there(quoted):
    assert merge_xla_flags(f"{OFF}{quoted} --b", {"xla_gpu_enable_command_buffer": ""}) == f"--b {OFF}"


@pytest.mark.parametrize(
    "old, reference, part",
    [
        ("/etc/flags", "xla-flags-file", "'/etc/flags'"),
        ("--a b --c", "xla-flags-unread", "'b --c'"),
        ("'--a=b'", "xla-flags-file", "name of a file"),
    ],
)
def test_text_that_xla_would_not_read_to_its_end_is_refused(old, reference, part):
    with pytest.raises(UsageError, match=part) as caught:
        merge_xla_flags(old, {"a": ""})
    assert caught.value.reference == reference
    assert caught.value.where == "environment: XLA_FLAGS"
    assert caught.value.hint


@pytest.mark.parametrize("name, value", [("--a", "b"), ("", "b"), ("a b", "c"), ("a=b", "c"), ("a", "\0")])
def test_flags_that_cannot_be_written_are_refused(name, value):
    with pytest.raises(UsageError, match="cannot be written"):
        merge_xla_flags("", {name: value})


# Attribution


def test_attribution_flags_turn_command_buffers_off_and_dump():
    text = merge_xla_flags("--xla_gpu_autotune_level=4 --xla_dump_hlo_pass_re=.*", attribution_flags("/runs/a b/hlo"))
    assert text == (
        f"--xla_gpu_autotune_level=4 {OFF} --xla_dump_to='/runs/a b/hlo' --xla_dump_hlo_as_text=true "
        "--xla_dump_hlo_as_proto=true --xla_dump_hlo_pass_re="
    )


def test_relative_dump_folder_is_refused():
    with pytest.raises(UsageError, match="must be an absolute path"):
        attribution_flags("hlo")


@pytest.mark.parametrize("old", [None, "", "--a=b", f"{OFF}FUSION", f"{OFF}'' --xla_dump_to=/tmp/x"])
def test_attribution_environment_passes_its_own_check(old):
    env = {} if old is None else {"XLA_FLAGS": old}
    env = {**env, "JAX_COMPILATION_CACHE_DIR": "/cache"}
    assert check_xla_flags({**env, **attribution_environment(env, "/runs/1/hlo")}) == []


@pytest.mark.parametrize(
    "text, is_on",
    [
        ("", True),
        (OFF, False),
        (f"{OFF}''", False),
        (f"{OFF}FUSION,CUBLAS", True),
        (f"{OFF} {OFF}FUSION", True),
        (f"{OFF}FUSION {OFF}", False),
        (f"{OFF} {OFF}+FUSION", True),
        (f"{OFF} {OFF}-FUSION", False),
        (f"{OFF}-FUSION", True),
        (f"{OFF} {OFF},", False),
        ("--a", True),
    ],
)
def test_whether_command_buffers_are_on(text, is_on):
    assert has_command_buffers(parse_xla_flags(text).flags) is is_on


# Checking


def rules(text: str, **env: str) -> list[tuple[str, Severity]]:
    """What is found in flags that are otherwise right."""
    findings = check_xla_flags({"XLA_FLAGS": text, "JAX_ENABLE_COMPILATION_CACHE": "false", **env})
    return [(finding.rule, finding.severity) for finding in findings]


RIGHT = f"{OFF} --xla_dump_to=/d"


@pytest.mark.parametrize(
    "text, expected",
    [
        (RIGHT, []),
        (f"{RIGHT} --a='b c'", []),  # these quotes are needed
        (f'{RIGHT} --a="b c"', []),
        (f"{OFF}'' --xla_dump_to=/d", [("xla-flags-quotes", Severity.WARNING)]),
        (f'{RIGHT} --a="b"', [("xla-flags-quotes", Severity.WARNING)]),
        (f"{RIGHT} --a=\"''\"", [("xla-flags-quotes", Severity.FAULT)]),
        (f"{RIGHT} --a=b''", [("xla-flags-quotes", Severity.FAULT)]),
        (f"{RIGHT} --a='b", [("xla-flags-quotes", Severity.FAULT)]),
        (f"{RIGHT} --a b", [("xla-flags-unread", Severity.FAULT)]),
        (f"{RIGHT} -a", [("xla-flags-unknown", Severity.FAULT)]),
        (f"{RIGHT} --", [("xla-flags-unknown", Severity.FAULT)]),
        (f"{RIGHT} --a=1 --a=1", []),
        (f"{RIGHT} --a=1 --a=2", [("xla-flags-repeated", Severity.NOTE)]),
        (f"{RIGHT} --xla_dump_hlo_pass_re=.*", [("xla-dump-passes", Severity.NOTE)]),
        ("--xla_dump_to=/d", [("xla-command-buffers-on", Severity.FAULT)]),
        (OFF, [("xla-dump-off", Severity.WARNING)]),
        ("/etc/flags", [("xla-flags-file", Severity.WARNING)]),
        ("  ", [("xla-flags-blank", Severity.FAULT)]),
        (f"'{RIGHT}'", [("xla-flags-quotes", Severity.FAULT)]),
    ],
)
def test_each_mistake_is_found(text, expected):
    assert rules(text) == expected


def test_advice_for_quotes_is_the_flag_as_it_should_be():
    (finding,) = check_xla_flags({"XLA_FLAGS": f"{OFF}''"}, is_attribution=False)
    assert finding.advice == f"write {OFF}"
    (finding,) = check_xla_flags({"XLA_FLAGS": f"{OFF}\"''\""}, is_attribution=False)
    assert finding.advice == f"write {OFF}"
    assert "reaches XLA as \"''\"" in finding.message


def test_throughput_run_keeps_its_command_buffers_and_needs_no_dump():
    assert check_xla_flags({}, is_attribution=False) == []
    assert [finding.rule for finding in check_xla_flags({})] == ["xla-command-buffers-on", "xla-dump-off"]


@pytest.mark.parametrize(
    "env, severity",
    [
        ({}, Severity.NOTE),
        ({"JAX_COMPILATION_CACHE_DIR": "/cache"}, Severity.WARNING),
        ({"JAX_COMPILATION_CACHE_DIR": "/cache", "JAX_ENABLE_COMPILATION_CACHE": "true"}, Severity.WARNING),
    ],
)
def test_dump_behind_a_compilation_cache_is_found(env, severity):
    (finding,) = check_xla_flags({"XLA_FLAGS": RIGHT, **env})
    assert (finding.rule, finding.severity) == ("xla-dump-behind-cache", severity)
    assert "JAX_ENABLE_COMPILATION_CACHE=false" in finding.advice


@given(any_text)
def test_check_finds_no_fault_in_what_merge_writes(text):
    try:
        merged = merge_xla_flags(text, attribution_flags("/runs/1/hlo"))
    except UsageError:
        return
    found = check_xla_flags({"XLA_FLAGS": merged, "JAX_ENABLE_COMPILATION_CACHE": "0"})
    of_others = {"xla-flags-quotes", "xla-flags-unknown", "xla-flags-repeated"}  # what the user wrote stays as it is
    assert {finding.rule for finding in found} <= of_others


# Against XLA itself


def run_jax(flags: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    script = "import jax; jax.jit(lambda x: x + 1)(1.0)"
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["plain", "a b", "it's", "'q'", "\"q\" 'r'", "back\\slash", "b\\ 'c\\\" d", "x\ny"])
def test_xla_itself_reads_what_merge_writes(name, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: XLA's own reader is not asked")
    folder = tmp_path / name
    ran = run_jax(merge_xla_flags(f"{OFF}'' --xla_dump_to=/nowhere", attribution_flags(folder)))
    assert ran.returncode == 0, ran.stderr
    assert list(folder.glob("*.before_optimizations.txt"))
    assert list(folder.glob("*.hlo.pb"))


@pytest.mark.parametrize(
    "text, code, has_dump",
    [
        (f"{OFF}'' --xla_dump_to=DUMP", 0, True),
        (f"{OFF}\"''\" --xla_dump_to=DUMP", 1, False),
        (f"{OFF} junk --xla_dump_to=DUMP", 0, False),
        ("  ", 1, False),
        ("'--xla_dump_to=DUMP'", 1, False),
        (f"{OFF} -xla_dump_to=DUMP", 1, False),
        ("--xla_dump_to='DUMP", 0, True),
    ],
)
def test_xla_itself_does_what_the_findings_say(text, code, has_dump, tmp_path):
    pytest.importorskip("jax", reason="jax is not installed: XLA's own reader is not asked")
    ran = run_jax(text.replace("DUMP", str(tmp_path / "dump")))
    assert (ran.returncode, (tmp_path / "dump").exists()) == (code, has_dump), ran.stderr
