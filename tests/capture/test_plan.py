"""What a capture will do: its document, its folders, and a script that a shell runs to the same effect."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.environment import EnvironmentDelta, profiling_delta
from rocktools.capture.iterations import parse_iterations
from rocktools.capture.kernel_filter import filter_names
from rocktools.capture.plan import CapturePlan, PlannedPass, plan_pmc, plan_replay, plan_trace, render_plan
from rocktools.capture.rocprofv3 import PmcOptions, TraceKind, TraceOptions
from rocktools.capture.versions import ProfilerTool, SdkVersion
from rocktools.errors import UsageError

TOOL = ProfilerTool(executable="/opt/rocm/bin/rocprofv3", version=SdkVersion(1, 4, 1))
JOB = ("python", "train.py", "--name=it's a test", "")
NOTHING = EnvironmentDelta(added={}, removed=())
GROUPS = (("SQ_WAVES", "GRBM_COUNT"), ("TCC_HIT_sum",))
OPTIONS = PmcOptions(
    counters=(),
    kernels=filter_names(["loop_fusion_3"]),
    iterations=parse_iterations("10-12"),
    has_selected_regions=True,
)
REPLAY_OPTIONS = replace(OPTIONS, iterations=None, has_selected_regions=False)


def trace_passes(environment: EnvironmentDelta = NOTHING, *, job: tuple[str, ...] = JOB) -> tuple[PlannedPass, ...]:
    return plan_trace(TraceOptions(), application=job, environment=environment)


def pmc_passes(environment: EnvironmentDelta = NOTHING, *, label: str = "fabric") -> tuple[PlannedPass, ...]:
    return plan_pmc(
        GROUPS,
        OPTIONS,
        names=["loop_fusion_3"],
        label=label,
        application=JOB,
        environment=environment,
        facts={"groups_confirmed_by": "table"},
    )


def replay_passes(options: PmcOptions = REPLAY_OPTIONS, *, label: str = "fabric") -> tuple[PlannedPass, ...]:
    return plan_replay(
        GROUPS,
        options,
        names=["loop_fusion_3"],
        label=label,
        application=JOB,
        environment=NOTHING,
        facts={"groups_confirmed_by": "table"},
    )


def test_a_trace_is_one_pass_that_must_leave_dispatches():
    [planned] = plan_trace(TraceOptions(kind=TraceKind.KERNEL), application=JOB, environment=NOTHING)
    assert planned.name == "trace"
    assert planned.expectation.kind == "trace"
    assert planned.expectation.counters == ()
    assert planned.facts == {"trace": "kernel", "selected_regions": False}


def test_every_group_is_a_pass_that_must_leave_its_counters():
    first, second = pmc_passes()
    assert (first.name, second.name) == ("pmc/fabric_1", "pmc/fabric_2")
    assert [planned.expectation.counters for planned in (first, second)] == list(GROUPS)
    for planned, group in zip((first, second), GROUPS, strict=True):
        assert planned.expectation.kind == "counters"
        assert planned.expectation.kernels == OPTIONS.kernels
        assert planned.expectation.names == ("loop_fusion_3",)
        assert planned.expectation.iterations == OPTIONS.iterations
        assert planned.options == replace(OPTIONS, counters=group)
        assert planned.facts == {
            "kernels": "kernels named loop_fusion_3",
            "include": "^loop_fusion_3$",
            "exclude": "nccl|rccl|mscclpp",
            "iterations": "10-12",
            "groups_confirmed_by": "table",
            "counters": list(group),
        }


def test_kernel_replay_is_one_pass_for_all_groups():
    [planned] = replay_passes()
    assert planned.name == "pmc/fabric_replay"
    assert planned.expectation.kind == "replay"
    assert planned.expectation.counters == ("SQ_WAVES", "GRBM_COUNT", "TCC_HIT_sum")
    assert planned.expectation.iterations is None
    assert planned.facts["groups"] == [["SQ_WAVES", "GRBM_COUNT"], ["TCC_HIT_sum"]]
    argv = planned.argv(TOOL, Path("/run/x"))
    assert argv.count("--pmc") == 2


@pytest.mark.parametrize(
    "options, what",
    [
        (replace(REPLAY_OPTIONS, iterations=parse_iterations("3")), "iterations"),
        (replace(REPLAY_OPTIONS, has_selected_regions=True), "selected regions"),
    ],
)
def test_kernel_replay_of_a_part_is_refused_not_ignored(options, what):
    with pytest.raises(UsageError, match="replay-of-a-part") as caught:
        replay_passes(options)
    assert what in caught.value.what


@pytest.mark.parametrize("label", ["", "..", ".hidden", "a/b", "../../x", "a b", "a\nb", "-x", "a%pid%", "$HOME", "é"])
@pytest.mark.parametrize("build", [pmc_passes, replay_passes])
def test_a_label_must_be_the_name_of_a_folder(label, build):
    with pytest.raises(UsageError, match="bad-label"):
        build(label=label)


@pytest.mark.parametrize("build", [trace_passes, pmc_passes, replay_passes])
def test_every_attempt_has_folders_of_its_own_inside_the_run(build):
    run = Path("/data/run")
    places = [
        place
        for planned in build()
        for attempt in (1, 2, 3)
        for place in (planned.folder(run, attempt), planned.spill_folder(run, attempt))
    ]
    assert len(set(places)) == len(places)
    assert all(run in place.parents for place in places)
    [first, *_] = build()
    assert first.folder(run, 1) == run / first.name
    assert first.folder(run, 2) == run / first.name / "attempt_2"


def test_the_document_is_plain_json_and_does_not_depend_on_where_the_run_is():
    environment = profiling_delta({}, added={"XLA_FLAGS": "--a=1", "HF_TOKEN": "secret"})
    plan = CapturePlan(tool=TOOL, passes=pmc_passes(environment))
    document = plan.as_document()
    assert json.loads(json.dumps(document)) == document
    assert document == CapturePlan(tool=TOOL, passes=pmc_passes(environment)).as_document()
    assert document["schema"] == "rocktools.plan/1"
    assert document["tool"] == {"executable": "/opt/rocm/bin/rocprofv3", "version": "1.4.1"}
    first = document["passes"][0]
    assert first["name"] == "pmc/fabric_1"
    assert first["counters"] == ["SQ_WAVES", "GRBM_COUNT"]
    assert first["argv"][first["argv"].index("--output-directory") + 1] == "RUN/pmc/fabric_1"
    assert first["environment_added"] == {
        "HF_TOKEN": "[redacted]",
        "ROCPROF_TMPDIR": "RUN/spill/pmc.fabric_1.1",
        "XLA_FLAGS": "--a=1",
    }


@pytest.mark.parametrize(
    "other",
    [
        lambda: plan_trace(TraceOptions(kind=TraceKind.KERNEL), application=JOB, environment=NOTHING),
        lambda: plan_trace(TraceOptions(has_selected_regions=True), application=JOB, environment=NOTHING),
        lambda: plan_trace(TraceOptions(), application=("x",), environment=NOTHING),
        lambda: trace_passes(EnvironmentDelta(added={"A": "1"}, removed=())),
        lambda: (*trace_passes(), *pmc_passes()),
    ],
)
def test_another_capture_has_another_document(other):
    ours = CapturePlan(tool=TOOL, passes=trace_passes()).as_document()
    assert CapturePlan(tool=TOOL, passes=other()).as_document()["passes"] != ours["passes"]


def test_every_pass_is_a_comment_its_folders_and_a_command():
    text = render_plan(CapturePlan(tool=TOOL, passes=(*trace_passes(), *pmc_passes())), Path("/run"), {})
    lines = text.splitlines()
    assert lines[0::3] == ["# pass 1 of 3: trace", "# pass 2 of 3: pmc/fabric_1", "# pass 3 of 3: pmc/fabric_2"]
    assert lines[1] == "mkdir -p -- /run/trace /run/spill/trace.1"
    assert all(line.startswith("env ROCPROF_TMPDIR=") for line in lines[2::3])
    assert text.endswith("\n")


def test_of_a_resumed_capture_only_what_is_left_is_a_command():
    plan = CapturePlan(tool=TOOL, passes=(*trace_passes(), *pmc_passes()))
    text = render_plan(plan, Path("/run"), {}, {"trace": None, "pmc/fabric_1": 3, "pmc/fabric_2": 1})
    lines = text.splitlines()
    assert lines[:3] == [
        "# pass 1 of 3: trace is verified and does not run again",
        "# pass 2 of 3: pmc/fabric_1, attempt 3",
        "mkdir -p -- /run/pmc/fabric_1/attempt_3 /run/spill/pmc.fabric_1.3",
    ]
    assert "ROCPROF_TMPDIR=/run/spill/pmc.fabric_1.3 " in lines[3]
    assert "/run/pmc/fabric_1/attempt_3" in lines[3]
    assert lines[4] == "# pass 3 of 3: pmc/fabric_2"
    assert len(lines) == 7


def test_what_is_redacted_in_the_script_is_said():
    plan = CapturePlan(tool=TOOL, passes=trace_passes(job=("train", "--api_key=s3cret")))
    lines = render_plan(plan, Path("/run"), {}).splitlines()
    assert lines[1] == "# [redacted] stands for what looks like a secret; the job gets it"
    assert "s3cret" not in "".join(lines)
    assert plan.passes[0].argv(TOOL, Path("/run/trace"))[-1] == "--api_key=s3cret"
    assert "s3cret" not in json.dumps(plan.as_document())


def test_every_attempt_dumps_hlo_into_a_folder_of_its_own():
    flags = "--a='x y' --xla_dump_to=/elsewhere/hlo --b=1"
    environment = EnvironmentDelta(added={"XLA_FLAGS": flags}, removed=(), dumps_hlo=True)
    [planned] = trace_passes(environment)
    run = Path("/the run")
    assert planned.variables(run, 1)["XLA_FLAGS"] == "--a='x y' --b=1 --xla_dump_to='/the run/hlo'"
    assert planned.variables(run, 2)["XLA_FLAGS"] == "--a='x y' --b=1 --xla_dump_to='/the run/hlo/attempt_2'"
    assert planned.hlo_folder(run, 2) == run / "hlo" / "attempt_2"
    assert "/elsewhere" not in json.dumps(CapturePlan(tool=TOOL, passes=(planned,)).as_document())


def test_a_folder_for_temporary_files_that_the_user_gave_stays():
    [planned] = trace_passes(EnvironmentDelta(added={"ROCPROF_TMPDIR": "/nvme"}, removed=()))
    assert planned.variables(Path("/run"), 1) == {"ROCPROF_TMPDIR": "/nvme"}


def test_only_variables_that_are_there_are_unset():
    environment = EnvironmentDelta(added={}, removed=("ROCPROF_A", "ROCPROF_B"))
    text = render_plan(CapturePlan(tool=TOOL, passes=trace_passes(environment)), Path("/run"), {"ROCPROF_B": "1"})
    assert "-u ROCPROF_B" in text
    assert "ROCPROF_A" not in text


words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=10)


@given(job=st.lists(words, min_size=1).filter(lambda job: bool(job[0])), value=words, folder=words)
def test_the_rendered_command_splits_into_the_very_arguments(job, value, folder):
    run = Path("/data") / "".join("_" if character in "%{}$/" else character for character in folder)
    [planned] = trace_passes(EnvironmentDelta(added={"NOTE": value}, removed=()), job=tuple(job))
    text = render_plan(CapturePlan(tool=TOOL, passes=(planned,)), run, {})
    command = text.removeprefix("# pass 1 of 1: trace\n")
    spill = str(planned.spill_folder(run, 1))
    folders = ["mkdir", "-p", "--", str(planned.folder(run, 1)), spill]
    expected = [*folders, "env", f"NOTE={value}", f"ROCPROF_TMPDIR={spill}"]
    assert shlex.split(command) == [*expected, *planned.argv(TOOL, planned.folder(run, 1))]


def test_odd_names_of_variables_are_quoted_too():
    environment = EnvironmentDelta(added={"A B;C": "1"}, removed=())
    text = render_plan(CapturePlan(tool=TOOL, passes=trace_passes(environment)), Path("/run"), {})
    assert shlex.split(text.splitlines()[2])[1] == "A B;C=1"


FAKE_TOOL = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["SEEN"], "a") as seen:
    seen.write(json.dumps([sys.argv, dict(os.environ)]) + "\\n")
"""


def test_a_shell_that_runs_the_script_starts_what_the_plan_says(tmp_path):
    """The script is run by /bin/sh with a stand-in for rocprofv3 that writes down its arguments and its environment."""
    fake = tmp_path / "bin of it" / "rocprofv3"
    fake.parent.mkdir()
    fake.write_text(FAKE_TOOL)
    fake.chmod(0o755)
    seen = tmp_path / "seen"
    inherited = {"PATH": os.environ["PATH"], "SEEN": str(seen), "ROCPROF_COUNTERS": "pmc: A", "XLA_FLAGS": "--old=1"}
    awkward = "--a='b' \"c\" $HOME `id` \\ ; # & \n é"
    environment = profiling_delta(inherited, added={"XLA_FLAGS": awkward, "EMPTY": ""})
    tool = replace(TOOL, executable=str(fake))
    run = tmp_path / "the run;x"
    passes = (*trace_passes(environment, job=("a b", "$x", "--", "é;", "", "*")), *pmc_passes(environment))
    script = render_plan(CapturePlan(tool=tool, passes=passes), run, inherited)
    ran = subprocess.run(["/bin/sh", "-eu"], input=script, env=inherited, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    starts = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(starts) == len(passes) == 3
    for planned, (argv, variables) in zip(passes, starts, strict=True):
        assert argv == planned.argv(tool, planned.folder(run, 1))
        assert planned.folder(run, 1).is_dir()
        assert planned.spill_folder(run, 1).is_dir()
        expected = {**planned.environment.apply(inherited), **planned.variables(run, 1)}
        assert "ROCPROF_COUNTERS" not in variables
        assert expected["XLA_FLAGS"] == awkward
        # The shell and Python add variables of their own.
        assert {name: variables.get(name) for name in expected} == expected
        assert set(variables) - set(expected) <= {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
