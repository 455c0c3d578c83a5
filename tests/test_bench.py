"""scripts/bench runs, its methods agree, and it says so when they do not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "bench_rocpd.py"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPT.with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return load("bench_rocpd")


def test_a_small_run_reads_the_same_with_every_method(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--sizes", "300", "--part-size", "100", "--repeats", "1"]
    command += ["--only", "dispatches,counters", "--results", str(tmp_path / "results"), "--folder", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "ROCKTOOLS_SHARED"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "our own views" in done.stdout
    [path] = (tmp_path / "results").iterdir()
    record = json.loads(path.read_text())
    assert (record["stock_views"], record["failures"], record["disagreements"]) == (False, [], [])
    read = {(each["subject"], each["rows_count"]) for each in record["measurements"] if each["part"] != "write"}
    assert read == {("300 dispatches", 300), ("100 x 4 counters x 8", 100 * 4)}
    # The databases are gone.
    assert [each.name for each in tmp_path.iterdir()] == ["results"]


def test_different_results_are_told(bench: ModuleType) -> None:
    common = {"part": "files", "subject": "4 files", "seconds": 1.0, "spread_ratio": 0.0, "extra_bytes": 1}
    first = bench.Measurement(**common, method="one", rows_count=10, total=100)
    same = bench.Measurement(**common, method="two", rows_count=10, total=100)
    other = bench.Measurement(**common, method="three", rows_count=10, total=101)
    assert bench.disagreements([first, same]) == []
    [text] = bench.disagreements([first, same, other])
    assert text == "4 files: one read 10 rows, total 100; three read 10 rows, total 101"


def test_a_target_is_judged_by_the_ratio_of_its_two_methods(bench: ModuleType, tmp_path: Path) -> None:
    made = bench.Bench(tmp_path, repeats=1, stock={})
    for method, seconds, extra_bytes in ((bench.VIEW, 5.0, 900), (bench.STANDARD, 2.0, 300)):
        made.measurements.append(
            bench.Measurement(
                part="dispatches",
                subject="1,000,000 dispatches",
                method=method,
                rows_count=1,
                total=1,
                seconds=seconds,
                spread_ratio=0.0,
                extra_bytes=extra_bytes,
            )
        )
    _, records = bench.render_targets(made, bench.targets((100_000, 1_000_000), 100_000))
    judged = {each["name"]: (each["ratio"], each["verdict"]) for each in records}
    assert judged["time, standard library"] == (2.5, "reached")
    assert judged["memory, standard library"] == (3.0, "NOT reached")
    assert judged["time, adbc"] == (None, "not measured")


def test_every_reader_of_profiles_reads_the_same(tmp_path: Path) -> None:
    pytest.importorskip("jax.profiler")
    methods = load("bench_methods")
    path = tmp_path / "a.xplane.pb"
    write = methods.METHODS["write_profile"]({"files": [str(path)], "shape": {"dispatches_count": 500}})
    events_count, sum_ps = write()
    task = {"files": [str(path)], "accelerate": False}
    for is_devices_only in (False, True):
        outcomes = {
            methods.METHODS[method]({**task, "is_devices_only": is_devices_only})()
            for method in ("profile data", "rocktools profile")
        }
        assert len(outcomes) == 1
        # Seven statistics each, which are counted into the total.
        wanted_count = 500 if is_devices_only else 1000
        assert {count for count, _ in outcomes} == {wanted_count}
        if not is_devices_only:
            assert outcomes == {(events_count, sum_ps + 7 * events_count)}
    assert methods.METHODS["rocktools profile frames"](task)() == (events_count, sum_ps)


def test_memory_is_judged_by_its_budget(bench: ModuleType, tmp_path: Path) -> None:
    made = bench.Bench(tmp_path, repeats=1, stock={})
    for method, extra_bytes in (("good", 5), ("bad", 20)):
        made.measurements.append(
            bench.Measurement(
                part="xspace",
                subject="1 GB",
                method=method,
                rows_count=1,
                total=1,
                seconds=1.0,
                spread_ratio=0.0,
                extra_bytes=extra_bytes,
            )
        )
    targets = [
        bench.Target(method, "1 GB", "", method, "", 1.0, is_memory=True, budget_bytes=10)
        for method in ("good", "bad", "absent")
    ]
    _, records = bench.render_targets(made, targets)
    assert [each["verdict"] for each in records] == ["reached", "NOT reached", "not measured"]
