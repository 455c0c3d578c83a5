"""Runs and their programs -> links: right by the truth of the simulator, whoever had to say it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from rocpd_files import rules
from tiny_program import TINY, kernel, write_tiny_dump
from tiny_run import (
    HOST,
    starts_by_instruction,
    tiny_trace,
    write_tiny_profile,
    write_tiny_run,
    write_tiny_trace,
)

from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.simulate import SimulatedTrace
from rocktools.errors import InputError, NothingToRead
from rocktools.evidence import Evidence
from rocktools.findings import Severity
from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, require_frame
from rocktools.hlo.instructions import build_instructions
from rocktools.workspace.links import LinkedRun, findings_of, link_dispatches_of, link_runs
from rocktools.workspace.workspace import Workspace


@pytest.fixture(scope="module")
def trace() -> SimulatedTrace:
    return tiny_trace(steps_count=4)


@pytest.fixture(scope="module")
def profiled() -> SimulatedTrace:
    """Another run of the same program."""
    return tiny_trace(seed=3)


def link(*paths: Path, hlo: tuple[Path, ...] = ()) -> list[LinkedRun]:
    with Workspace.open(paths) as workspace:
        return link_runs(workspace, hlo)


def wrong_ids(run: LinkedRun, trace: SimulatedTrace) -> list[int]:
    """Dispatches of a trace that are linked to another instruction than the one that launched them."""
    truth = dict(zip(trace.truth["dispatch_id"], trace.truth["instruction"].astype("object"), strict=True))
    linked = run.edges[run.edges["instruction"].notna()]
    return [row.dispatch_id for row in linked.itertuples() if truth[row.dispatch_id] != row.instruction]


def methods(run: LinkedRun) -> set[str]:
    return set(run.edges["method"].astype(str))


# Where the programs are


def test_a_trace_is_linked_to_the_dump_in_its_run(tmp_path: Path, trace: SimulatedTrace) -> None:
    (run,) = link(write_tiny_run(tmp_path / "run", trace=trace))
    require_frame(run.edges, DISPATCH_EDGES)
    assert run.run == "run"
    assert len(run.edges) == len(trace.dispatches)
    assert run.edges["instruction"].notna().all()
    assert wrong_ids(run, trace) == []
    assert set(run.edges["program_id"]) == {"7"}
    assert methods(run) == {"thunk", "schedule"}
    assert run.findings == ()


def test_a_program_that_was_compiled_twice_is_linked_as_one(tmp_path: Path, trace: SimulatedTrace) -> None:
    """Nothing in a trace tells two programs apart that launch the same."""
    path = write_tiny_run(tmp_path / "run", trace=trace)
    for file in sorted((path / "hlo").iterdir()):
        (path / "hlo" / file.name.replace("module_0007", "module_0057")).write_bytes(file.read_bytes())
    (run,) = link(path)
    assert len({each.program_id for each in run.programs}) == 2
    assert run.edges["instruction"].notna().all()
    assert wrong_ids(run, trace) == []
    assert set(run.edges["program_id"]) == {"7"}
    assert rules(run.findings) == ["programs-alike"]
    assert "compiled 2 times" in run.findings[0].message


def test_programs_that_launch_other_things_stay_two(tmp_path: Path, trace: SimulatedTrace) -> None:
    path = write_tiny_run(tmp_path / "run", trace=trace)
    for file in sorted((path / "hlo").iterdir()):
        text = file.read_text(encoding="utf-8").replace('"n":"5"', '"n":"6"')
        (path / "hlo" / file.name.replace("module_0007", "module_0057")).write_text(text, encoding="utf-8")
    (run,) = link(path)
    assert "programs-alike" not in rules(run.findings)


def test_a_program_that_is_named_stands_in_for_that_of_the_run(tmp_path: Path, trace: SimulatedTrace) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    bare = write_tiny_trace(tmp_path / "bare" / "1_results.db", trace)
    (run,) = link(bare, hlo=(tmp_path / "dump",))
    assert wrong_ids(run, trace) == []
    assert run.edges["instruction"].notna().all()
    other = write_tiny_run(tmp_path / "run", trace=trace, has_dump=False)
    (other / "hlo").mkdir()
    write_tiny_dump(other / "hlo", [kernel("nothing.1"), kernel("alike.2")])
    (run,) = link(other, hlo=(tmp_path / "dump",))
    assert run.edges["instruction"].notna().all()


def test_without_any_program_there_is_an_error_that_names_the_run_once(tmp_path: Path, trace: SimulatedTrace) -> None:
    run = write_tiny_run(tmp_path / "run", trace=trace, has_dump=False)
    write_tiny_trace(run / "trace" / "2_results.db", tiny_trace(seed=5, steps_count=1))
    with pytest.raises(NothingToRead) as raised:
        link(run)
    assert f"where: {run}\n" in str(raised.value)
    assert "--hlo FILE" in str(raised.value)
    with pytest.raises(InputError, match="no-such-file"):
        link(run, hlo=(tmp_path / "none",))


def test_a_run_without_a_program_among_others_is_a_warning(tmp_path: Path, trace: SimulatedTrace) -> None:
    first = write_tiny_run(tmp_path / "first", trace=trace)
    second = write_tiny_trace(tmp_path / "second" / "2_results.db", tiny_trace(seed=5, steps_count=1))
    runs = link(first, second)
    assert [run.run for run in runs] == ["2_results", "first"]
    (finding,) = findings_of(runs)
    assert (finding.rule, finding.where, finding.severity) == ("nothing-linked", "2_results", Severity.WARNING)
    assert finding.numbers["programs_count"] == 0


def test_what_in_a_dump_cannot_be_read_is_told(tmp_path: Path, trace: SimulatedTrace) -> None:
    run = write_tiny_run(tmp_path / "run", trace=trace)
    (run / "hlo" / "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\0\xff" * 32)
    (linked,) = link(run)
    assert linked.edges["instruction"].notna().all()
    assert rules(linked.findings) == ["hlo-proto-damaged"]
    assert linked.findings[0].severity is Severity.FAULT


def test_an_empty_hlo_folder_is_no_program(tmp_path: Path, trace: SimulatedTrace) -> None:
    run = write_tiny_run(tmp_path / "run", trace=trace, has_dump=False)
    (run / "hlo").mkdir()
    with pytest.raises(NothingToRead, match="no-programs"):
        link(run)


def test_a_dump_of_another_program_is_a_fault_and_links_nothing(tmp_path: Path, trace: SimulatedTrace) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump", [kernel(f"other.{number}") for number in range(20)])
    (run,) = link(write_tiny_trace(tmp_path / "1_results.db", trace), hlo=(tmp_path / "dump",))
    assert run.edges["instruction"].isna().all()
    assert rules(run.findings) == ["program-does-not-fit"]


# Profiles


def test_a_profile_is_linked_by_its_annotations(tmp_path: Path, profiled: SimulatedTrace) -> None:
    (run,) = link(write_tiny_run(tmp_path / "run", profile=profiled))
    require_frame(run.edges, DISPATCH_EDGES)
    assert methods(run) == {"annotation"}
    assert run.edges["instruction"].value_counts().to_dict() == starts_by_instruction(profiled)
    assert run.findings == ()


def test_a_profile_without_annotations_is_linked_by_name_and_says_so(tmp_path: Path, profiled: SimulatedTrace) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    path = write_tiny_profile(tmp_path / "a.xplane.pb", profiled, is_annotated=False)
    (run,) = link(path, hlo=(tmp_path / "dump",))
    assert methods(run) <= {"name", "none"}
    assert "certain" not in set(run.edges["confidence"])
    assert run.findings


def test_the_profile_beside_a_trace_speaks_for_it(
    tmp_path: Path, trace: SimulatedTrace, profiled: SimulatedTrace
) -> None:
    """Of all-to-all and all-reduce kernels of one symbol, order alone was sure before too; now most is annotated."""
    (run,) = link(write_tiny_run(tmp_path / "run", trace=trace, profile=profiled))
    assert len(run.edges) == len(trace.dispatches)
    assert run.edges["instruction"].notna().all()
    assert wrong_ids(run, trace) == []
    assert (run.edges["method"] == "annotation").mean() > 0.5
    assert HOST not in set(run.edges["process"])


def test_a_profile_named_with_a_dump_speaks_for_a_bare_trace(
    tmp_path: Path, trace: SimulatedTrace, profiled: SimulatedTrace
) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    path = write_tiny_profile(tmp_path / "dump" / "a.xplane.pb", profiled)
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    (alone,) = link(bare, hlo=(tmp_path / "dump" / "module_0007.jit_tiny.gfx950_gpu_after_optimizations.txt",))
    (run,) = link(bare, hlo=(tmp_path / "dump",))
    assert path.exists()
    assert "annotation" not in methods(alone)
    assert "annotation" in methods(run)
    assert wrong_ids(run, trace) == []


def test_the_profile_of_another_program_is_a_fault(tmp_path: Path, profiled: SimulatedTrace) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    write_tiny_profile(tmp_path / "dump" / "a.xplane.pb", profiled)
    write_trace(tmp_path / "1_results.db", TraceShape(dispatches_count=40, kernels_count=3))
    (run,) = link(tmp_path / "1_results.db", hlo=(tmp_path / "dump",))
    assert "profile-of-another-program" in rules(run.findings)
    assert run.edges["instruction"].isna().all()


def test_two_hosts_of_one_run_keep_the_order_of_the_frame(tmp_path: Path, profiled: SimulatedTrace) -> None:
    run = write_tiny_run(tmp_path / "run", profile=profiled)
    write_tiny_profile(run / "xspace" / "plugins" / "another.xplane.pb", profiled, host="a")
    (linked,) = link(run)
    keys = list(zip(linked.edges["process"], linked.edges["dispatch_id"], strict=True))
    assert keys == sorted(keys)
    assert len(keys) == 2 * len(profiled.dispatches)


def test_findings_say_which_run_and_which_file_they_are_of(tmp_path: Path, profiled: SimulatedTrace) -> None:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    paths = [write_tiny_profile(tmp_path / f"{name}.xplane.pb", profiled, is_annotated=False) for name in "ab"]
    for run, path in zip(link(*paths, hlo=(tmp_path / "dump",)), paths, strict=True):
        about_events, about_run = run.findings
        assert about_events.where == f"{path}, DEVICE_EVENTS"
        assert (about_run.rule, about_run.where) == ("nothing-linked", run.run)


# Facts beside the dispatches


def test_each_dispatch_has_the_facts_of_its_instruction(tmp_path: Path, trace: SimulatedTrace) -> None:
    path = write_tiny_run(tmp_path / "run", trace=trace)
    with Workspace.open([path]) as workspace:
        linked = link_dispatches_of(workspace)
        (run,) = link_runs(workspace)
    frame = linked.dispatches
    truth = trace.truth["instruction"].astype("object")
    pd.testing.assert_series_equal(frame["instruction"].astype("object"), truth, check_names=False)
    facts = build_instructions(run.programs[0].program.module).set_index("instruction")
    for name in ("phase", "scope", "custom_call_target"):
        expected = [facts[name].astype("object").get(instruction) for instruction in truth]
        assert [None if pd.isna(value) else value for value in frame[name]] == [
            None if pd.isna(value) else value for value in expected
        ]
    assert {"__cublas$lt$matmul"} == set(frame["custom_call_target"].dropna())
    assert linked.evidence is Evidence.INFERRED


def test_runs_of_several_programs_come_together_in_one_frame(
    tmp_path: Path, trace: SimulatedTrace, profiled: SimulatedTrace
) -> None:
    first = write_tiny_run(tmp_path / "first", trace=trace)
    second = write_tiny_run(tmp_path / "second", profile=profiled)
    with Workspace.open([first, second]) as workspace:
        frame = link_dispatches_of(workspace).dispatches
    assert frame["run"].value_counts().to_dict() == {"first": len(trace.dispatches), "second": len(profiled.dispatches)}
    counts = frame["instruction"].value_counts().to_dict()
    both = [starts_by_instruction(one) for one in (trace, profiled)]
    assert counts == {name: both[0][name] + both[1][name] for name in both[0]}


def test_a_profile_alone_is_measured_where_the_profiler_wrote_every_link(
    tmp_path: Path, profiled: SimulatedTrace
) -> None:
    with Workspace.open([write_tiny_run(tmp_path / "run", profile=profiled)]) as workspace:
        assert link_dispatches_of(workspace).evidence is Evidence.MEASURED


def test_findings_of_runs_that_share_a_program_are_told_once(tmp_path: Path, trace: SimulatedTrace) -> None:
    first = write_tiny_run(tmp_path / "first", trace=trace, has_dump=False)
    second = write_tiny_run(tmp_path / "second", trace=tiny_trace(seed=1), has_dump=False)
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump", TINY)
    (tmp_path / "dump" / "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\0\xff" * 32)
    runs = link(first, second, hlo=(tmp_path / "dump",))
    assert [rules(run.findings) for run in runs] == [["hlo-proto-damaged"]] * 2
    assert rules(findings_of(runs)) == ["hlo-proto-damaged"]


# Real files


def test_real_profile_of_an_mi355x_is_linked_whole(shared: Path) -> None:
    """The index: kernel name and instruction differ on 90 of 150 events; all are annotated."""
    (run,) = link(shared / "data" / "xplane" / "mi355_te_fused_attn")
    assert len(run.edges) == 150
    assert methods(run) == {"annotation"}
    names = run.dispatches["kernel_name"].astype(str)
    sanitized = run.edges["instruction"].astype(str).str.replace(r"[^A-Za-z0-9_]", "_", regex=True)
    assert int((names.to_numpy() != sanitized.to_numpy()).sum()) == 90


def test_real_profile_of_the_cpu_links_its_host_events(shared: Path) -> None:
    (run,) = link(shared / "data" / "xplane" / "cpu_moe")
    require_frame(run.host_edges, EVENT_EDGES)
    assert len(run.host_edges) == 10_248
    assert run.host_edges["instruction"].notna().all()
    assert run.edges.empty
    assert run.findings == ()


def test_real_trace_of_another_program_is_refused(shared: Path) -> None:
    mixtral = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / "triton"
    (run,) = link(shared / "data" / "rocpd" / "rocprofv3-mi300x.db", hlo=(mixtral,))
    assert rules(run.findings) == ["program-does-not-fit"]
    assert run.edges["instruction"].isna().all()
