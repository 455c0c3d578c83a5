"""Command lines of rocprof-compute, read back by parsers made from the option tables of each release."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standins.compute.device import searched_name
from standins.compute.parser import parse_arguments
from standins.compute.profile import read_iterations
from standins.compute.releases import RELEASES as STAND_INS

import rocktools
from rocktools.capture.compute_command import (
    ComputeTool,
    PeaksRequest,
    WorkloadRequest,
    analyze_help_command,
    passes_estimate,
    peaks_command,
    profile_command,
    version_command,
)
from rocktools.capture.compute_versions import KNOWN_VERSIONS, ComputeVersion
from rocktools.capture.iterations import Iterations, parse_iterations
from rocktools.errors import CaptureError, UsageError

PROGRAM = Path("/opt/rocm/bin/rocprof-compute")
PYTHON = Path("/opt/venvs/compute/bin/python")
FOLDER = Path("/data/batch/kernels/k0")
APPLICATION = ("/venv/bin/python", "/data/replay.py", "--iterations", "10", "-k", "--", "-x")
KERNEL = "loop_add_fusion"
SINCE_3_3 = KNOWN_VERSIONS[1:]


def tool_of(name: str, *, python: Path | None = PYTHON) -> ComputeTool:
    major, minor = (int(part) for part in name.split("."))
    return ComputeTool(program=PROGRAM, python=python, version=ComputeVersion(major, minor))


def request_of(**changes) -> WorkloadRequest:
    fields = {"slug": "k0", "folder": FOLDER, "kernel_name": KERNEL, "application": APPLICATION, **changes}
    return WorkloadRequest(**fields)


def read_back(argv: Sequence[str], name: str) -> argparse.Namespace:
    """What the rocprof-compute of a release understands; it exits where it refuses."""
    assert tuple(argv[:2]) == (str(PYTHON), str(PROGRAM))
    return parse_arguments(STAND_INS[name], argv[2:])


def given_options(options: argparse.Namespace) -> dict[str, object]:
    """What was given, of all that could be."""
    return {key: value for key, value in vars(options).items() if value not in (None, False, [])}


@pytest.mark.parametrize("name", SINCE_3_3)
def test_one_kernel_with_everything_asks_for_this_and_for_nothing_else(name):
    command = profile_command(tool_of(name), request_of())
    options = given_options(read_back(command.argv, name))
    expected = {
        "mode": "profile",
        "name": "k0",
        "kernel": ["^loop_add_fusion$" if name in ("3.3", "3.4") else r"^loop_add_fusion$|^loop_add_fusion\.kd$"],
        "no_roof": True,
        "remaining": list(APPLICATION),
    }
    if name in ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8"):
        expected["format_rocprof_output"] = "rocpd"
    assert options == expected
    assert command.cwd == FOLDER
    assert command.files == ()
    assert command.findings == ()


def test_3_0_gets_no_filter_that_it_would_drop_and_says_what_it_counts_instead():
    command = profile_command(tool_of("3.0"), request_of())
    options = given_options(read_back(command.argv, "3.0"))
    assert options == {"mode": "profile", "name": "k0", "no_roof": True, "remaining": list(APPLICATION)}
    (finding,) = command.findings
    assert finding.rule == "compute-kernel-filter-ignored"
    assert KERNEL in finding.message


@pytest.mark.parametrize("name", SINCE_3_3)
@pytest.mark.parametrize(
    "kernel", [KERNEL, "a.b", "void f<int, 3>(float*)", "k$1", "x|y", "a+b [clone]", "-k", "Cijk_(A)", "naïve"]
)
def test_the_filter_finds_exactly_the_kernel_that_is_asked_for(name, kernel):
    command = profile_command(tool_of(name), request_of(kernel_name=kernel))
    (regex,) = read_back(command.argv, name).kernel
    assert re.search(regex, kernel)
    for other in (f"{kernel}_1", f"_{kernel}", kernel[2:], "loop_add_fusion_1", "x", "y", "aXb", "loop_add_fusionXkd"):
        assert re.search(regex, other) is None or other == kernel


@pytest.mark.parametrize("name", KNOWN_VERSIONS[3:])
@pytest.mark.parametrize("kernel", [KERNEL, "Cijk_Alik_Bljk", "triton_mm.1", "void a::f<int>(float*)"])
def test_since_3_5_it_is_found_in_the_text_that_the_tool_of_its_own_searches(name, kernel):
    (regex,) = read_back(profile_command(tool_of(name), request_of(kernel_name=kernel)).argv, name).kernel
    assert re.search(regex, searched_name(kernel))
    for other in (f"{KERNEL}_1", "Cijk_Alik_Bljk_2", "triton_mm.11", "void a::ff<int>(float*)"):
        assert re.search(regex, searched_name(other)) is None


@pytest.mark.parametrize("name", SINCE_3_3)
def test_collectives_are_refused_since_they_would_wait_for_ever(name):
    with pytest.raises(UsageError, match="kernel-is-excluded"):
        profile_command(tool_of(name), request_of(kernel_name="ncclDevKernel_Generic_4"))


ranges = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), min_size=1, max_size=4)


@pytest.mark.parametrize("name", SINCE_3_3)
@settings(max_examples=30)
@given(pairs=ranges)
def test_iterations_mean_the_same_launches_in_every_release(name, pairs):
    iterations = parse_iterations(",".join(f"{first}-{first + more}" for first, more in pairs))
    wanted = {first + step for first, more in pairs for step in range(more + 1)}
    options = read_back(profile_command(tool_of(name), request_of(iterations=iterations)).argv, name)
    if name == "3.10":
        assert options.output_directory is None  # what -d has become there
        texts = [part for word in options.kernel_iteration_range for part in word.split(",")]
    else:
        texts = options.dispatch
    assert read_iterations(texts, STAND_INS[name]) == wanted
    assert options.remaining == list(APPLICATION)


def test_the_third_to_fifth_launch_is_written_in_three_ways():
    iterations = Iterations(((3, 5),))
    written = {}
    for name in ("3.3", "3.5", "3.10"):
        argv = profile_command(tool_of(name), request_of(iterations=iterations)).argv
        written[name] = argv[argv.index("-k") + 2 :][:2]
    assert written == {
        "3.3": ("--dispatch", "2:5"),
        "3.5": ("--dispatch", "3:5"),
        "3.10": ("--kernel-iteration-range", "3:5"),
    }


def test_3_0_refuses_iterations_that_it_would_ignore():
    with pytest.raises(CaptureError, match="compute-iterations-ignored"):
        profile_command(tool_of("3.0"), request_of(iterations=Iterations(((1, 3),))))


@pytest.mark.parametrize("name", SINCE_3_3)
def test_blocks_arrive_and_swallow_nothing(name):
    options = read_back(profile_command(tool_of(name), request_of(blocks=("2", "4.1", "16.1.2"))).argv, name)
    assert options.block == ["2", "4.1", "16.1.2"]
    assert options.no_roof is True
    assert options.remaining == list(APPLICATION)


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("3.0", "TCC", "2"),
        ("3.0", "SQ", "L2"),
        ("3.3", "2", "TCC"),
        ("3.3", "2.1.3", "sol"),
        ("3.4", "sol", "2;4"),
        ("3.10", "17", "-k"),
        ("3.10", "l2", "2 4"),
    ],
)
def test_each_release_has_its_names_of_blocks(name, good, bad):
    assert read_back(profile_command(tool_of(name), request_of(blocks=(good,))).argv, name).block == [good]
    with pytest.raises(UsageError, match="compute-bad-block") as caught:
        profile_command(tool_of(name), request_of(blocks=(bad,)))
    assert repr(bad) in caught.value.what


@pytest.mark.parametrize("name", SINCE_3_3)
def test_a_set_arrives(name):
    options = read_back(profile_command(tool_of(name), request_of(set_name="mem_thruput")).argv, name)
    assert (options.set, options.block) == ("mem_thruput", None)


def test_3_0_has_no_sets():
    with pytest.raises(CaptureError, match="compute-no-sets"):
        profile_command(tool_of("3.0"), request_of(set_name="mem_thruput"))


@pytest.mark.parametrize("name", SINCE_3_3)
def test_a_set_and_blocks_exclude_each_other(name):
    with pytest.raises(UsageError, match="compute-block-and-set"):
        profile_command(tool_of(name), request_of(set_name="mem_thruput", blocks=("2",)))


@pytest.mark.parametrize("name", KNOWN_VERSIONS[3:])
def test_multiplexing_arrives_with_its_mode(name):
    request = request_of(multiplexes=True, launches_count=60)
    options = read_back(profile_command(tool_of(name), request).argv, name)
    assert options.iteration_multiplexing == "kernel"
    assert options.no_roof is True
    assert options.remaining == list(APPLICATION)


@pytest.mark.parametrize("name", KNOWN_VERSIONS[:3])
def test_older_releases_cannot_multiplex(name):
    with pytest.raises(CaptureError, match="compute-no-multiplexing"):
        profile_command(tool_of(name), request_of(multiplexes=True, launches_count=60))


@pytest.mark.parametrize(
    "launches_count, iterations, is_refused",
    [(25, None, False), (24, None, True), (60, Iterations(((1, 10),)), True), (60, Iterations(((1, 25),)), False)],
)
def test_multiplexing_needs_a_launch_for_each_pass_and_some_more(launches_count, iterations, is_refused):
    """Everything on gfx950 is 20 passes, and a quarter more than that is 25 launches."""
    request = request_of(multiplexes=True, launches_count=launches_count, iterations=iterations)
    if not is_refused:
        profile_command(tool_of("3.10"), request)
        return
    with pytest.raises(UsageError, match="compute-too-few-launches") as caught:
        profile_command(tool_of("3.10"), request)
    assert "25" in caught.value.what


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_peaks_are_one_run_of_their_own(name):
    request = PeaksRequest(slug="peaks", folder=FOLDER, application=APPLICATION, device=3)
    command = peaks_command(tool_of(name), request)
    options = given_options(read_back(command.argv, name))
    newer = {"bench_only": True}
    older = {"roof_only": True, "remaining": list(APPLICATION)}
    expected = newer if name in ("3.7", "3.8", "3.9", "3.10") else older
    assert options == {"mode": "profile", "name": "peaks", "device": "0", **expected}
    assert command.variables_set["HIP_VISIBLE_DEVICES"] == "3"


@pytest.mark.parametrize("name", KNOWN_VERSIONS[:5])
def test_older_releases_need_an_application_for_peaks(name):
    with pytest.raises(CaptureError, match="compute-peaks-need-application"):
        peaks_command(tool_of(name), PeaksRequest(slug="peaks", folder=FOLDER))


def test_the_tool_is_started_by_its_python_or_by_itself():
    assert version_command(PROGRAM, PYTHON).argv == (str(PYTHON), str(PROGRAM), "--version")
    assert version_command(PROGRAM, None).argv == (str(PROGRAM), "--version")
    assert analyze_help_command(PROGRAM, None).argv == (str(PROGRAM), "analyze", "--help")
    assert profile_command(tool_of("3.10", python=None), request_of()).argv[:2] == (str(PROGRAM), "profile")


def test_an_application_with_blanks_is_handed_over_by_a_script_of_its_own():
    application = ("/venv/bin/python", "/data/replay.py", "--name", "a b")
    command = profile_command(tool_of("3.3"), request_of(application=application))
    (script,) = command.files
    assert read_back(command.argv, "3.3").remaining == ["/venv/bin/python", str(script.path)]
    peaks = peaks_command(tool_of("3.3"), PeaksRequest(slug="peaks", folder=FOLDER, application=application))
    assert [file.path for file in peaks.files] == [FOLDER / "run-peaks.py"]


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_releases_that_abort_with_shell_scripts_are_told(name):
    command = profile_command(tool_of(name), request_of(application=("/opt/my app/run", "x")))
    told = [finding.rule for finding in command.findings if finding.rule == "compute-shell-script"]
    assert told == (["compute-shell-script"] if name in ("3.5", "3.6") else [])


@pytest.mark.parametrize("slug", ["", "a/b", "..", "a..b", "-n", "a b", ".hidden", "a\n", "%rank%"])
def test_names_that_are_no_plain_words_are_refused(slug):
    with pytest.raises(UsageError, match="compute-bad-name"):
        profile_command(tool_of("3.10"), request_of(slug=slug))


@pytest.mark.parametrize("folder", ["relative", "/data/../x", "/data/a..b", "/data/%rank%/x", "/data/%env{HOME}%"])
def test_folders_that_the_tool_would_refuse_or_replace_are_refused(folder):
    """Releases to 3.4 refuse two dots after they have emptied the folder."""
    with pytest.raises(UsageError, match="compute-bad-folder") as caught:
        profile_command(tool_of("3.3"), request_of(folder=Path(folder)))
    assert caught.value.where == folder


def test_a_plan_gets_the_number_of_runs():
    assert passes_estimate(tool_of("3.3"), request_of()).runs_count == 20
    assert passes_estimate(tool_of("3.10"), request_of(set_name="mem_thruput")).runs_count == 1
    assert passes_estimate(tool_of("3.10"), request_of(multiplexes=True)).runs_count == 1


def test_the_stand_in_feeds_nothing_of_the_code_under_test():
    folder = Path(__file__).parents[1] / "standins" / "compute"
    for path in folder.glob("*.py"):
        assert not re.search(r"^\s*(?:import|from) rocktools", path.read_text(encoding="utf-8"), re.MULTILINE), path
    for path in Path(rocktools.__file__).parent.rglob("*.py"):
        assert "standins" not in path.read_text(encoding="utf-8"), path
