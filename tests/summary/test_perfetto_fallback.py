"""Which traces in JSON are read, and in whose place."""

from __future__ import annotations

from pathlib import Path

from rocpd_files import write_small_trace
from trace_json import small_document, write_trace_json

from rocktools.summary.perfetto_fallback import convert_perfetto_traces


def test_named_trace_is_converted_and_everything_else_stays(tmp_path: Path) -> None:
    trace = write_trace_json(tmp_path / "in" / "node7.trace.json.gz", small_document())
    (tmp_path / "out").mkdir()
    found = convert_perfetto_traces(["other.db", trace], tmp_path / "out")
    assert found.paths == ("other.db", tmp_path / "out" / "node7")
    assert list(found.originals.values()) == [trace]
    assert [each.complete_count for each in found.traces] == [3]
    assert not found.is_truncation_suspected


def test_folder_with_a_database_is_read_as_it_is(tmp_path: Path) -> None:
    write_trace_json(tmp_path / "in" / "node7.trace.json.gz", small_document())
    write_small_trace(tmp_path / "in" / "1_results.db")
    found = convert_perfetto_traces([tmp_path / "in"], tmp_path)
    assert found.paths == (tmp_path / "in",)
    assert found.traces == ()


def test_trace_that_jax_wrote_twice_is_read_once_and_hosts_are_read_each(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "plugins"
    for name in ("node7.trace.json.gz", "node8.trace.json.gz", "perfetto_trace.json.gz"):
        write_trace_json(folder / name, small_document())
    (tmp_path / "out").mkdir()
    found = convert_perfetto_traces([tmp_path / "in"], tmp_path / "out")
    assert sorted(path.name for path in found.originals.values()) == ["node7.trace.json.gz", "node8.trace.json.gz"]
    assert found.paths == (tmp_path / "out" / "in",)


def test_folders_of_one_name_do_not_mix(tmp_path: Path) -> None:
    traces = [write_trace_json(tmp_path / name / "x" / "h.trace.json", small_document()) for name in ("a", "b")]
    (tmp_path / "out").mkdir()
    found = convert_perfetto_traces([trace.parent for trace in traces], tmp_path / "out")
    assert [Path(path).name for path in found.paths] == ["x", "x#2"]
    assert len(found.originals) == 2
