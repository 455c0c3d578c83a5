"""What a rocprofv3 says about itself, and what follows for its options."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.versions import (
    FIRST_KERNEL_REPLAY,
    FIRST_REGIONS_GATE_COUNTERS,
    FIRST_ROCPD,
    ProfilerTool,
    SdkVersion,
    parse_help_options,
    parse_version_text,
)
from rocktools.errors import CaptureError

KEYS = (
    "version",
    "git_revision",
    "library_arch",
    "system_name",
    "system_processor",
    "system_version",
    "compiler_id",
    "compiler_version",
    "rocm_version",
)


def version_text(version: str, rocm_version: str, *, pad: str = " ", **changed: str) -> str:
    values = dict(
        zip(
            KEYS,
            (version, "0f1e2d3", "x86_64-linux-gnu", "Linux", "x86_64", "6.8.0-45", "GNU", "11.4.0", rocm_version),
            strict=True,
        )
    )
    return "".join(f"{key:>18}:{pad}{value}\n" for key, value in {**values, **changed}.items())


@pytest.mark.parametrize(
    "version, rocm_version, expected",
    [
        ("1.0.0", "7.0.0", SdkVersion(1, 0)),
        ("1.1.0", "7.1.0", SdkVersion(1, 1)),
        ("1.3.2", "7.14.0", SdkVersion(1, 3, 2)),
        ("1.4.1", "10.0.1", SdkVersion(1, 4, 1)),
        ("1.10.0", "11.0", SdkVersion(1, 10)),
        ("1.2", "7.13", SdkVersion(1, 2)),
        ("1.3.2-rc1+local.7", "7.14", SdkVersion(1, 3, 2)),
    ],
)
@pytest.mark.parametrize("pad", [" ", "   ", "\t", ""])
def test_nine_lines_give_version_rocm_and_facts(version, rocm_version, expected, pad):
    tool = parse_version_text("/opt/rocm/bin/rocprofv3", version_text(version, rocm_version, pad=pad))
    assert tool.version == expected
    assert tool.rocm_version == rocm_version
    assert tool.executable == "/opt/rocm/bin/rocprofv3"
    assert tuple(key for key, _ in tool.facts) == KEYS


def test_the_versions_of_others_in_the_text_are_not_taken():
    text = version_text("1.3.2", "7.14.0")
    lines = text.splitlines(keepends=True)
    assert parse_version_text("x", "".join(reversed(lines))).version == SdkVersion(1, 3, 2)


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("version", "rocm_version")])
def test_an_empty_line_does_not_swallow_the_next(key):
    tool = parse_version_text("x", version_text("1.3.2", "7.14.0", **{key: ""}))
    assert tuple(name for name, _ in tool.facts) == tuple(name for name in KEYS if name != key)
    assert tool.rocm_version == "7.14.0"


def test_a_tool_without_its_rocm_has_none():
    tool = parse_version_text("x", version_text("1.3.2", ""))
    assert tool.rocm_version is None


@pytest.mark.parametrize("text", ["0.5.0", "0.5.0\n", "v0.6.0", "rocprofv3 0.6.0", "rocprofv3 version: 0.6.0\n"])
def test_one_number_is_a_version(text):
    assert parse_version_text("x", text).version in (SdkVersion(0, 5), SdkVersion(0, 6))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "no version here",
        "version: unknown",
        "version: 3",
        "version 3",
        "usage: rocprofv3 [-h]\nrocprofv3: error: unrecognized arguments: --version (python 3.11)",
        "Traceback (most recent call last):\n  File 'rocprofv3.py', line 10.2\n",
        version_text("", "7.14.0"),
        version_text("unknown", "7.14.0"),
    ],
)
def test_a_text_without_a_version_is_a_named_failure(text):
    with pytest.raises(CaptureError, match="tool-version-unknown") as caught:
        parse_version_text("/opt/rocm/bin/rocprofv3", text)
    assert caught.value.where == "/opt/rocm/bin/rocprofv3"
    assert "--version` by hand" in (caught.value.hint or "")


@given(text=st.text(max_size=200))
def test_any_text_ends_in_a_tool_or_a_named_failure(text):
    with contextlib.suppress(CaptureError):
        assert parse_version_text("x", text).version >= SdkVersion(0, 0)


@given(
    numbers=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    others=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
)
def test_versions_are_ordered_as_numbers_and_read_back(numbers, others):
    assert (SdkVersion(*numbers) < SdkVersion(*others)) == (numbers < others)
    assert parse_version_text("x", version_text(str(SdkVersion(*numbers)), "7")).version == SdkVersion(*numbers)


HELP = """\
usage: rocprofv3 [-h] [-v] [-i INPUT] [-o OUTPUT_FILE] [--pmc [PMC ...]]

  -h, --help            show this help message and exit
  -r [BOOL], --runtime-trace [BOOL]
                        Shortcut for --hip-runtime-trace, (and others). Use
                        -- before the application
  --kernel-include-regex KERNEL_INCLUDE_REGEX
                        Include the kernels that match, e.g. x--y or a--pmcish
  --selected-regions [SELECTED_REGIONS]
  --kernel-iteration-range=RANGE, not --UPPER
"""


def test_long_options_are_read_from_a_help_text():
    assert parse_help_options(HELP) == {
        "--help",
        "--pmc",
        "--runtime-trace",
        "--hip-runtime-trace",
        "--kernel-include-regex",
        "--selected-regions",
        "--kernel-iteration-range",
    }


def test_a_help_text_without_options_gives_none():
    assert parse_help_options("") == frozenset()


def tool_of(version: SdkVersion, *options: str) -> ProfilerTool:
    return ProfilerTool(executable="/opt/rocm/bin/rocprofv3", version=version, options=frozenset(options))


# Capability -> first version by the reference, and the version just before.
GATES = (
    (FIRST_ROCPD, SdkVersion(1, 0, 0), SdkVersion(0, 6, 9)),
    (FIRST_REGIONS_GATE_COUNTERS, SdkVersion(1, 3, 0), SdkVersion(1, 2, 9)),
    (FIRST_KERNEL_REPLAY, SdkVersion(1, 4, 1), SdkVersion(1, 4, 0)),
)


@pytest.mark.parametrize("gate, first, before", GATES)
def test_without_a_help_text_the_version_decides(gate, first, before):
    assert gate == first
    assert tool_of(first).require("--new", since=gate, purpose="it") == "--new"
    with pytest.raises(CaptureError, match="tool-lacks-option") as caught:
        tool_of(before).require("--new", since=gate, purpose="this thing")
    assert "this thing needs --new" in caught.value.what
    assert str(before) in caught.value.what
    assert str(first) in (caught.value.hint or "")
    assert caught.value.where == "/opt/rocm/bin/rocprofv3"


def test_a_help_text_outweighs_the_version_in_both_directions():
    old_with_option, new_without = tool_of(SdkVersion(0, 1), "--new"), tool_of(SdkVersion(9, 0), "--other")
    assert old_with_option.require("--new", since=SdkVersion(1, 0), purpose="it") == "--new"
    with pytest.raises(CaptureError, match="tool-lacks-option"):
        new_without.require("--new", since=SdkVersion(1, 0), purpose="it")
