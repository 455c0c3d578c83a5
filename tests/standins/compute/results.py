"""Files of a workload, in the layout of a release: joined and wide, long, or one for each pass."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from standins.compute.device import Launch, Scenario
from standins.compute.planning import Pass
from standins.compute.releases import Release

_WIDE = [
    "Dispatch_ID", "GPU_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup", "Scratch_Per_Workitem", "Arch_VGPR",
    "Accum_VGPR", "SGPR", "Wave_Size", "Kernel_Name", "Correlation_ID", "Kernel_ID",
]  # fmt: skip
_LONG = [
    "Dispatch_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup", "Scratch_Per_Workitem", "Arch_VGPR",
    "Accum_VGPR", "SGPR", "Kernel_Name", "Start_Timestamp", "End_Timestamp", "Kernel_ID", "Counter_Name",
    "Counter_Value",
]  # fmt: skip
_GPU = 2
_PACKED_BYTES = 2_000
_GUID = "000233e4-d7b1-77b1-bc57-4b5e8997857f"
# A row of a benchmark of an MI355X: name, value in GB/s or Gflop/s.
_PEAKS = {
    "HBMBw": 6237.0, "MALLBw": 8497.0, "L2Bw": 34514.0, "L1Bw": 38008.0, "LDSBw": 54161.0, "FP32Flops": 150420.0,
    "MFMAF16Flops": 1229005.0, "MFMABF16Flops": 616228.0, "MFMAF8Flops": 2456336.0, "MFMAF4Flops": 9769632.0,
}  # fmt: skip

PassRows = list[tuple[Pass, list[Launch]]]


def write_plan(folder: Path, passes: Sequence[Pass], release: Release) -> None:
    """`perfmon/`: a file for each pass, and definitions beside it."""
    perfmon = folder / "perfmon"
    perfmon.mkdir(parents=True)
    for each in passes:
        if release.has_result_files:
            name = each.name if each.name.startswith("pmc_perf_") else f"pmc_perf_{each.name}"
            counters = "".join(f"  - {counter}\n" for counter in each.counters)
            (perfmon / f"{name}.yaml").write_text(f"jobs:\n- pmc:\n{counters}", encoding="utf-8")
            suffix = name.removeprefix("pmc_perf_")
            (perfmon / f"counter_def_{suffix}.yaml").write_text("rocprofiler-sdk:\n  counters: []\n", encoding="utf-8")
        else:
            text = f"pmc: {' '.join(each.counters)}\n\ngpu:\nrange:\nkernel:\n"
            (perfmon / f"{each.name}.txt").write_text(text, encoding="utf-8")


def write_facts(
    folder: Path, release: Release, scenario: Scenario, *, slug: str, command: str, config: dict[str, object]
) -> None:
    """sysinfo.csv, profiling_config.yaml and log.txt."""
    channels = "num_memory_channels" if release.number >= (3, 8) else "num_hbm_channels"
    facts: dict[str, object] = {
        "workload_name": slug, "command": command, "ip_blocks": "SQ|LDS|SQC|TA|TD|TCP|TCC|SPI|CPC|CPF",
        "timestamp": "Mon Nov 30 12:00:00 2026 (UTC)", "version": "3", "hostname": "node", "cpu_model": "EPYC",
        "rocm_version": "7.14.0", "compute_partition": "SPX", "memory_partition": "NPS1", "gpu_series": "MI350",
        "gpu_model": scenario.gpu_model, "gpu_arch": scenario.gpu_arch, "gpu_l1": 32, "gpu_l2": 4096,
        "cu_per_gpu": 256, "simd_per_cu": 4, "se_per_gpu": 32, "wave_size": 64, "workgroup_max_size": 1024,
        "max_waves_per_cu": 32, "max_sclk": 2400, "max_mclk": 2000, "cur_sclk": 2400, "cur_mclk": 2000,
        "total_l2_chan": 128, "lds_banks_per_cu": 64, "sqc_per_gpu": 128, "pipes_per_gpu": 4, "num_xcd": 8,
        channels: 128,
    }  # fmt: skip
    if release.number >= (3, 7):
        facts.pop("workload_name")
        facts = {"workload_path": str(folder), **facts}
    write_table(folder / "sysinfo.csv", [list(facts), list(facts.values())])
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in sorted(config.items())]
    (folder / "profiling_config.yaml").write_text("".join(lines), encoding="utf-8")
    (folder / "log.txt").write_text("INFO stand-in\n", encoding="utf-8")


def write_results(
    folder: Path, collected: PassRows, release: Release, output_format: str, *, is_one_run: bool
) -> list[Path]:
    """The counters of all passes; what was written."""
    if release.has_result_files and is_one_run:
        counters = tuple(dict.fromkeys(counter for each, _ in collected for counter in each.counters))
        rows = [launch for _, launches in collected for launch in launches]
        path = write_pass(folder, Pass(name="pmc_perf_0", counters=counters), rows, release, "rocpd")
        return [path] if path is not None else []
    if release.has_result_files:
        return [path for each, rows in collected if (path := write_pass(folder, each, rows, release, output_format))]
    if output_format == "rocpd":
        path = folder / "pmc_perf.csv"
        write_table(path, [_long_header(release), *(row for each in collected for row in _long_rows(each[1], release))])
        return [path]
    return _write_joined(folder, collected)


def write_pass(folder: Path, each: Pass, rows: list[Launch], release: Release, output_format: str) -> Path | None:
    """The file of one pass, of releases that have such; packed where it is large."""
    if not rows:
        return None
    stem = each.name if each.name.startswith("pmc_perf_") else f"pmc_perf_{each.name}"
    path = folder / f"results_{stem}.csv"
    if output_format == "rocpd":
        table: list[list[object]] = [_long_header(release), *_long_rows(rows, release)]
    else:
        table = _wide_table(each, rows)
    text = _text(table)
    if release.packs_results and len(text) > _PACKED_BYTES:
        path = path.with_name(f"{path.name}.gz")
        with gzip.open(path, "wt", encoding="utf-8", newline="") as stream:
            stream.write(text)
    else:
        path.write_text(text, encoding="utf-8", newline="")
    return path


def write_roofline(folder: Path) -> None:
    """roofline.csv: one device."""
    header: list[object] = ["device"]
    values: list[object] = [0]
    for name, value in _PEAKS.items():
        header += [name, f"{name}Low", f"{name}High"]
        values += [value, value * 0.98, value * 1.02]
    write_table(folder / "roofline.csv", [header, values])


def write_table(path: Path, table: Sequence[Sequence[object]]) -> None:
    """A CSV file."""
    path.write_text(_text(table), encoding="utf-8", newline="")


def _text(table: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(table)
    return stream.getvalue()


def _long_header(release: Release) -> list[object]:
    return ["GPU_ID", *(["GUID", "Correlation_Id"] if release.number >= (3, 7) else []), *_LONG]


def _long_rows(rows: Sequence[Launch], release: Release) -> list[list[object]]:
    table: list[list[object]] = []
    for launch in rows:
        call: list[object] = [_GUID, launch.dispatch_id + 20] if release.number >= (3, 7) else []
        described = [
            launch.dispatch_id,
            launch.grid,
            256,
            0,
            0,
            4,
            0,
            16,
            launch.kernel,
            launch.start_ns,
            launch.end_ns,
        ]
        for counter, value in launch.values.items():
            table.append([_GPU, *call, *described, 12, counter, "" if value is None else float(value)])
    return table


def _wide_table(each: Pass, rows: Sequence[Launch]) -> list[list[object]]:
    """One pass; an accumulated level is called the same in every file."""
    names = ["SQ_ACCUM_PREV_HIRES" if counter.endswith("_ACCUM") else counter for counter in each.counters]
    table: list[list[object]] = [[*_WIDE, *names, "Start_Timestamp", "End_Timestamp"]]
    for number, launch in enumerate(rows):
        values = ["" if launch.values[counter] is None else launch.values[counter] for counter in each.counters]
        table.append([*_described(number, launch), *values, launch.start_ns, launch.end_ns])
    return table


def _described(number: int, launch: Launch) -> list[object]:
    return [number, _GPU, launch.grid, 256, 0, 0, 4, 0, 16, 64, launch.kernel, launch.dispatch_id, 12]


def _write_joined(folder: Path, collected: PassRows) -> list[Path]:
    """pmc_perf.csv: an inner join of the passes by kernel and number of launch; levels keep files of their own."""
    written = []
    for each, rows in collected:
        if each.is_level and rows:
            path = folder / f"{each.name}.csv"
            write_table(path, _wide_table(each, rows))
            written.append(path)
    plain = [(each, _by_place(rows)) for each, rows in collected if not each.is_level]
    if not plain or any(not rows for _, rows in plain):
        return written
    keys = [key for key in plain[0][1] if all(key in rows for _, rows in plain)]
    header: list[object] = list(_WIDE)
    for number, (each, _) in enumerate(plain):
        header += [*([f"Kernel_ID_{number}"] if number else []), *each.counters]
    table: list[list[object]] = [[*header, "Start_Timestamp", "End_Timestamp"]]
    for place, key in enumerate(keys):
        row: list[object] = _described(place, plain[0][1][key])
        for number, (each, rows) in enumerate(plain):
            values = rows[key].values
            row += [*([12] if number else []), *("" if values[one] is None else values[one] for one in each.counters)]
        starts = [rows[key].start_ns for _, rows in plain]
        ends = [rows[key].end_ns for _, rows in plain]
        table.append([*row, sum(starts) // len(starts), sum(ends) // len(ends)])
    path = folder / "pmc_perf.csv"
    write_table(path, table)
    return [*written, path]


def _by_place(rows: Sequence[Launch]) -> dict[tuple[str, int], Launch]:
    seen: dict[str, int] = defaultdict(int)
    found = {}
    for launch in rows:
        found[launch.kernel, seen[launch.kernel]] = launch
        seen[launch.kernel] += 1
    return found
