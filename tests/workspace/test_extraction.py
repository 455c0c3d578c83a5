"""What replays need of files: the bytes of a program, the flags of its job, and which instructions took most time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from command_line import CommandLine
from tiny_run import make_proto, tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace

from rocktools.errors import NothingToRead
from rocktools.rundir import Manifest, PassRecord, write_manifest, write_pass_record
from rocktools.workspace.extraction import rank_instructions, read_program_content
from rocktools.workspace.programs import find_programs


def test_proto_is_read_as_it_is_packed_or_not(tmp_path: Path) -> None:
    proto = make_proto("jit_f", 7)
    (tmp_path / "a.hlo.pb").write_bytes(proto)
    (tmp_path / "b.hlo.pb").write_bytes(gzip.compress(proto))
    for name in ("a.hlo.pb", "b.hlo.pb"):
        (found,) = find_programs(tmp_path / name).programs
        content = read_program_content(found)
        assert (content.proto, content.text, content.xla_flags) == (proto, "", None)


def test_text_is_handed_on_as_text(tmp_path: Path) -> None:
    text = "HloModule jit_f, is_scheduled=true\n\nENTRY main {\n  ROOT x = f32[] parameter(0)\n}\n"
    path = tmp_path / "f.txt"
    path.write_text(text, encoding="utf-8")
    (found,) = find_programs(path).programs
    content = read_program_content(found)
    assert (content.proto, content.text) == (None, text)


def test_proto_of_a_profile_is_that_of_the_program(tmp_path: Path) -> None:
    protos = {"jit_f(7)": make_proto("jit_f", 7), "jit_g(8)": make_proto("jit_g", 8, extra=3)}
    path = write_tiny_profile(tmp_path / "host.xplane.pb", tiny_trace(), protos=protos)
    for found in find_programs(path).programs:
        assert read_program_content(found).proto == protos[f"{found.name}({found.program_id})"]


def test_flags_and_versions_of_the_job_are_those_that_the_capture_found(tmp_path: Path) -> None:
    run = write_tiny_run(tmp_path / "run", trace=tiny_trace())
    (found,) = find_programs(run).programs
    assert read_program_content(found).xla_flags is None
    record = PassRecord(
        name="trace", kind="trace", attempt=1, folder="trace", argv=("python",), environment_added={"XLA_FLAGS": "--x"}
    )
    write_pass_record(run, record)
    (run / "manifest.json").write_text("{}", encoding="utf-8")
    content = read_program_content(found)
    assert (content.xla_flags, content.versions) == ("--x", {})
    (run / "manifest.json").unlink()
    facts = {"packages": {"jax": "0.10.2"}}
    write_manifest(run, Manifest(argv=("rocktools",), created_utc="now", is_simulated=False, facts=facts))
    assert read_program_content(found).versions == {"jax": "0.10.2"}


def test_instructions_are_ranked_by_the_time_of_what_they_launched(tmp_path: Path) -> None:
    """Against the simulator, which knows who launched what."""
    trace = tiny_trace(steps_count=4)
    run = write_tiny_run(tmp_path / "run", trace=trace)
    ranking = rank_instructions((str(run),), ())
    durations = trace.truth.assign(ns=trace.dispatches["end_ns"] - trace.dispatches["start_ns"])
    expected = durations.groupby(durations["instruction"].astype(str))["ns"].sum()
    linked = {each.instruction: each.total_ns for each in ranking.instructions}
    assert linked
    assert {name: int(expected[name]) for name in linked} == linked
    totals = [each.total_ns for each in ranking.instructions]
    assert totals == sorted(totals, reverse=True)
    assert sum(each.dispatches_count for each in ranking.instructions) <= len(trace.truth)


def test_trace_that_nothing_is_linked_in_is_refused(tmp_path: Path) -> None:
    path = write_tiny_trace(tmp_path / "1_results.db", tiny_trace())
    (tmp_path / "f.hlo.pb").write_bytes(make_proto("jit_f", 7))
    with pytest.raises(NothingToRead, match="no-linked-dispatches"):
        rank_instructions((str(path),), (tmp_path / "f.hlo.pb",))


def test_most_expensive_instructions_become_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Through the command: as many folders as were asked for; what has no replay is named and left out."""
    pytest.importorskip("jaxlib")
    trace = tiny_trace(steps_count=4)
    run = write_tiny_run(tmp_path / "run", trace=trace)
    ranking = [each.instruction for each in rank_instructions((str(run),), ()).instructions]
    command = CommandLine(capsys)
    ran = command("extract", run, "--from-ledger", run, "--top", 3, "-o", tmp_path / "replays")
    assert ran.code == 0, ran.err
    made = [line.partition(": ")[2].split()[0] for line in ran.out.splitlines()]
    assert len(made) == 3
    left_out = [name for name in ranking if f"{name}: left out" in ran.err]
    assert made == [name for name in ranking if name not in left_out][:3]
    for name in made:
        spec = json.loads((tmp_path / "replays" / name / "spec.json").read_text(encoding="utf-8"))
        assert spec["instruction"] == name
