"""The stand-in for rocprof-compute does what the reference says of the real ones."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from standins.compute.install import compute_environment, install_compute, read_calls
from standins.compute.options_table import options_of
from standins.compute.parser import parse_arguments
from standins.compute.profile import read_iterations
from standins.compute.releases import RELEASES

APP = (sys.executable, "-I", "-S", "-c")
LAUNCH = (*APP, "print('standin-launch:',3,'k')")
PLAIN = ("/bin/echo", "standin-launch:", "3", "k")


class Bench:
    """The stand-in of one release, started in a folder."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        self.state = root / "state"
        self.program = install_compute(root / "rocm", version=version)
        self.work = root / "work"
        self.work.mkdir()

    def environment(self, faults: str, scenario: dict[str, object] | None, extra: dict[str, str]) -> dict[str, str]:
        given = {"passes": 2} if scenario is None else scenario
        environment = compute_environment(self.program, scenario=given, faults=faults, state=self.state)
        return {**environment, **extra}

    def run(
        self, *arguments: str, faults: str = "", scenario: dict[str, object] | None = None, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *arguments],
            cwd=self.work,
            env=self.environment(faults, scenario, extra),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*") if path.is_file())


@pytest.fixture
def bench(tmp_path, request) -> Bench:
    return Bench(tmp_path, request.param)


of_release = pytest.mark.parametrize
EVERY = sorted(RELEASES)


@of_release("bench", EVERY, indirect=True)
def test_it_tells_its_version_with_exit_code_0(bench):
    ended = bench.run("--version")
    assert ended.returncode == 0
    assert ended.stdout.startswith("rocprofiler-compute version: 3.")


# From the lines that the reference checked against the parsers of the real ones.
@of_release(
    "line, accepted",
    [
        ("profile -n k0 -k R -b 2 4 --no-roof -- /bin/true", "3.3 3.5 3.6 3.7 3.8 3.9 3.10"),
        ("profile -n k0 -k R --no-roof --kernel-iteration-range 1:3 -- /bin/true", "3.10"),
        ("profile -n roof --roof-only --device 0 -- /bin/true", "3.0 3.3 3.5 3.6 3.7 3.8 3.9 3.10"),
        ("profile -n roof --bench-only --device 0", "3.7 3.8 3.9 3.10"),
        ("profile -n k0 -k R --iteration-multiplexing kernel -- /bin/true", "3.5 3.6 3.7 3.8 3.9 3.10"),
        ("profile -n k0 -k R --format-rocprof-output rocpd -- /bin/true", "3.3 3.5 3.6 3.7 3.8"),
        ("analyze -p W -b 2 4 --save-dfs D", "3.0 3.3"),
        ("analyze -p W1 -p W2 --output-format db --output-name N", "3.5 3.6 3.7 3.8 3.9 3.10"),
        ("profile -n k0 -p /tmp/x -- /bin/true", "3.0 3.3 3.5 3.6"),
        ("profile -n k0 --pc-sampling -- /bin/true", ""),
        ("profile -n k0 --no-such-option -- /bin/true", ""),
    ],
)
def test_lines_of_the_reference_are_accepted_where_it_says_so(line, accepted):
    for name in ("3.0", "3.3", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10"):
        try:
            parse_arguments(RELEASES[name], line.split())
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code == (0 if name in accepted.split() else 2), name


def test_gated_options_need_experimental():
    words = ["profile", "-n", "k0", "--experimental", "--pc-sampling", "--", "/bin/true"]
    assert parse_arguments(RELEASES["3.7"], words).pc_sampling is True


def test_short_d_is_the_dispatch_and_then_the_folder():
    def owner(name: str) -> str:
        (found,) = (option.flags[0] for option in options_of(RELEASES[name], "profile") if "-d" in option.flags)
        return found

    assert [owner(name) for name in ("3.0", "3.5", "3.9", "3.10")] == ["--dispatch"] * 3 + ["--output-directory"]


@of_release(
    "name, text, launches",
    [
        ("3.3", "0", {1}),
        ("3.3", "0:2", {1, 2}),
        ("3.3", "2:5", {3, 4, 5}),
        ("3.5", "3:5", {3, 4, 5}),
        ("3.5", "0", {0}),
        ("3.10", "3-5", {3, 4, 5}),
    ],
)
def test_ranges_mean_what_the_real_ones_were_seen_to_do(name, text, launches):
    assert read_iterations([text], RELEASES[name]) == launches


@of_release("bench", ["3.7", "3.10"], indirect=True)
def test_a_launch_0_is_refused_since_3_7(bench):
    option = "--kernel-iteration-range" if bench.version == "3.10" else "-d"
    ended = bench.run("profile", "-n", "k0", "-k", "k", option, "0", "--no-roof", "--", *PLAIN)
    assert ended.returncode == 1
    assert "positive integer or range" in ended.stdout


@of_release("bench", ["3.0", "3.3", "3.7"], indirect=True)
def test_older_releases_delete_the_target_even_if_they_refuse(bench):
    target = bench.work / "workloads" / "k0" / "MI355X"
    target.mkdir(parents=True)
    (target / "mine").write_text("precious", encoding="utf-8")
    ended = bench.run("profile", "-n", "k0", "--no-roof", "--", "/no/such/program")
    assert ended.returncode == 1
    assert "doesn't point to a executable" in ended.stdout
    assert not target.exists()


@of_release("bench", ["3.3"], indirect=True)
def test_the_folder_of_p_is_the_one_that_is_deleted(bench):
    (bench.work / "mine").mkdir()
    (bench.work / "mine" / "file").write_text("precious", encoding="utf-8")
    bench.run("profile", "-n", "k0", "-k", "k", "-p", str(bench.work / "mine"), "--no-roof", "--", *PLAIN)
    assert not (bench.work / "mine" / "file").exists()
    assert (bench.work / "mine" / "pmc_perf.csv").is_file()


@of_release("bench", ["3.8", "3.10"], indirect=True)
def test_newer_releases_refuse_a_folder_with_anything_in_it(bench):
    target = bench.work / "workloads" / "k0" / "MI355X"
    target.mkdir(parents=True)
    (target / "mine").write_text("precious", encoding="utf-8")
    words = ("profile", "-n", "k0", "-k", "k", "--no-roof")
    assert bench.run(*words, "--", *PLAIN).returncode == 1
    assert (target / "mine").exists()
    assert bench.run(*words, "--overwrite", "--", *PLAIN).returncode == 0
    assert not (target / "mine").exists()


@of_release("bench", ["3.3", "3.10"], indirect=True)
def test_without_two_dashes_the_filter_swallows_the_application(bench):
    ended = bench.run("profile", "-n", "k0", "-k", "k", *PLAIN)
    assert ended.returncode == 1
    assert "Profiling command required" in ended.stdout


@of_release("bench", ["3.3", "3.9"], indirect=True)
def test_quoting_is_lost_before_3_10(bench):
    ended = bench.run("profile", "-n", "k0", "-k", "k", "--no-roof", "--", *LAUNCH)
    assert ended.returncode == 1  # print( and what follows have become words


@of_release("bench", ["3.10"], indirect=True)
def test_quoting_is_kept_in_3_10(bench):
    assert bench.run("profile", "-n", "k0", "-k", "k", "--no-roof", "--", *LAUNCH).returncode == 0


@of_release("bench", ["3.3", "3.5", "3.10"], indirect=True)
def test_a_bare_anchored_name_finds_nothing_where_the_tool_of_its_own_counts(bench):
    words = ("profile", "-n", "k0", "-k", "^k$", "--no-roof")
    scenario = {"kernels": [{"name": "k", "launches": 2}], "passes": 2}
    ended = bench.run(*words, "--", "/bin/true", scenario=scenario)
    assert ended.returncode == 0
    assert ("WARNING" in ended.stdout) == (bench.version != "3.3")


@of_release("bench", ["3.3", "3.10"], indirect=True)
def test_a_rank_names_the_folder(bench):
    bench.run("profile", "-n", "k0", "-k", "k", "--no-roof", "--", *PLAIN, SLURM_PROCID="3")
    assert {Path(name).parts[2] for name in bench.files()} == {"3"}


@of_release("bench", ["3.0", "3.3", "3.4"], indirect=True)
def test_a_name_is_needed_before_3_5(bench):
    ended = bench.run("profile", "--no-roof", "--", *PLAIN)
    assert ended.returncode == 1
    assert "--name is required" in ended.stdout


@of_release("bench", ["3.0"], indirect=True)
def test_3_0_ignores_the_filter(bench):
    words = ("profile", "-n", "k0", "-k", "k", "--no-roof", "--", "/bin/true")
    kernels = [{"name": "k", "launches": 3}, {"name": "other", "launches": 2}]
    bench.run(*words, scenario={"kernels": kernels, "passes": 2})
    with (bench.work / "workloads/k0/MI355X/pmc_perf.csv").open(encoding="utf-8") as stream:
        names = [row["Kernel_Name"] for row in csv.DictReader(stream)]
    assert sorted(set(names)) == ["k", "other"]
    assert len(names) == 5


@of_release("bench", ["3.10"], indirect=True)
@of_release(
    "options, starts_count",
    [
        ((), 20),
        (("-b", "2"), 6),
        (("--set", "mem_thruput"), 1),
        (("--iteration-multiplexing", "kernel"), 1),
    ],
)
def test_the_application_is_started_once_for_each_pass(bench, options, starts_count):
    log = bench.root / "starts"
    script = bench.root / "app.sh"
    script.write_text(f"#!/bin/sh\necho x >> {log}\n", encoding="utf-8")
    script.chmod(0o755)
    bench.run("profile", "-n", "k0", "-k", "^k$", *options, "--no-roof", "--", str(script), scenario={})
    assert len(log.read_text(encoding="utf-8").splitlines()) == starts_count


@of_release("bench", ["3.3", "3.10"], indirect=True)
def test_an_application_that_fails_ends_it_with_half_a_folder(bench):
    ended = bench.run("profile", "-n", "k0", "-k", "k", "--no-roof", "--", "/bin/false")
    assert ended.returncode == 1
    assert "ERROR Profiling execution failed." in ended.stdout
    target = bench.work / "workloads/k0/MI355X"
    assert (target / "sysinfo.csv").is_file()
    assert (target / "out").is_dir()
    assert not list(target.glob("*pmc_perf*.csv*"))


@of_release("bench", ["3.10"], indirect=True)
def test_one_that_hangs_forwards_no_signal(bench):
    process = subprocess.Popen(
        [str(bench.program), "profile", "-n", "k0", "-k", "k", "--no-roof", "--", *PLAIN],
        cwd=bench.work,
        env=bench.environment("hang:0", None, {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def members() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                except OSError:
                    continue
                if int(stat[3]) == process.pid and stat[0] not in (b"Z", b"X"):
                    found.append(int(entry.name))
        return found

    try:
        deadline = time.monotonic() + 20
        while len(members()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.terminate()
        process.wait(20)
        assert len(members()) == 1
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@of_release("bench", ["3.3", "3.10"], indirect=True)
def test_analyze_reads_the_first_of_several_words_and_refuses_what_is_wrong(bench):
    form = ("--format-rocprof-output", "rocpd") if bench.version == "3.3" else ()
    for slug in ("a", "b"):
        bench.run("profile", "-n", slug, "-k", f"{slug}_kernel", *form, "--no-roof", "--", "/bin/true")
    first, second = (str(bench.work / "workloads" / slug / "MI355X") for slug in ("a", "b"))
    assert bench.run("analyze", "-p", first, second).stdout == "a_kernel 10\n"
    assert bench.run("analyze", "-p", first, "-p", second).stdout == "a_kernel 10\nb_kernel 10\n"
    assert bench.run("analyze", "-p", first, "-p", first).returncode == 1
    ended = bench.run("analyze", "-p", first, "-k", "9")
    assert ended.returncode == 1
    assert "between 0-0" in ended.stdout
    assert bench.run("analyze", "-p", str(bench.work)).returncode == 1


@of_release("bench", ["3.7", "3.10"], indirect=True)
def test_the_database_has_the_views_and_schema_of_its_release(bench):
    bench.run("profile", "-n", "a", "-k", "k", "--no-roof", "--", "/bin/true", scenario={"passes": 7})
    assert (
        bench.run("analyze", "-p", "workloads/a/MI355X", "--output-format", "db", "--output-name", "n").returncode == 0
    )
    with closing(sqlite3.connect(bench.work / "n.db")) as connection:
        (version, schema) = connection.execute(
            "SELECT compute_version, schema_version FROM compute_metadata"
        ).fetchone()
        durations = connection.execute(
            "SELECT end_timestamp - start_timestamp FROM compute_dispatch ORDER BY 1"
        ).fetchall()
        (row,) = connection.execute(
            "SELECT dispatch_count, duration_ns_sum, duration_ns_median FROM compute_kernel_view"
        ).fetchall()
        (reads,) = connection.execute(
            "SELECT value FROM compute_kernel_metric_view WHERE metric_id = '2.1.24' AND value_name = 'Avg'"
        ).fetchone()
    assert (version, schema) == (f"{bench.version}.0", "1.3.0" if bench.version == "3.7" else "2.0.0")
    times = [time_ns for (time_ns,) in durations]
    assert row == (10, sum(times), (times[4] + times[5]) / 2)
    # 65,536 reads of 128 bytes and 168 of 64, over the mean time of a launch.
    assert reads == pytest.approx((65536 * 128 + 168 * 64) / (sum(times) / 10), rel=1e-9)


def test_a_fault_that_does_not_exist_ends_with_99(tmp_path):
    assert Bench(tmp_path, "3.10").run("--version", faults="no-such-fault").returncode == 99


def test_faults_are_limited_to_a_workload_and_to_a_call(tmp_path):
    bench = Bench(tmp_path, "3.10")

    def run(slug: str) -> int:
        words = ("profile", "-n", slug, "-k", "k", "--no-roof", "--overwrite", "--", "/bin/true")
        return bench.run(*words, faults="exit-code:7@b#1").returncode

    assert [run("a"), run("b"), run("b"), run("a")] == [0, 7, 0, 0]
    assert [call["slug"] for call in read_calls(bench.state)] == ["a", "b", "b", "a"]
