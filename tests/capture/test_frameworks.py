"""The profiler flags of MaxText and Levanter, read back as the frameworks read them."""

from __future__ import annotations

import shlex
import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.frameworks import (
    FRAMEWORKS,
    framework_flags,
    framework_off_flags,
    render_framework_flags,
    render_shell_line,
)
from rocktools.errors import UsageError

paths = st.text(string.ascii_letters + string.digits + string.punctuation + " é", min_size=1, max_size=20)


def read_maxtext(argv: list[str]) -> dict[str, object]:
    """As OmegaConf reads a command line: split at the first `=`, the value as YAML."""
    return {key: yaml.safe_load(value) for key, value in (argument.split("=", 1) for argument in argv)}


def read_levanter(argv: list[str]) -> dict[str, object]:
    """Pairs of option and value, the value as YAML."""
    names, values = argv[::2], argv[1::2]
    assert all(name.startswith("--trainer.") for name in names)
    return {name.removeprefix("--trainer."): yaml.safe_load(value) for name, value in zip(names, values, strict=True)}


READERS = {"maxtext": read_maxtext, "levanter": read_levanter}
FOLDER_KEYS = {"maxtext": "base_output_directory", "levanter": "log_dir"}


def argv_of(framework: str, *, first: int = 10, last: int = 12, log_dir: str = "/runs/1/xspace") -> list[str]:
    return [
        argument
        for flag in framework_flags(framework, first=first, last=last, log_dir=log_dir)
        for argument in flag.argv
    ]


def test_maxtext_profiles_steps_10_to_12_as_the_first_source_document_does():
    assert read_maxtext(argv_of("maxtext")) == {
        "profiler": "xplane",
        "skip_first_n_steps_for_profiler": 10,
        "profiler_steps": 3,
        "profile_cleanly": True,
        "steps": 14,
        "upload_all_profiler_results": True,
        "dump_hlo": False,
        "base_output_directory": "/runs/1/xspace",
    }


def test_levanter_profiles_with_hlo_and_without_python_calls_or_uploads():
    assert read_levanter(argv_of("levanter", first=3, last=4)) == {
        "profiler.enabled": True,
        "profiler.start_step": 3,
        "profiler.num_steps": 2,
        "profiler.perfetto_link": False,
        "profiler.profile_options.host_tracer_level": 1,
        "profiler.profile_options.python_tracer_level": 0,
        "profiler.profile_options.enable_hlo_proto": True,
        "profiler.upload.enabled": False,
        "log_dir": "/runs/1/xspace",
    }


def test_maxtext_profiler_is_off_as_an_empty_string_and_not_as_null():
    (flag,) = framework_off_flags("maxtext")
    assert read_maxtext(list(flag.argv)) == {"profiler": ""}
    assert yaml.safe_load("") is None  # what a bare profiler= would be
    assert render_shell_line([flag]) == "'profiler=\"\"'"


def test_levanter_profiler_is_off():
    (flag,) = framework_off_flags("levanter")
    assert read_levanter(list(flag.argv)) == {"profiler.enabled": False}


@given(st.sampled_from(FRAMEWORKS), paths)
def test_folder_survives_the_shell_and_the_framework(framework, folder):
    flags = framework_flags(framework, first=2, last=2, log_dir=folder)
    assert READERS[framework](shlex.split(render_shell_line(flags)))[FOLDER_KEYS[framework]] == folder


@pytest.mark.parametrize("folder", ["true", "12", "1e3", "null", "~", "a: b", "a #b", "it's", "[a]", "gs://bucket/x"])
def test_folder_that_yaml_would_take_for_something_else_stays_text(folder):
    assert read_maxtext(argv_of("maxtext", log_dir=folder))["base_output_directory"] == folder


def test_text_names_each_flag_its_meaning_and_its_source():
    flags = framework_flags("maxtext", first=10, last=12, log_dir="/runs/a b")
    lines = render_framework_flags(flags).splitlines()
    blank = lines.index("")
    command, notes = "\n".join(lines[:blank]).replace("\\\n", ""), lines[blank + 1 :]
    assert shlex.split(command) == [word for flag in flags for word in flag.argv]
    assert len(notes) == 3 * len(flags)
    assert notes[3] == "# skip_first_n_steps_for_profiler=10"
    assert notes[4].startswith("#     begin at step 10")
    assert all(line.startswith("#     [") and line.endswith("]") for line in notes[2::3])
    assert notes[-3] == "# 'base_output_directory=\"/runs/a b\"'"


@pytest.mark.parametrize(
    "framework, first, last, folder, message",
    [
        ("maxtext", 5, 4, "/d", "are 5 to 4"),
        ("levanter", 1, 4, "/d", "cannot begin at step 1"),
        ("maxtext", 5, 6, "/a\nb", "characters that YAML cannot"),
        ("torchtitan", 5, 6, "/d", "'torchtitan', only for maxtext and levanter"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(framework, first, last, folder, message):
    with pytest.raises(UsageError, match=message):
        framework_flags(framework, first=first, last=last, log_dir=folder)


def test_misspelt_framework_gets_the_right_name():
    with pytest.raises(UsageError) as caught:
        framework_off_flags("MaxTex")
    assert caught.value.hint == "maxtext"
