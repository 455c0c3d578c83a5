"""The stand-in for rocprofv3 parses, refuses and hands on as the real script was seen to ([run] in the reference)."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from standins.filters import BadRange, BadRegex, compile_regex, parse_iterations
from standins.install import APP, app_command
from standins.options_table import ALL_OPTIONS, options_of
from standins.parser import build_parser
from standins.paths import ProcessFacts, replace_keys
from standins.running import Bench, announced
from standins.tool import parse_counters
from standins.versions import RELEASES

import rocktools

OLD, FIRST, SECOND, NEWEST = "0.5.0", "1.0.0", "1.3.2", "1.4.1"
TABULATED = [name for name, release in RELEASES.items() if release.is_tabulated]
WITH_PASSES = [SECOND, NEWEST]

MakeBench = Callable[[str], Bench]


@pytest.fixture
def make_bench(tmp_path: Path) -> MakeBench:
    return lambda version: Bench(tmp_path, version)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, SECOND)


# An opinion of their own


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def test_stand_ins_and_the_code_under_test_know_nothing_of_each_other():
    for path in APP.parent.glob("*.py"):
        ours = {name for name in _imports(path) if name.startswith("rocktools.")}
        assert all(name.startswith("rocktools.demo.") for name in ours), path.name
    for path in Path(rocktools.__file__).parent.rglob("*.py"):
        assert not any(name.startswith("standins") for name in _imports(path)), path


# The table of options


def test_four_releases_are_tabulated():
    assert TABULATED == [OLD, FIRST, SECOND, NEWEST]


@pytest.mark.parametrize("version", RELEASES)
def test_no_two_options_of_a_release_share_a_spelling(version):
    flags = [flag for option in options_of(RELEASES[version].number) for flag in option.flags]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    "option, versions",
    [
        ("--pmc", ["0.6.0", FIRST, "1.1.0", "1.2.0", SECOND, NEWEST]),
        ("--version", [FIRST, "1.1.0", "1.2.0", SECOND, NEWEST]),
        ("--list-metrics", [OLD]),
        ("--selected-regions", [FIRST, "1.1.0", "1.2.0", SECOND, NEWEST]),
        ("--selected-regions-ref-count", ["1.2.0", SECOND, NEWEST]),
        ("--process-sync", ["1.1.0", "1.2.0", SECOND, NEWEST]),
        ("--kfd-trace", ["1.2.0", SECOND, NEWEST]),
        ("--spm", [SECOND, NEWEST]),
        ("--replay-mode", [NEWEST]),
        ("--kernel-iteration-range", list(RELEASES)),
        ("--kernel-include", []),
    ],
)
def test_options_appear_with_their_release(option, versions):
    found = [
        name for name, release in RELEASES.items() if any(option in each.flags for each in options_of(release.number))
    ]
    assert found == versions


def test_every_variable_that_an_option_sets_is_one_of_the_tool():
    assert all(option.env.startswith("ROCPROF_") for option in ALL_OPTIONS if option.env)


@pytest.mark.parametrize("version", TABULATED)
def test_help_shows_every_option_but_the_hidden_ones(version, make_bench):
    ended = make_bench(version).run("rocprofv3", "--help")
    assert ended.code == 0
    words = set(re.findall(r"--[\w-]+", ended.out))
    for option in options_of(RELEASES[version].number):
        if not option.is_hidden:
            assert {flag for flag in option.flags if flag.startswith("--")} <= words
        elif option.dest in ("echo", "readlink"):
            assert f"--{option.dest}" not in words


@pytest.mark.parametrize("version", [FIRST, SECOND, NEWEST])
def test_version_is_nine_lines_of_key_and_value(version, make_bench):
    ended = make_bench(version).run("rocprofv3", "--version")
    facts = dict(line.strip().split(": ", 1) for line in ended.out.splitlines())
    assert ended.code == 0
    assert list(facts) == [
        "version",
        "git_revision",
        "library_arch",
        "system_name",
        "system_processor",
        "system_version",
        "compiler_id",
        "compiler_version",
        "rocm_version",
    ]
    assert (facts["version"], facts["rocm_version"]) == (version, RELEASES[version].rocm)


# What ends in which code


@pytest.mark.parametrize(
    "version, arguments, code, text",
    [
        # argparse: usage, code 2
        (SECOND, "--kernel-include x -- true", 2, "unrecognized arguments: --kernel-include"),
        (SECOND, "--kernel-trac -- true", 2, "unrecognized arguments: --kernel-trac"),
        (SECOND, "--kernel-include-regex -foo -- true", 2, "expected one argument"),
        (SECOND, "-f parquet -- true", 2, "invalid choice"),
        (OLD, "-f rocpd -- true", 2, "invalid choice"),
        (OLD, "--version", 2, "unrecognized arguments: --version"),
        (OLD, "--pmc SQ_WAVES -- true", 2, "unrecognized arguments"),
        (FIRST, "--selected-regions-ref-count -- true", 2, "unrecognized arguments"),
        (SECOND, "--replay-mode kernel -- true", 2, "unrecognized arguments"),
        (SECOND, "--att-activity many -- true", 2, "invalid int value"),
        # The application was taken for the value of the last option: traceback, code 1
        (SECOND, "--kernel-trace ./app", 1, "ValueError: invalid truth value ./app"),
        (FIRST, "--kernel-trace ./app", 1, "ValueError: invalid truth value ./app"),
        (SECOND, "--kernel-trace -- ./nowhere", 1, "FileNotFoundError"),
        # The launcher
        (FIRST, "--kernel-trace", 1, "\nFatal error: No application provided"),
        (SECOND, "--kernel-trace", 1, "\n[rocprofv3] Fatal error: No application provided"),
        (SECOND, "--kernel-trace --", 1, "No application provided"),
        (SECOND, "--pmc SQ_WAVES ./app", 1, "No application provided"),
        (SECOND, "--stats -- true", 1, "Fatal error"),
        (FIRST, "--summary -- true", 1, "Fatal error"),
        (SECOND, "--sdk-soversion 7 --kernel-trace -- true", 1, "Fatal error: Failed to resolve path. '"),
        (SECOND, "--pmc A --pmc B -P 0:1:1 -- true", 1, "Fatal error"),
        (SECOND, "--selected-regions -P 0:1:1 --kernel-trace -- true", 1, "Fatal error"),
        (FIRST, "-p 17 --kernel-trace -- true", 1, "Fatal error"),
        (SECOND, "--spm SQ_WAVES --pmc SQ_WAVES -- true", 1, "Fatal error"),
        (SECOND, "--pc-sampling-unit time -- true", 1, "Fatal error"),
        (NEWEST, "--pmc A --replay-mode kernel -- true", 1, "--kernel-replay-beta-enabled"),
        # The library, at start-up of the application
        (SECOND, "--pmc SQ_WAVES --kernel-iteration-range one -- true", -signal.SIGABRT, "expected integer for one"),
        (SECOND, "--pmc SQ_WAVES --kernel-iteration-range 1-b -- true", -signal.SIGABRT, "bad range format for '1-b'"),
    ],
)
def test_wrong_commands_end_with_their_code_and_text(version, arguments, code, text, make_bench):
    bench = make_bench(version)
    ended = bench.run("rocprofv3", *arguments.split())
    assert (ended.code, text in f"\n{ended.err}") == (code, True), ended.err
    assert "usage: " in ended.err or code != 2
    assert bench.files() == []


@pytest.mark.parametrize("word, truth", [("y", True), ("ON", True), ("1", True), ("no", False), ("False", False)])
def test_truth_values(word, truth):
    assert build_parser((1, 3, 2)).parse_args(["--kernel-trace", word]).kernel_trace is truth


def test_a_value_with_a_dash_needs_an_equals_sign():
    assert build_parser((1, 3, 2)).parse_args(["--kernel-include-regex=-foo"]).kernel_include_regex == "-foo"


def test_single_pass_ends_as_the_application_does(bench):
    assert bench.run("rocprofv3", "--kernel-trace", "--", *app_command("--exit", "7")).code == 7
    assert bench.run("rocprofv3", "--kernel-trace", "--", *app_command("--signal", "SIGTERM")).code == -15


def test_several_passes_lose_the_code_and_skip_what_follows(bench):
    command = app_command("--exit", "7")
    ended = bench.run("rocprofv3", "--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", "-d", "out", "--", *command)
    assert ended.code == 1
    assert "[rocprofv3] Fatal error: Command '[" in ended.err
    assert "returned non-zero exit status 7" in ended.err
    assert {path.relative_to(bench.work).parts[1] for path in bench.databases()} == {"pass_1"}


def test_no_trace_runs_unprofiled_with_a_warning(bench):
    for options in ([], ["--pmc"]):
        ended = bench.run("rocprofv3", *options, "--", *app_command("--print", "ran", "--exit", "3"))
        assert (ended.code, ended.out) == (3, "ran\n")
        assert "[rocprofv3] Warning: No tracing options were enabled." in ended.err
    assert bench.files() == []


# Passes


def _collected(bench: Bench) -> list[list[str]]:
    return [call["counters"] for call in bench.calls() if "run" in call]


def test_repeated_pmc_keeps_the_last_group_in_old_releases(make_bench):
    bench = make_bench(FIRST)
    bench.run("rocprofv3", "--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", "-d", "out", "-o", "x", "--", "true")
    assert _collected(bench) == [["TCC_HIT"]]
    assert bench.files() == ["out/x_results.db"]


@pytest.mark.parametrize("version", WITH_PASSES)
def test_repeated_pmc_is_a_pass_each_in_new_releases(version, make_bench):
    bench = make_bench(version)
    ended = bench.run("rocprofv3", "--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", "-d", "out", "-o", "x", "--", "true")
    assert ended.code == 0
    assert _collected(bench) == [["SQ_WAVES"], ["TCC_HIT"]]
    assert bench.files() == ["out/pass_1/x_results.db", "out/pass_2/x_results.db"]


def test_one_group_has_no_pass_folder_however_its_words_are_joined(bench):
    bench.run("rocprofv3", "--pmc", "SQ_WAVES GRBM_COUNT", "TCC_HIT,TCC_MISS", "-o", "x", "--", "true")
    assert _collected(bench) == [["GRBM_COUNT", "SQ_WAVES", "TCC_HIT", "TCC_MISS"]]
    assert bench.files() == ["x_results.db"]


def test_punctuation_parts_counters_and_the_order_is_lost():
    assert parse_counters("pmc: B,A;A/C B:device=1 X[3]") == ("A", "B", "B:device=1", "C", "X[3]")


@pytest.mark.parametrize(
    "version, jobs, options, folders, counters",
    [
        (SECOND, [{"pmc": ["SQ_WAVES"]}], [], ["pass_1"], [["SQ_WAVES"]]),
        (SECOND, [{"kernel_trace": True}], [], [""], [[]]),
        (SECOND, [{"kernel-trace": True, "pmc": ["SQ_WAVES"]}], [], ["pass_1"], [["SQ_WAVES"]]),
        (SECOND, [{"kernel_trace": True}, {"pmc": ["TCC_HIT"]}], [], ["pass_1"], [["TCC_HIT"]]),
        (FIRST, [{"kernel_trace": True}, {"pmc": ["TCC_HIT"]}], [], ["pass_1", "pass_2"], [[], ["TCC_HIT"]]),
        (SECOND, [{"kernel_trace": True}, {"hip_trace": True}], [], [], []),
        (SECOND, [{"pmc": ["TCC_HIT"]}], ["--pmc", "SQ_WAVES"], ["pass_1", "pass_2"], [["SQ_WAVES"], ["TCC_HIT"]]),
    ],
)
def test_jobs_of_an_input_file(version, jobs, options, folders, counters, make_bench):
    bench = make_bench(version)
    (bench.work / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    ended = bench.run("rocprofv3", "-i", "jobs.json", "-o", "x", *options, "--", "true")
    assert ended.code == 0, ended.err
    assert _collected(bench) == counters
    assert [str(path.parent.relative_to(bench.work)) for path in bench.databases()] == [each or "." for each in folders]


@pytest.mark.parametrize(
    "job, options, code, text",
    [
        # Nothing is collected, since a string falls into its characters; and no complaint.
        ('{"pmc": "SQ_WAVES"}', [], 0, "Missing: ["),
        ('{"kernel_iteration_range": [1], "pmc": ["SQ_WAVES"]}', [], 1, "TypeError"),
        ('{"output_file": "other"}', ["-o", "x"], 1, "RuntimeError: Option 'output_file' has conflicting values"),
        ('{"att_serialize_all": true}', [], 1, "RuntimeError"),
    ],
)
def test_surprises_of_input_files(job, options, code, text, bench):
    (bench.work / "jobs.json").write_text(f'{{"jobs": [{job}]}}')
    ended = bench.run("rocprofv3", "-i", "jobs.json", *options, "--", "true")
    assert (ended.code, text in ended.err) == (code, True), ended.err
    assert bench.databases() == []


def test_commented_pmc_line_is_an_empty_pass_in_old_releases(make_bench):
    bench = make_bench(FIRST)
    (bench.work / "in.txt").write_text("# pmc: SQ_WAVES\npmc: TCC_HIT\n")
    bench.run("rocprofv3", "-i", "in.txt", "-o", "x", "--", "true")
    assert bench.files() == ["in.txt", "pmc_2/x_results.db"]


# What the application gets


def _handed_on(bench: Bench, *options: str, **extra: str) -> dict[str, str]:
    bench.run("rocprofv3", *options, "--", *app_command("--record", "seen.json"), **extra)
    seen: dict[str, str] = json.loads((bench.work / "seen.json").read_text())["environment"]
    return seen


def test_runtime_trace_of_three_releases(make_bench, tmp_path):
    domains = {}
    for version in (OLD, FIRST, SECOND, NEWEST):
        (tmp_path / version).mkdir()
        seen = _handed_on(Bench(tmp_path / version, version), "--runtime-trace")
        domains[version] = {name for name, value in seen.items() if name.endswith("_TRACE") and value == "1"}
    both = {"KERNEL", "HIP_RUNTIME_API", "MARKER_API", "MEMORY_COPY", "SCRATCH_MEMORY", "RCCL_API"}
    assert {f"ROCPROF_{name}_TRACE" for name in both} == domains[OLD]
    assert domains[FIRST] - domains[OLD] == {
        f"ROCPROF_{name}_TRACE" for name in ("MEMORY_ALLOCATION", "ROCDECODE_API", "ROCJPEG_API")
    }
    assert "ROCPROF_OMPT_TRACE" in domains[SECOND]
    assert "ROCPROF_HIP_GRAPH_TRACE" in domains[NEWEST]
    assert not any("HSA" in name or "COMPILER" in name for found in domains.values() for name in found)


def test_sys_trace_can_be_reduced(bench):
    seen = _handed_on(bench, "--sys-trace", "--hsa-trace=no", "--rccl-trace", "off")
    assert seen["ROCPROF_HIP_COMPILER_API_TRACE"] == "1"
    assert not any(name.startswith("ROCPROF_HSA") or name == "ROCPROF_RCCL_API_TRACE" for name in seen)


def test_no_trace_implies_the_kernel_trace(bench):
    seen = _handed_on(bench, "--hip-trace", "--memory-copy-trace", "--rccl-trace")
    assert "ROCPROF_KERNEL_TRACE" not in seen


def test_libraries_would_be_loaded_in_this_order(bench):
    seen = _handed_on(bench, "--marker-trace", "--preload", "mine.so", LD_PRELOAD="")
    names = [Path(name).name for name in seen["ROCKTOOLS_STANDIN_LD_PRELOAD"].split(":")]
    assert names == [
        "mine.so",
        "librocprofiler-sdk-tool.so",
        "librocprofiler-sdk.so",
        "librocprofiler-sdk-roctx.so",
    ]
    assert seen["LD_LIBRARY_PATH"].endswith(str(bench.bin_folder.parent / "lib"))
    assert seen["ROCPROFILER_LIBRARY_CTOR"] == "1"


def test_options_become_variables(bench):
    seen = _handed_on(
        bench,
        *("--pmc", "SQ_WAVES", "GRBM_COUNT", "-d", "out", "-o", "x_%pid%", "-f", "rocpd", "-T", "-M"),
        *("--kernel-include-regex", "^a$", "--kernel-exclude-regex", "nccl", "--kernel-iteration-range", "1-2", "[5]"),
        *("--selected-regions", "--disable-signal-handlers", "--minimum-output-data", "2", "--log-level", "info"),
    )
    wanted = {
        "ROCPROF_COUNTERS": "pmc: SQ_WAVES GRBM_COUNT",
        "ROCPROF_COUNTER_COLLECTION": "1",
        "ROCPROF_OUTPUT_PATH": "out",
        "ROCPROF_OUTPUT_FILE_NAME": "x_%pid%",
        "ROCPROF_OUTPUT_FORMAT": "rocpd",
        "ROCPROF_TRUNCATE_KERNELS": "1",
        "ROCPROF_DEMANGLE_KERNELS": "0",
        "ROCPROF_KERNEL_FILTER_INCLUDE_REGEX": "^a$",
        "ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX": "nccl",
        "ROCPROF_KERNEL_FILTER_RANGE": "1-2, [5]",
        "ROCPROF_SELECTED_REGIONS": "1",
        "ROCPROF_SIGNAL_HANDLERS": "0",
        "ROCPROF_MINIMUM_OUTPUT_BYTES": "2048",
        "ROCPROF_LOG_LEVEL": "info",
        "ROCPROFILER_LOG_LEVEL": "info",
        "ROCTX_LOG_LEVEL": "info",
    }
    assert {name: seen.get(name) for name in wanted} == wanted


def test_inherited_flags_stay_and_formats_add_up(bench):
    seen = _handed_on(
        bench, "--hip-trace", "-f", "rocpd", ROCPROF_KERNEL_TRACE="1", ROCPROF_OUTPUT_FORMAT="csv", ROCPROF_X="y"
    )
    assert (seen["ROCPROF_KERNEL_TRACE"], seen["ROCPROF_X"]) == ("1", "y")
    assert seen["ROCPROF_OUTPUT_FORMAT"] == "csv,rocpd"


def test_inherited_counters_win_over_the_groups_of_this_run(make_bench):
    bench = make_bench(NEWEST)
    options = ["--pmc", "TCC_HIT", "--pmc", "TCC_MISS", "--replay-mode", "kernel", "--kernel-replay-beta-enabled"]
    bench.run("rocprofv3", *options, "--", "true", ROCPROF_COUNTERS="pmc: SQ_WAVES")
    assert _collected(bench) == [["SQ_WAVES"]]


def test_aggregate_traces_add_rocpd_to_the_formats(make_bench):
    bench = make_bench(SECOND)
    ended = bench.run("rocprofv3", "--runtime-trace", "-f", "csv", "-o", "x", "--", "true")
    assert "[rocprofv3] Warning" in ended.err
    assert {"x_kernel_trace.csv", "x_results.db"} <= set(bench.files())


def test_old_release_takes_the_formats_as_they_are(make_bench):
    bench = make_bench(FIRST)
    bench.run("rocprofv3", "--runtime-trace", "-f", "csv", "-o", "x", "--", "true")
    assert bench.databases() == []


def test_perfetto_fill_policy_never_arrives(bench):
    seen = _handed_on(bench, "--kernel-trace", "--perfetto-buffer-fill-policy", "ring_buffer")
    assert not any("FILL_POLICY" in name for name in seen)


def test_echo_prints_the_command_and_the_environment_and_runs_nothing(bench):
    command = app_command("--record", "seen.json")
    ended = bench.run(
        "rocprofv3", "--echo", "--log-level", "env", "--pmc", "A", "--pmc", "B", "-d", "out", "--", *command
    )
    assert ended.code == 0
    assert ended.out.splitlines() == [f"command: {command}"] * 2
    assert [line for line in ended.err.splitlines() if "ROCPROF_COUNTERS=" in line] == [
        "- ROCPROF_COUNTERS=pmc: A",
        "- ROCPROF_COUNTERS=pmc: B",
    ]
    assert bench.files() == []


@pytest.mark.parametrize("rank, files_count", [("2", 1), ("7", 0)])
def test_other_ranks_run_without_the_tool(rank, files_count, bench):
    ended = bench.run(
        *("rocprofv3", "--kernel-trace", "--profile-mpi-ranks", "0-3,8", "--", *app_command("--print", "ran")),
        OMPI_COMM_WORLD_RANK=rank,
    )
    assert ended.out == "ran\n"
    assert len(list(announced(ended.err))) == len(bench.databases()) == files_count


# Regular expressions, ranges and names


@pytest.mark.parametrize(
    "pattern, name, old_finds, new_finds",
    [
        ("fusion_1", "loop_fusion_12", True, True),
        ("^fusion_1$", "fusion_12", False, False),
        ("fusion_[0-9]{1,2}$", "fusion_12", True, True),
        (r"a\.b\(c\)", "a.b(c)", True, True),
        ("(a|b)+c", "xabac", True, True),
        # What the later engine takes literally.
        ("(?:fusion)_1", "fusion_1", True, False),
        ("(?:fusion)_1", "?:fusion_1", True, True),
        ("(?=fusion)", "fusion_1", True, False),
        ("^(?!nccl)", "fusion_1", True, False),
        (r"\bfusion", "loop fusion", True, False),
        ("[[:digit:]]", "7", True, False),
        (r"(a)\1", "aa", True, False),
    ],
)
def test_the_two_engines(pattern, name, old_finds, new_finds):
    assert bool(compile_regex(pattern, (1, 0, 0)).search(name)) is old_finds
    assert bool(compile_regex(pattern, (1, 3, 2)).search(name)) is new_finds


@pytest.mark.parametrize("version", [(1, 0, 0), (1, 3, 2)])
def test_escaped_names_match_themselves_in_both_engines(version):
    name = "void ck_tile::kentry<2, Fmha<bf16, 128> >(Args*, [4]) [clone .kd]$^|?{2}\\"
    assert compile_regex(f"^{re.escape(name)}$", version).search(name)


@pytest.mark.parametrize(
    "pattern, version", [("(a", (1, 3, 2)), ("[a", (1, 3, 2)), ("a)", (1, 3, 2)), ("(?i)a", (1, 0, 0))]
)
def test_patterns_that_abort_the_process(pattern, version):
    with pytest.raises(BadRegex):
        compile_regex(pattern, version)


def test_unbalanced_pattern_kills_the_application(bench):
    ended = bench.run(
        "rocprofv3", "--pmc", "SQ_WAVES", "--kernel-include-regex", "(a", "--", *app_command("--sleep", "9")
    )
    assert (ended.code, "terminate called" in ended.err) == (-signal.SIGABRT, True)


@pytest.mark.parametrize(
    "text, found",
    [
        ("10-10", {10}),
        ("[10-10]", {10}),
        ("[1-2],[3-4]", {1, 2, 3, 4}),
        ("[1, 2, [5-8]]", {1, 2, 5, 6, 7, 8}),
        ("1, 2", {1, 2}),
        ("[1,5]", {1, 5}),
        ("5-1", set()),
        ("", set()),
        ("0", {0}),
    ],
)
def test_ranges_of_iterations(text, found):
    assert parse_iterations(text) == found


@pytest.mark.parametrize("text", ["a", "1-b", "-3", "1.5", "1-2-3"])
def test_tokens_that_are_no_range(text):
    with pytest.raises(BadRange):
        parse_iterations(text)


@pytest.mark.parametrize(
    "text, replaced",
    [
        ("%hostname%/%pid%", "{host}/41"),
        ("{pid}-{ppid}", "41-40"),
        ("%p_%r", "41_3"),
        ("rank%nid%", "rank3"),
        ("%env{PLACE}%/x", "a_b/x"),
        ("$ENV{PLACE}x", "a_bx"),
        ("%q{PLACE}x", "x"),
        ("%tag%", "app"),
        ("%arg1%", "--n"),
        ("100%", "100%"),
        ("100%rest", "1003est"),
        ("{unknown}", "{unknown}"),
    ],
)
def test_placeholders_and_their_traps(text, replaced):
    facts = ProcessFacts(
        pid=41,
        ppid=40,
        pgid=39,
        command=["bin/app", "--n"],
        environment={"PLACE": "a/b", "SLURM_PROCID": "3"},
        working_folder=Path("w"),
        started_s=0.0,
    )
    assert replace_keys(text, facts) == replaced.replace("{host}", socket.gethostname())


# Signals and processes


def test_interrupt_reaches_the_application_and_what_there_is_gets_written(bench):
    command = ["rocprofv3", "--kernel-trace", "-o", "x", "--", *app_command("--sleep", "30", "--record", "seen.json")]
    with (bench.work / "err").open("w") as err:
        process = subprocess.Popen(
            command, cwd=bench.work, env=bench.environment(), stderr=err, stdout=err, start_new_session=True
        )
    deadline = time.monotonic() + 30
    while not (bench.work / "seen.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == -signal.SIGINT
    assert json.loads((bench.work / "seen.json").read_text())["signals"] == ["SIGINT"]
    assert (bench.work / "x_results.db").exists()
    assert not (bench.work / ".rocprofv3").exists()


def test_spill_file_is_there_while_the_application_runs(bench):
    ended = bench.run(
        *("rocprofv3", "--kernel-trace", "-o", "x", "--", "sh", "-c", "ls $ROCPROF_TMPDIR/.rocprofv3"),
        ROCPROF_TMPDIR=str(bench.folder / "spill"),
    )
    assert re.fullmatch(r"\d+-\d+-kernel_dispatch\.dat\n", ended.out)
    assert not (bench.folder / "spill" / ".rocprofv3").exists()
    assert bench.files() == ["x_results.db"]


def test_calls_and_runs_are_logged(bench):
    bench.run("rocprofv3", "--version")
    bench.run("rocprofv3", "--pmc", "SQ_WAVES", "--", "true", faults="no-kernel")
    bench.run("rocprofv3-avail")
    assert [call.get("tool") or call["run"] for call in bench.calls()] == [
        "rocprofv3",
        "rocprofv3",
        1,
        "rocprofv3-avail",
    ]
