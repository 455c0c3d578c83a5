"""Analysis databases of both schemas: every value found by its name, nothing touched, damage told."""

from __future__ import annotations

import hashlib
import math
import sqlite3
import tempfile
from pathlib import Path

import pytest
from compute_files import Kernel, Workload, write_analysis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnsupportedVersion
from rocktools.frames import require_frame
from rocktools.sources.compute_analysis.database import is_analysis_database, read_analysis_database
from rocktools.sources.compute_analysis.results import COMPUTE_KERNELS, COMPUTE_METRICS, COMPUTE_ROOFLINE

SCHEMAS = (("3.5.0", "1.3.0"), ("3.10.0", "2.0.0"))
GEMM = Kernel(
    name="gemm(float*, int) [clone .kd]",
    launches_ns=(1_000, 3_000),
    values={("2.1.24", "Avg"): 12.5, ("2.1.24", "Pct of Peak"): math.inf, ("18.2.3", "Q1"): 89.5, ("7.1.2", "Avg"): 8},
    points={"l1": 0.5, "l2": 1.5, "hbm": 2.5, "l0": 0.25, "lds": 4.0},
    flop_per_ns=8.0,
)
COPY = Kernel(name="copy", launches_ns=(500,), values={("2.1.24", "Avg"): None, ("7.1.2", "Avg"): 4})
TWO = (
    Workload(name="first", kernels=(GEMM, COPY), bench={"HBMBw": 4885.5, "L2Bw": 0, "FP32Flops": "x"}),
    Workload(name="second", kernels=(COPY,), values={("7.1.2", "Avg"): 6}),
)


@pytest.fixture(params=SCHEMAS, ids=lambda param: param[1])
def database(request, tmp_path):
    version, schema = request.param
    return write_analysis(tmp_path / "a.db", TWO, version=version, schema=schema)


def test_values_are_found_by_workload_kernel_metric_and_value_name(database):
    metrics = read_analysis_database(database).metrics
    require_frame(metrics, COMPUTE_METRICS)
    found = {
        (row["workload"], row["kernel_name"], row["metric_name"], row["value_name"]): row["value"]
        for row in metrics.astype(object).to_dict("records")
    }
    assert found["first", "gemm(float*, int)", "L2-Fabric Read BW", "Avg"] == 12.5
    assert found["first", "gemm(float*, int)", "3", "Q1"] == 89.5
    assert found["first", "copy", "Total Wavefronts", "Avg"] == 4
    assert found["second", "copy", "Total Wavefronts", "Avg"] == 4
    whole = metrics[metrics["kernel_name"].isna()]
    assert whole[["workload", "value"]].astype(object).values.tolist() == [["second", 6.0]]
    assert len(metrics) == 4 + 2 + 2 + 1


def test_what_the_tool_left_empty_or_infinite_has_a_reason_and_is_not_zero(database):
    metrics = read_analysis_database(database).metrics
    gaps = metrics[metrics["value"].isna()].astype(object)
    assert sorted(zip(gaps["kernel_name"], gaps["value_name"], gaps["absence"], strict=True)) == [
        ("copy", "Avg", "not_collected"),
        ("copy", "Avg", "not_collected"),
        ("gemm(float*, int)", "Pct of Peak", "undefined"),
    ]
    assert metrics[metrics["value"].notna()]["absence"].isna().all()


def test_tables_and_units_come_with_the_values(database):
    metrics = read_analysis_database(database).metrics.astype(object)
    row = metrics[metrics["metric_id"] == "18.2.3"].iloc[0]
    assert (row["table_id"], row["table_name"], row["unit"]) == ("18.2", "L2 Cache Hit Rate (Percent)", None) or (
        row["table_id"] == "18.2" and row["unit"] != row["unit"]
    )
    assert metrics[metrics["metric_id"] == "2.1.24"]["unit"].unique().tolist() == ["Gb/s"]


def test_times_of_launches_are_those_of_the_pass_and_named_so(database):
    kernels = read_analysis_database(database).kernels
    require_frame(kernels, COMPUTE_KERNELS)
    row = kernels[(kernels["kernel_name"] == "gemm(float*, int)").to_numpy()].iloc[0]
    assert (row["dispatches_count"], row["pass_sum_ns"], row["pass_min_ns"], row["pass_max_ns"]) == (
        2, 4_000, 1_000, 3_000,
    )  # fmt: skip
    assert row["pass_mean_ns"] == 2_000
    assert row["raw_kernel_name"] == "gemm(float*, int) [clone .kd]"


def test_roofline_points_have_the_levels_that_the_schema_has(tmp_path):
    for version, schema in SCHEMAS:
        points = read_analysis_database(
            write_analysis(tmp_path / f"{schema}.db", TWO, version=version, schema=schema)
        ).roofline
        require_frame(points, COMPUTE_ROOFLINE)
        levels = dict(zip(points["level"].astype(str), points["intensity_flop_per_byte"], strict=True))
        expected = {"l1": 0.5, "l2": 1.5, "hbm": 2.5} | ({"l0": 0.25, "lds": 4.0} if schema == "2.0.0" else {})
        assert levels == expected
        assert set(points["pass_flop_per_s"]) == {8.0e9}


def test_version_schema_and_ceilings_of_a_workload(database):
    first, second = read_analysis_database(database).workloads
    assert (first.version.text, first.schema_version) in SCHEMAS
    assert dict(first.ceilings) == {"HBMBw": 4885.5}  # 0 is no measurement, and a text none
    assert first.facts["gpu_arch"] == "gfx950"
    assert (first.label, second.label) == ("first", "second")


def test_labels_are_made_by_the_caller(database):
    analysis = read_analysis_database(database, label=lambda name: f"{name}!")
    assert set(analysis.metrics["workload"].unique()) == {"first!", "second!"}
    assert set(analysis.kernels["workload"].unique()) == {"first!", "second!"}


def test_a_schema_that_nobody_knows_is_read_as_far_as_it_goes_with_a_warning(tmp_path):
    path = write_analysis(tmp_path / "a.db", TWO, schema="3.0.0")
    analysis = read_analysis_database(path)
    assert [finding.rule for finding in analysis.findings] == ["compute-db-schema-unknown"]
    assert len(analysis.metrics) == 9


def test_without_views_the_version_is_refused_by_name(tmp_path):
    path = write_analysis(tmp_path / "a.db", TWO, has_views=False)
    assert is_analysis_database(path)
    with pytest.raises(UnsupportedVersion, match=r"schema 1\.3\.0 has no view compute_kernel_view or"):
        read_analysis_database(path)


def test_more_columns_than_are_known_do_no_harm(tmp_path):
    path = write_analysis(tmp_path / "a.db", TWO)
    before = read_analysis_database(path).metrics
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE compute_kernel_roofline_data ADD COLUMN mall_cache_data FLOAT")
        connection.execute("ALTER TABLE compute_workload ADD COLUMN colour TEXT")
    connection.close()
    assert read_analysis_database(path).metrics.equals(before)


def test_an_empty_database_says_that_it_holds_no_workload(tmp_path):
    with pytest.raises(NothingToRead, match="no workload"):
        read_analysis_database(write_analysis(tmp_path / "a.db", ()))


def test_rows_that_name_nothing_are_left_out_and_counted(tmp_path):
    path = write_analysis(tmp_path / "a.db", TWO)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE compute_kernel SET kernel_name = NULL WHERE kernel_uuid = 2")
    connection.close()
    analysis = read_analysis_database(path)
    lost = {finding.where.rpartition(" ")[2]: finding.numbers["lost_rows_count"] for finding in analysis.findings}
    assert lost == {"compute_kernel_view": 1, "compute_kernel_metric_view": 2}
    assert "kernel" not in set(analysis.metrics["kernel_name"].dropna())


def test_a_database_that_is_being_written_is_not_read_nor_locked(tmp_path):
    path = write_analysis(tmp_path / "a.db", TWO)
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM compute_dispatch")
    try:
        with pytest.raises((DamagedFile, InputError)):
            _read_elsewhere(path)
    finally:
        other.rollback()
        other.close()


def _read_elsewhere(path: Path) -> None:
    """In another process: locks of one process do not show to itself."""
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path\n"
        "from rocktools.errors import DamagedFile\n"
        "from rocktools.sources.compute_analysis.database import read_analysis_database\n"
        "try:\n    read_analysis_database(Path(sys.argv[1]))\n"
        "except DamagedFile as error:\n    print(error.reference); sys.exit(7)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, text=True)
    if ended.returncode == 7:
        raise DamagedFile(ended.stdout.strip(), "told by the other process")


def test_reading_changes_nothing_in_or_beside_the_file(database):
    before = hashlib.sha256(database.read_bytes()).hexdigest(), database.stat().st_mtime_ns
    read_analysis_database(database)
    assert (hashlib.sha256(database.read_bytes()).hexdigest(), database.stat().st_mtime_ns) == before
    assert [path.name for path in database.parent.iterdir()] == ["a.db"]


def test_other_files_are_no_analysis_databases(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("x")
    other = tmp_path / "b.db"
    sqlite3.connect(other).executescript("CREATE TABLE t (a)").connection.close()
    assert not is_analysis_database(text)
    assert not is_analysis_database(other)
    assert not is_analysis_database(tmp_path)
    assert not is_analysis_database(tmp_path / "none.db")


_WHOLE = write_analysis(Path(tempfile.mkdtemp()) / "whole.db", TWO).read_bytes()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, len(_WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=40),
    cut=st.integers(0, len(_WHOLE)),
)
def test_a_damaged_file_gives_rows_or_an_input_error(tmp_path, changes, cut):
    content = bytearray(_WHOLE)
    for place, value in changes:
        content[place] = value
    path = tmp_path / "damaged.db"
    path.write_bytes(bytes(content[: max(cut, len(content) // 2)]))
    try:
        analysis = read_analysis_database(path)
    except InputError:
        return
    require_frame(analysis.metrics, COMPUTE_METRICS)


# The real file: 7 kernels, 48,405 values; compared with SQL on its base tables, which the reader does not touch.


@pytest.fixture(scope="module")
def real(shared):
    path = shared / "data" / "rocpd" / "rocprof-compute-analysis.db"
    return path, read_analysis_database(path)


@pytest.mark.conformance
def test_every_value_of_the_real_database_is_found_again_by_name(real):
    path, analysis = real
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    base = connection.execute(
        "SELECT k.kernel_name, d.metric_id, d.name, v.value_name, v.value FROM compute_kernel_metric_value v "
        "JOIN compute_metric_definition d ON d.metric_uuid = v.metric_uuid "
        "JOIN compute_kernel k ON k.kernel_uuid = v.kernel_uuid"
    ).fetchall()
    connection.close()
    assert len(base) == 48_405
    rows = analysis.metrics[analysis.metrics["kernel_name"].notna()].astype(object)
    names = ("kernel_name", "metric_id", "metric_name", "value_name")
    values = zip(rows["value"], rows["absence"], strict=True)
    found = dict(zip(zip(*(rows[name] for name in names), strict=True), values, strict=True))
    assert len(found) == len(rows) == 48_405
    for *key, value in base:
        mine, absence = found[tuple(key)]
        if value is None or math.isinf(value):
            assert math.isnan(mine)
            assert absence == ("not_collected" if value is None else "undefined")
        else:
            assert mine == value
    assert len(analysis.metrics) - len(rows) == 6_915


@pytest.mark.conformance
def test_kernels_of_the_real_database_have_the_durations_of_its_dispatches(real):
    path, analysis = real
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    base = connection.execute(
        "SELECT k.kernel_name, count(*), sum(end_timestamp - start_timestamp) FROM compute_dispatch "
        "JOIN compute_kernel k USING (kernel_uuid) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    connection.close()
    rows = analysis.kernels.astype({"kernel_name": str}).sort_values("kernel_name")
    mine = list(zip(rows["kernel_name"], rows["dispatches_count"], rows["pass_sum_ns"], strict=True))
    assert [(name, count, total) for name, count, total in mine] == base
    assert len(base) == 7


@pytest.mark.conformance
def test_the_rate_of_a_real_point_is_flops_over_the_time_of_its_launches(real):
    """What `total_flops` is, which its name does not say: 2 x 3,276,800 FLOP / 802,489 ns."""
    _, analysis = real
    flop = analysis.metrics[
        (analysis.metrics["metric_id"] == "11.3.0").to_numpy() & (analysis.metrics["value_name"] == "Avg").to_numpy()
    ].astype({"kernel_name": str})
    by_kernel = flop.set_index("kernel_name")["value"]
    for row in analysis.kernels.to_dict("records"):
        points = analysis.roofline[(analysis.roofline["kernel_name"] == row["kernel_name"]).to_numpy()]
        expected = by_kernel[row["kernel_name"]] * row["dispatches_count"] / row["pass_sum_ns"] * 1e9
        assert points["pass_flop_per_s"].to_numpy() == pytest.approx([expected] * 3)
    assert by_kernel.max() == 4_456_448


@pytest.mark.conformance
def test_rocpd_refuses_the_real_database_and_names_what_reads_it(shared):
    from rocktools.workspace.workspace import Workspace

    with pytest.raises(InputError) as caught:
        Workspace.open([shared / "data" / "rocpd" / "rocprof-compute-analysis.db"])
    assert "rocktools batch collect" in str(caught.value)
