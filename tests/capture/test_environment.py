"""What a profiled job inherits, what it gets on top, and what may be written down about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.environment import (
    EnvironmentDelta,
    is_recorded,
    is_scrubbed,
    profiling_delta,
    recorded_environment,
    redact,
    redact_argv,
    redact_text,
)
from rocktools.capture.host import Access, HostFacts
from rocktools.capture.plan import CapturePlan, plan_trace, render_plan
from rocktools.capture.rocprofv3 import TraceOptions
from rocktools.capture.survey import Survey
from rocktools.capture.versions import ProfilerTool, SdkVersion

SCRUBBED = (
    "ROCPROF_OUTPUT_FORMAT",
    "ROCPROF_COUNTERS",
    "ROCPROF_KERNEL_TRACE",
    "ROCPROF_TMPDIR",
    "ROCPROFILER_LIBRARY_CTOR",
    "ROCPROFILER_METRICS_PATH",
    "ROCP_TOOL_LIBRARIES",
    "ROCP_TOOL_ATTACH",
    "ROCTX_LOG_LEVEL",
    "KOKKOS_TOOLS_LIBS",
    "HSA_TOOLS_LIB",
)
KEPT = (
    "PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "XLA_FLAGS",
    "HSA_ENABLE_SDMA",
    "ROCR_VISIBLE_DEVICES",
    "ROCM_PATH",
    "HIP_VISIBLE_DEVICES",
    "MY_ROCPROF_NOTES",
    "KOKKOS_TOOLS_LIBS_OF_MINE",
)
SECRET_NAMES = (
    "HF_TOKEN",
    "WANDB_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_PAT",
    "PGPASSWORD",
    "DB_PASSWD",
    "DB_PWD",
    "SSH_PRIVATE_KEY_FILE",
    "OPENAI_KEY",
    "ENCRYPTION_KEYS",
    "SENTRY_DSN",
    "BASIC_AUTH",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "api_key",
    "apiKey",
    "JAX_COORDINATOR_TOKEN",
    "XLA_SECRET",
    "NCCL_AUTH",
    "HIP_PASSPHRASE",
)
OPEN_NAMES = ("XLA_FLAGS", "JAX_PLATFORMS", "HIP_VISIBLE_DEVICES", "NCCL_DEBUG", "LD_LIBRARY_PATH", "KEYBOARD", "PATH")
SECRET = "s3cr3t-v4lue"


@pytest.mark.parametrize("name", SCRUBBED)
def test_variables_of_profilers_are_taken_out(name):
    assert is_scrubbed(name)
    delta = profiling_delta({name: "1", "PATH": "/bin"})
    assert delta.removed == (name,)
    assert delta.apply({name: "1", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", KEPT)
def test_other_variables_stay(name):
    assert not is_scrubbed(name)
    assert profiling_delta({name: "1"}).apply({name: "1"}) == {name: "1"}


def test_what_is_added_wins_over_what_is_inherited_and_taken_out():
    inherited = {"ROCPROF_LOG_LEVEL": "trace", "XLA_FLAGS": "--a=1", "HOME": "/h"}
    delta = profiling_delta(inherited, added={"ROCPROF_LOG_LEVEL": "info", "XLA_FLAGS": "--b=2"})
    assert delta.removed == ("ROCPROF_LOG_LEVEL",)
    assert delta.apply(inherited) == {"ROCPROF_LOG_LEVEL": "info", "XLA_FLAGS": "--b=2", "HOME": "/h"}


names = st.one_of(st.sampled_from(SCRUBBED + KEPT), st.text("ABROCPF_", min_size=1, max_size=12))


@given(inherited=st.dictionaries(names, st.text(max_size=4)), added=st.dictionaries(names, st.text(max_size=4)))
def test_the_job_gets_what_is_kept_and_what_is_added_and_our_own_is_untouched(inherited, added):
    before = dict(inherited)
    delta = profiling_delta(inherited, added=added)
    got = delta.apply(inherited)
    assert got == {**{name: value for name, value in inherited.items() if not is_scrubbed(name)}, **added}
    assert inherited == before
    assert list(delta.removed) == sorted(delta.removed)


def test_a_delta_may_be_applied_to_an_environment_without_what_it_removes():
    assert EnvironmentDelta(added={"A": "1"}, removed=("B",)).apply({"C": "2"}) == {"C": "2", "A": "1"}


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_values_of_secret_names_are_redacted(name):
    assert redact({name: SECRET}) == {name: "[redacted]"}


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_other_values_are_not_redacted(name):
    assert redact({name: SECRET}) == {name: SECRET}


@pytest.mark.parametrize(
    "value, shown",
    [
        ("https://user:pw@example.org/x", "https://[redacted]@example.org/x"),
        ("https://ghp_secret@github.com", "https://[redacted]@github.com"),
        ("https://user:p@w@example.org/x", "https://[redacted]@example.org/x"),
        ("https://example.org?mail=a@b", "https://example.org?mail=a@b"),
        ("a=redis://:pw@h:1,b=s3://u:v@h", "a=redis://[redacted]@h:1,b=s3://[redacted]@h"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
        ("gs://bucket/user:1@2", "gs://bucket/user:1@2"),
    ],
)
def test_passwords_in_addresses_are_redacted(value, shown):
    assert redact({"JAX_COMPILATION_CACHE_DIR": value}) == {"JAX_COMPILATION_CACHE_DIR": shown}


@pytest.mark.parametrize(
    "argv, shown",
    [
        (["--env", f"WANDB_API_KEY={SECRET}"], ["--env", "WANDB_API_KEY=[redacted]"]),
        ([f"--env=WANDB_API_KEY={SECRET} {SECRET}"], ["--env=WANDB_API_KEY=[redacted]"]),
        ([f"--api_key={SECRET}", "x"], ["--api_key=[redacted]", "x"]),
        (["--hf-token", SECRET, "--steps", "5"], ["--hf-token", "[redacted]", "--steps", "5"]),
        ([f"wandb.key={SECRET}"], ["wandb.key=[redacted]"]),
        ([f"https://{SECRET}@github.com/x"], ["https://[redacted]@github.com/x"]),
        ([f"--url=https://h/x?token={SECRET}"], ["--url=https://h/x?token=[redacted]"]),
        (["sh", "-c", f"HF_TOKEN={SECRET} train"], ["sh", "-c", "HF_TOKEN=[redacted]"]),
        (["sh", "-c", f"cd x && train --token {SECRET} --b"], ["sh", "-c", "cd x && train --token [redacted] --b"]),
        (["-H", f"Authorization: Bearer {SECRET}"], ["-H", "Authorization: [redacted]"]),
        ([f'{{"steps": 5, "api_key": "{SECRET}"}}'], ['{"steps": 5, "api_key": [redacted]']),
    ],
)
def test_secrets_in_command_lines_are_redacted(argv, shown):
    assert redact_argv(argv) == shown
    assert redact_text(" ".join(argv)).count(SECRET) == 0


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "train.py", "tokenizer_path=assets/tokenizer.llama3", "steps=14"],
        ["--max_tokens", "2048", "num_tokens=1e6", "--author=me"],
        ["--use-auth", "--steps", "5"],
        ["--token=", "--token"],
        ["rocprofv3", "--runtime-trace", "--output-directory", "/run/trace", "--", "python", "-c", "x = 5; y: 6"],
        ["", "-", "--", "a b", "=", "==", ": "],
        ["x" * 100_000, "-" * 100_000],
    ],
)
def test_other_arguments_are_not_redacted(argv):
    assert redact_argv(argv) == argv


@given(st.lists(st.text("ab=-: \"'@/.KEY", max_size=12)))
def test_every_argument_stays_one_argument(argv):
    shown = redact_argv(argv)
    assert len(shown) == len(argv)
    assert redact_argv(shown) == shown


def test_settings_inside_a_variable_are_redacted_too():
    assert redact({"TRAIN_ARGS": f"--steps=5 --api_key={SECRET} --b=1"}) == {
        "TRAIN_ARGS": "--steps=5 --api_key=[redacted] --b=1"
    }


def test_redacted_variables_are_sorted():
    assert list(redact({"B": "", "A": "", "C": ""})) == ["A", "B", "C"]


def test_only_what_steers_the_run_is_recorded():
    inherited = dict.fromkeys(("XLA_FLAGS", "JAX_PLATFORMS", "NCCL_DEBUG", "RANK", "HOME", "USER", "MAIL"), "x")
    assert sorted(recorded_environment(inherited)) == ["JAX_PLATFORMS", "NCCL_DEBUG", "RANK", "XLA_FLAGS"]
    assert not is_recorded("XDG_SESSION_ID")


def survey() -> Survey:
    host = HostFacts(
        hostname="h",
        kernel_release="6.8",
        driver_version=None,
        kfd=Access.USABLE,
        gpus=(),
        has_perfmon=None,
        perf_event_paranoid=None,
        free_bytes={},
        rocm_roots=(),
        comgr_paths=(),
        performance_levels=(),
    )
    return Survey(tool=None, avail=None, host=host, checks=(), packages={})


def test_planted_secrets_are_in_no_plan_no_script_and_no_manifest():
    inherited = {name: f"{SECRET}-{name}" for name in SECRET_NAMES}
    inherited |= {"ROCPROF_OUTPUT_PATH": SECRET, "HOME": SECRET, "JAX_TRACEBACK_FILTERING": f"http://u:{SECRET}@h"}
    added = {name: f"{SECRET}-{name}" for name in SECRET_NAMES[::2]}
    delta = profiling_delta(inherited, added=added)
    job = ("python", "train.py", f"--api_key={SECRET}", "--token", SECRET, f"https://{SECRET}@h/data")
    passes = plan_trace(TraceOptions(), application=job, environment=delta)
    plan = CapturePlan(tool=ProfilerTool(executable="rocprofv3", version=SdkVersion(1, 3, 2)), passes=passes)
    texts = (
        render_plan(plan, Path("/run"), inherited),
        json.dumps(plan.as_document()),
        json.dumps(survey().as_facts(inherited, Path("/work dir"))),
        json.dumps(recorded_environment(delta.apply(inherited))),
    )
    for text in texts:
        assert SECRET not in text
    assert all(name in texts[0] for name in added)
