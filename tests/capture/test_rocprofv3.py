"""Command lines of the ROCm tools, read back by parsers made from the reference."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins.avail import _build_parser as build_avail_parser  # the parsers are what these tests need of the stand-ins
from standins.filters import parse_iterations as iterations_as_the_tool
from standins.parser import build_parser, split_application
from standins.rocpd_tool import _build_parser as build_rocpd_parser
from standins.versions import RELEASES

from rocktools.capture.iterations import parse_iterations
from rocktools.capture.kernel_filter import COLLECTIVE_KERNELS, KernelFilter, filter_names, filter_prefix, filter_regex
from rocktools.capture.rocprofv3 import (
    PmcOptions,
    TraceKind,
    TraceOptions,
    avail_info_argv,
    avail_list_argv,
    convert_argv,
    pmc_argv,
    pmc_check_argv,
    replay_argv,
    trace_argv,
)
from rocktools.capture.versions import ProfilerTool, SdkVersion, parse_help_options
from rocktools.cli.main import main
from rocktools.errors import CaptureError, UsageError

VERSIONS = ("1.0.0", "1.2.0", "1.3.2", "1.4.1")
FOLDER = Path("/data/run 1/trace")
APPLICATION = ("python", "train.py", "--pmc", "name=a b", "--", "-x")
KERNELS = filter_names(["loop_fusion_3"])


def tool_of(version: str, *options: str) -> ProfilerTool:
    major, minor, patch = (int(number) for number in version.split("."))
    return ProfilerTool(executable="rocprofv3", version=SdkVersion(major, minor, patch), options=frozenset(options))


def helped_tool(version: str) -> ProfilerTool:
    """The tool of a release with the options that its help names."""
    tool = tool_of(version)
    options = parse_help_options(build_parser(RELEASES[version].number).format_help())
    return ProfilerTool(executable=tool.executable, version=tool.version, options=options)


def read_back(argv: list[str], version: str) -> tuple[argparse.Namespace, list[str]]:
    """What the rocprofv3 of a release understands, and the application it would start."""
    own, application = split_application(argv[1:])
    return build_parser(RELEASES[version].number).parse_args(own), application


def set_options(namespace: argparse.Namespace, version: str) -> dict[str, object]:
    """The values that differ from those of a bare command line."""
    bare = vars(build_parser(RELEASES[version].number).parse_args([]))
    return {name: value for name, value in vars(namespace).items() if value != bare[name]}


OUTPUT = {"output_directory": "/data/run 1/trace", "output_file": "%pid%", "output_format": ["rocpd"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("build_tool", [tool_of, helped_tool])
@pytest.mark.parametrize(
    "options, expected",
    [
        (TraceOptions(), {"runtime_trace": True, "rccl_trace": True}),
        (TraceOptions(kind=TraceKind.KERNEL), {"kernel_trace": True, "memory_copy_trace": True}),
        (
            TraceOptions(has_selected_regions=True),
            {"runtime_trace": True, "rccl_trace": True, "selected_regions": True, "marker_trace": True},
        ),
    ],
)
def test_a_trace_asks_for_this_and_for_nothing_else(version, build_tool, options, expected):
    argv = trace_argv(build_tool(version), options, FOLDER, APPLICATION)
    namespace, application = read_back(argv, version)
    assert argv[0] == "rocprofv3"
    assert set_options(namespace, version) == {**expected, **OUTPUT}
    assert application == list(APPLICATION)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("build_tool", [tool_of, helped_tool])
def test_a_counter_pass_asks_for_one_group_of_one_filter(version, build_tool):
    options = PmcOptions(counters=("SQ_WAVES", "TCC_HIT_sum"), kernels=KERNELS, iterations=parse_iterations("10-12,20"))
    argv = pmc_argv(build_tool(version), options, FOLDER, APPLICATION)
    namespace, application = read_back(argv, version)
    groups = namespace.pmc if isinstance(namespace.pmc[0], list) else [namespace.pmc]
    assert groups == [["SQ_WAVES", "TCC_HIT_sum"]]
    assert set_options(namespace, version) == {
        "pmc": namespace.pmc,
        "kernel_include_regex": "^loop_fusion_3$",
        "kernel_exclude_regex": COLLECTIVE_KERNELS,
        "kernel_iteration_range": ["[10-12]", "[20-20]"],
        **OUTPUT,
    }
    assert iterations_as_the_tool(", ".join(namespace.kernel_iteration_range)) == {10, 11, 12, 20}
    assert application == list(APPLICATION)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_exclusion_and_iterations_neither_is_passed(version):
    options = PmcOptions(counters=("SQ_WAVES",), kernels=filter_regex(".", exclude=None))
    namespace, _ = read_back(pmc_argv(tool_of(version), options, FOLDER, APPLICATION), version)
    assert set(set_options(namespace, version)) == {"pmc", "kernel_include_regex", *OUTPUT}


@pytest.mark.parametrize("version", ["1.3.0", "1.3.2", "1.4.1"])
def test_a_counter_pass_of_regions_turns_markers_on(version):
    options = PmcOptions(counters=("SQ_WAVES",), kernels=KERNELS, has_selected_regions=True)
    namespace, _ = read_back(pmc_argv(tool_of(version), options, FOLDER, APPLICATION), "1.3.2")
    assert namespace.selected_regions is True
    assert namespace.marker_trace is True


@pytest.mark.parametrize("version", ["1.0.0", "1.2.0"])
def test_regions_that_do_not_gate_counters_are_refused(version):
    options = PmcOptions(counters=("SQ_WAVES",), kernels=KERNELS, has_selected_regions=True)
    with pytest.raises(CaptureError, match="regions-do-not-gate-counters") as caught:
        pmc_argv(tool_of(version), options, FOLDER, APPLICATION)
    assert version in caught.value.what


def test_kernel_replay_is_one_run_with_a_group_for_each_pass():
    argv = replay_argv(helped_tool("1.4.1"), [["SQ_WAVES", "SQ_BUSY_CYCLES"], ["TCC_HIT_sum"]], KERNELS, FOLDER, ("x",))
    namespace, application = read_back(argv, "1.4.1")
    assert set_options(namespace, "1.4.1") == {
        "replay_mode": "kernel",
        "kernel_replay_beta_enabled": True,
        "pmc": [["SQ_WAVES", "SQ_BUSY_CYCLES"], ["TCC_HIT_sum"]],
        "kernel_include_regex": "^loop_fusion_3$",
        "kernel_exclude_regex": COLLECTIVE_KERNELS,
        **OUTPUT,
        "output_format": ["json"],
    }
    assert application == ["x"]


@pytest.mark.parametrize("version", ["1.0.0", "1.2.0", "1.3.2"])
@pytest.mark.parametrize("build_tool", [tool_of, helped_tool])
def test_kernel_replay_needs_a_tool_that_has_it(version, build_tool):
    with pytest.raises(CaptureError, match="tool-lacks-option") as caught:
        replay_argv(build_tool(version), [["SQ_WAVES"]], KERNELS, FOLDER, ("x",))
    assert "1.4.1" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "groups, what",
    [
        ([], "at least one group"),
        ([[]], "no counter"),
        ([["A"], []], "no counter"),
        ([["A", "B"], ["B"]], "B is in two"),
    ],
)
def test_replay_groups_must_be_filled_and_disjoint(groups, what):
    with pytest.raises(UsageError, match="bad-replay-groups") as caught:
        replay_argv(tool_of("1.4.1"), groups, KERNELS, FOLDER, ("x",))
    assert what in caught.value.what


def every_build(tool: ProfilerTool, folder: Path, application: tuple[str, ...], kernels: KernelFilter = KERNELS):
    """Calls that build a command line with these parts, by name."""
    return {
        "trace": lambda: trace_argv(tool, TraceOptions(), folder, application),
        "kernel trace": lambda: trace_argv(tool, TraceOptions(kind=TraceKind.KERNEL), folder, application),
        "pmc": lambda: pmc_argv(tool, PmcOptions(counters=("SQ_WAVES",), kernels=kernels), folder, application),
        "replay": lambda: replay_argv(tool, [["SQ_WAVES"]], kernels, folder, application),
    }


KINDS = tuple(every_build(tool_of("1.4.1"), FOLDER, APPLICATION))


@pytest.mark.parametrize("version", ["0.5.0", "0.6.0"])
@pytest.mark.parametrize("kind", ["trace", "kernel trace", "pmc"])
def test_a_tool_that_writes_no_databases_is_refused(version, kind):
    with pytest.raises(CaptureError, match="tool-writes-no-rocpd") as caught:
        every_build(tool_of(version), FOLDER, APPLICATION)[kind]()
    assert version in caught.value.what
    assert "ROCm 7.0" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["/data/100%pid%", "/data/run%p", "/data/{pid}", "/data/$HOME", "/data/a}b"])
def test_what_the_tool_would_replace_in_a_path_is_refused(kind, path):
    with pytest.raises(UsageError, match="path-has-placeholder") as caught:
        every_build(tool_of("1.4.1"), Path(path), APPLICATION)[kind]()
    assert caught.value.where == path


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_needed(kind):
    with pytest.raises(UsageError, match="no-application"):
        every_build(tool_of("1.4.1"), FOLDER, ())[kind]()


def test_a_counter_is_needed():
    with pytest.raises(UsageError, match="no-counters"):
        pmc_argv(tool_of("1.3.2"), PmcOptions(counters=(), kernels=KERNELS), FOLDER, APPLICATION)


@pytest.mark.parametrize("kind", KINDS)
def test_every_process_gets_a_file_of_its_own(kind):
    argv = every_build(tool_of("1.4.1"), FOLDER, APPLICATION)[kind]()
    assert "%pid%" in read_back(argv, "1.4.1")[0].output_file
    assert "-i" not in argv
    assert "--input" not in argv


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
awkward = st.one_of(words, words.map(lambda word: f"-{word}"), words.map(lambda word: f"--{word}"))


@pytest.mark.parametrize("version", ["1.0.0", "1.4.1"])
@given(names=st.lists(awkward, min_size=1, max_size=3), folder=awkward, application=st.lists(awkward, min_size=1))
def test_awkward_names_folders_and_jobs_arrive_as_they_are(version, names, folder, application):
    kernels = filter_names(names, exclude=None)
    path = Path(re.sub(r"[%{}$]", "_", folder))
    options = PmcOptions(counters=("SQ_WAVES",), kernels=kernels, iterations=parse_iterations("1-3"))
    namespace, started = read_back(pmc_argv(tool_of(version), options, path, application), version)
    assert namespace.kernel_include_regex == kernels.include
    assert Path(namespace.output_directory) == path
    assert started == application


@pytest.mark.parametrize("regex", ["-x", "--pmc", "-", "--kernel-trace"])
def test_expressions_that_begin_with_a_dash_are_values(regex):
    kernels = KernelFilter(include=regex, exclude=regex, meaning="")
    for version in VERSIONS:
        options = PmcOptions(counters=("A",), kernels=kernels)
        namespace, _ = read_back(pmc_argv(tool_of(version), options, FOLDER, APPLICATION), version)
        assert (namespace.kernel_include_regex, namespace.kernel_exclude_regex) == (regex, regex)


def test_the_device_stands_before_the_subcommand_of_the_check():
    argv = pmc_check_argv("/opt/rocm/bin/rocprofv3-avail", ["SQ_WAVES", "TCC_HIT_sum"], device=3)
    assert argv.index("-d") < argv.index("pmc-check")
    for release in RELEASES.values():
        options = build_avail_parser(release).parse_args(argv[1:])
        assert (options.command, options.device, options.counters) == ("pmc-check", 3, ["SQ_WAVES", "TCC_HIT_sum"])


def test_counters_are_asked_for_with_list_and_info():
    for release in RELEASES.values():
        parser = build_avail_parser(release)
        listed = parser.parse_args(avail_list_argv("rocprofv3-avail")[1:])
        assert (listed.command, listed.pmc, listed.device) == ("list", True, None)
        informed = parser.parse_args(avail_info_argv("rocprofv3-avail")[1:])
        assert (informed.command, informed.pmc) == ("info", [])


def test_one_database_is_converted_into_a_named_file():
    argv = convert_argv("rocpd", Path("/run/trace/7_results.db"), Path("/run/perfetto"), "7")
    options = build_rocpd_parser().parse_args(argv[1:])
    assert options.command == "convert"
    assert options.input == ["/run/trace/7_results.db"]
    assert [str(value) for value in options.output_format] == ["pftrace"]
    assert argv[argv.index("-d") + 1 :] == ["/run/perfetto", "-o", "7"]


def test_converting_a_file_that_begins_with_a_dash():
    argv = convert_argv("rocpd", Path("-x.db"), Path("-out"), "x", output_format="csv")
    assert argv == ["rocpd", "convert", "-i", "./-x.db", "--output-format", "csv", "-d", "./-out", "-o", "x"]


# The commands of source document 0 (Profiling a Training Step), as they stand there.
DOCUMENT_TRACE = """\
rocprofv3 \\
  --runtime-trace --rccl-trace \\
  --output-directory "$ROCPROF_DIR" \\
  --output-format rocpd -- \\
  python -m maxtext.trainers.pre_train.train "$CONFIG" \\
    run_name=profile-rocprof profiler="" steps=14
"""
DOCUMENT_PMC = """\
rocprofv3 \\
  --pmc SQ_WAVES GRBM_GUI_ACTIVE \\
  --kernel-include-regex '<escaped-kernel-prefix>' \\
  --kernel-iteration-range 10-10 -- \\
  python kernel_replay.py
"""
DOCUMENT_CONVERT = 'rocpd convert -i "$ROCPROF_DIR/<pid>_results.db" --output-format pftrace'
DOCUMENT_LIST = "rocprofv3-avail list --pmc"
DOCUMENT_CHECK = "rocprofv3-avail pmc-check SQ_WAVES GRBM_GUI_ACTIVE"

# Whatever rocktools says beyond these commands, and why. Options of the tool first, then variables of the job.
ADDED_TO_TRACE = {
    "output_file": "%pid% in the name, or the processes of one job overwrite each other",
    "XLA_FLAGS": "no command buffers (their kernels carry no HLO name, and intercepting graphs crashes some versions); "
    "the compiled programs are dumped into the run, for the join of kernels and HLO",
    "JAX_ENABLE_COMPILATION_CACHE": "a program out of the cache is compiled nowhere, and so not dumped",
    "ROCPROF_TMPDIR": "temporary files go into the run, not into the job's working directory",
}
ADDED_TO_PMC = {
    "kernel_exclude_regex": "collectives wait for other ranks, and a counter pass runs one kernel at a time",
    "output_directory": "the databases belong into the run, a folder for each group",
    "output_file": "%pid% in the name, or the processes of one job overwrite each other",
    "output_format": "rocpd is the default from ROCm 7.0 on; said all the same, because all the rest rests on it",
    "XLA_FLAGS": "no command buffers: intercepting graphs crashes some versions",
    "ROCPROF_TMPDIR": "temporary files go into the run, not into the job's working directory",
}
ADDED_TO_CONVERT = {
    "-d": "the output belongs beside its input, not into ./rocpd-output-data",
    "-o": "every process has an output of its own name",
}
ADDED_TO_CHECK = {"-d": "one device is asked about: asking all of them takes minutes, and the first refusal ends it"}


def words_of(command: str, **variables: str) -> list[str]:
    for name, value in variables.items():
        command = command.replace(f"${name}", value)
    return shlex.split(command.replace("\\\n", " "))


def dry_run(arguments: list[str], monkeypatch, capsys, tmp_path: Path, version: str) -> list[tuple[dict, list[str]]]:
    """What `--dry-run` prints, taken apart by a shell's rules: variables and command line of each pass."""
    for name in ("XLA_FLAGS", "JAX_ENABLE_COMPILATION_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    at = rest.index("--")
    own = [command, *rest[:at], "-o", str(tmp_path / "run"), "--dry-run", "--sdk-version", version]
    assert main([*own, *rest[at:]]) == 0
    assert not (tmp_path / "run").exists()
    passes = []
    for line in capsys.readouterr().out.splitlines():
        if line.startswith(("#", "mkdir ")):
            continue
        words = shlex.split(line)
        assert words.pop(0) == "env"
        while words[0] == "-u":
            words = words[2:]
        variables = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        passes.append((variables, words))
    return passes


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documents_trace_is_in_the_dry_run_with_the_same_meaning(version, monkeypatch, capsys, tmp_path):
    theirs, their_job = read_back(words_of(DOCUMENT_TRACE, ROCPROF_DIR="/d", CONFIG="config.yml"), version)
    [(variables, argv)] = dry_run(["trace", "--", *their_job], monkeypatch, capsys, tmp_path, version)
    ours, our_job = read_back(argv, version)
    assert our_job == their_job
    wanted, given_options = set_options(theirs, version), set_options(ours, version)
    assert given_options["output_directory"] == str(tmp_path / "run" / "trace")
    del wanted["output_directory"]
    assert {name: given_options[name] for name in wanted} == wanted
    added = set(given_options) - set(wanted) - {"output_directory"}
    assert added | set(variables) == set(ADDED_TO_TRACE)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documents_counters_are_in_the_dry_run_with_the_same_meaning(version, monkeypatch, capsys, tmp_path):
    theirs, their_job = read_back(words_of(DOCUMENT_PMC), version)
    arguments = ["--counters", "SQ_WAVES,GRBM_GUI_ACTIVE", "--kernel-prefix", "loop_fusion.3", "--iterations", "10-10"]
    [(variables, argv)] = dry_run(["pmc", *arguments, "--", *their_job], monkeypatch, capsys, tmp_path, version)
    ours, our_job = read_back(argv, version)
    assert our_job == their_job
    wanted, given_options = set_options(theirs, version), set_options(ours, version)
    assert set(wanted) <= set(given_options)
    names = [
        set(namespace.pmc[0] if isinstance(namespace.pmc[0], list) else namespace.pmc) for namespace in (theirs, ours)
    ]
    assert names[0] == names[1] == {"SQ_WAVES", "GRBM_GUI_ACTIVE"}
    assert theirs.kernel_include_regex == "<escaped-kernel-prefix>"
    assert re.search(ours.kernel_include_regex, "loop_fusion.3_kernel")
    assert not re.search(ours.kernel_include_regex, "loop_fusion_3_kernel")
    ranges = [iterations_as_the_tool(", ".join(namespace.kernel_iteration_range)) for namespace in (theirs, ours)]
    assert ranges == [{10}, {10}]
    assert (set(given_options) - set(wanted)) | set(variables) == set(ADDED_TO_PMC)


def test_the_documents_conversion_is_built_with_the_same_meaning():
    theirs = words_of(DOCUMENT_CONVERT, ROCPROF_DIR="/d")
    ours = convert_argv("rocpd", Path("/d/<pid>_results.db"), Path("/out"), "7")
    assert ours[: len(theirs)] == theirs
    assert set(ours[len(theirs) :: 2]) == set(ADDED_TO_CONVERT)


def test_the_documents_questions_to_the_installation_are_built_with_the_same_meaning():
    assert avail_list_argv("rocprofv3-avail") == words_of(DOCUMENT_LIST)
    ours = pmc_check_argv("rocprofv3-avail", ["SQ_WAVES", "GRBM_GUI_ACTIVE"], device=0)
    theirs = words_of(DOCUMENT_CHECK)
    assert [word for word in ours if word in theirs] == theirs
    assert [word for word in ours if word.startswith("-")] == list(ADDED_TO_CHECK)


@pytest.mark.parametrize("added", [ADDED_TO_TRACE, ADDED_TO_PMC, ADDED_TO_CONVERT, ADDED_TO_CHECK])
def test_every_addition_has_a_reason(added):
    assert all(len(reason.split()) > 4 for reason in added.values())


def test_the_commands_are_those_of_the_document(shared):
    [document] = (shared / "source-documents").glob("000_*.txt")
    text = document.read_text(encoding="utf-8")
    for command in (DOCUMENT_TRACE, DOCUMENT_PMC, DOCUMENT_LIST, DOCUMENT_CHECK):
        assert command in text
    assert words_of(DOCUMENT_CONVERT) in [words_of(text[at:].split("\n\n")[0]) for at in _places(text, "rocpd convert")]


def _places(text: str, needle: str) -> list[int]:
    return [match.start() for match in re.finditer(f"^{re.escape(needle)}", text, re.MULTILINE)]


def test_a_prefix_is_escaped_and_anchored():
    options = PmcOptions(counters=("A",), kernels=filter_prefix("loop.fusion(3)"))
    namespace, _ = read_back(pmc_argv(tool_of("1.3.2"), options, FOLDER, APPLICATION), "1.3.2")
    assert namespace.kernel_include_regex == r"^loop\.fusion\(3\)"
