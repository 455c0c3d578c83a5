"""Counters of a kernel -> the metrics that `analyze` shows: a few of them, by formulas of this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Counters = Mapping[str, float]

_HBM_PEAK = 8000.0
_L2_PEAK = 34500.0
_VALU_PEAK = 157_286.4
_MFMA_PEAK = 2_516_582.4
_WAVES_PEAK = 8192.0
_XCD_COUNT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of one kernel: id, titles, unit, and its values by name; None where a counter is missing."""

    metric_id: str
    name: str
    table: str
    sub_table: str
    unit: str
    values: Mapping[str, float | None]


def kernel_metrics(counters: Counters, duration_ns: float, *, line_bytes: int) -> list[Metric]:
    """Metrics from the mean counters of one kernel."""
    return [
        *_speed_of_light(counters, duration_ns, line_bytes),
        *_launch_statistics(counters),
        *_level_2(counters),
    ]


def roofline_point(counters: Counters, duration_ns: float, *, line_bytes: int) -> dict[str, float | None]:
    """Gflop/s, and intensities by level."""
    flops = _flops(counters)
    traffic = {
        "l1": _scaled(counters, "TCP_TOTAL_CACHE_ACCESSES_sum", line_bytes),
        "l2": _l2_bytes(counters, line_bytes),
        "hbm": _sum(_read_bytes(counters), _write_bytes(counters)),
    }
    point = {level: _ratio(flops, data) for level, data in traffic.items()}
    return {"flops": _ratio(flops, duration_ns), **point}


def _speed_of_light(counters: Counters, duration_ns: float, line_bytes: int) -> list[Metric]:
    def rate(number: int, name: str, amount: float | None, unit: str, peak: float) -> Metric:
        value = _ratio(amount, duration_ns)
        return _of_peak(f"2.1.{number}", name, unit, value, peak)

    cycles = counters.get("GRBM_GUI_ACTIVE")
    waves = _ratio(counters.get("SQ_LEVEL_WAVES_ACCUM"), None if cycles is None else cycles / _XCD_COUNT)
    requests = _sum(counters.get("TCC_HIT_sum"), counters.get("TCC_MISS_sum"))
    hits = _ratio(counters.get("TCC_HIT_sum"), requests)
    return [
        rate(0, "VALU FLOPs", _valu_flops(counters), "Gflop/s", _VALU_PEAK),
        rate(4, "MFMA FLOPs (F16)", _scaled(counters, "SQ_INSTS_VALU_MFMA_MOPS_F16", 512), "Gflop/s", _MFMA_PEAK),
        _of_peak("2.1.17", "Wavefront Occupancy", "Wavefronts", waves, _WAVES_PEAK),
        rate(21, "vL1D Cache BW", _scaled(counters, "TCP_TOTAL_CACHE_ACCESSES_sum", line_bytes), "Gb/s", _L2_PEAK),
        _of_peak("2.1.22", "L2 Cache Hit Rate", "Percent", None if hits is None else 100 * hits, 100.0),
        rate(23, "L2 Cache BW", _scaled(counters, "TCC_REQ_sum", line_bytes), "Gb/s", _L2_PEAK),
        rate(24, "L2-Fabric Read BW", _read_bytes(counters), "Gb/s", _HBM_PEAK),
        rate(25, "L2-Fabric Write BW", _write_bytes(counters), "Gb/s", _HBM_PEAK),
    ]


def _of_peak(metric_id: str, name: str, unit: str, value: float | None, peak: float) -> Metric:
    table = "System Speed-of-Light"
    share = None if value is None else 100 * value / peak
    return Metric(
        metric_id=metric_id,
        name=name,
        table=table,
        sub_table=table,
        unit=unit,
        values={"Avg": value, "Peak": peak, "Pct of Peak": share},
    )


def _launch_statistics(counters: Counters) -> list[Metric]:
    return [
        _plain("7.1.2", "Total Wavefronts", "Wavefront", "Wavefront Launch Stats", "Wavefronts", counters, "SQ_WAVES")
    ]


def _level_2(counters: Counters) -> list[Metric]:
    table = "L2 Cache"
    return [
        _plain("17.3.0", "Req", table, "L2 Cache Accesses", "Requests per kernel", counters, "TCC_REQ_sum"),
        _plain("17.3.7", "Hits", table, "L2 Cache Accesses", "Requests per kernel", counters, "TCC_HIT_sum"),
        _plain("17.3.8", "Misses", table, "L2 Cache Accesses", "Requests per kernel", counters, "TCC_MISS_sum"),
    ]


def _plain(
    metric_id: str, name: str, table: str, sub_table: str, unit: str, counters: Counters, counter: str
) -> Metric:
    value = counters.get(counter)
    return Metric(
        metric_id=metric_id,
        name=name,
        table=table,
        sub_table=sub_table,
        unit=unit,
        values={"Avg": value, "Min": value, "Max": value},
    )


def _valu_flops(counters: Counters) -> float | None:
    total = 0.0
    for kind in ("F16", "F32", "F64"):
        for what, factor in (("ADD", 64), ("MUL", 64), ("FMA", 128), ("TRANS", 64)):
            value = counters.get(f"SQ_INSTS_VALU_{what}_{kind}")
            if value is None:
                return None
            total += factor * value
    return total


def _flops(counters: Counters) -> float | None:
    matrix = [
        _scaled(counters, f"SQ_INSTS_VALU_MFMA_MOPS_{kind}", 512)
        for kind in ("F16", "BF16", "F32", "F64", "F8", "F6F4")
    ]
    return _sum(_valu_flops(counters), *matrix)


def _read_bytes(counters: Counters) -> float | None:
    return _sum(*(_scaled(counters, f"TCC_EA0_RDREQ_{size}B_sum", size) for size in (32, 64, 128)))


def _write_bytes(counters: Counters) -> float | None:
    whole, all_of_them = counters.get("TCC_EA0_WRREQ_64B_sum"), counters.get("TCC_EA0_WRREQ_sum")
    return None if whole is None or all_of_them is None else 64 * whole + 32 * (all_of_them - whole)


def _l2_bytes(counters: Counters, line_bytes: int) -> float | None:
    names = ("READ_REQ", "WRITE_REQ", "ATOMIC_WITH_RET_REQ", "ATOMIC_WITHOUT_RET_REQ")
    return _sum(*(_scaled(counters, f"TCP_TCC_{name}_sum", line_bytes) for name in names))


def _scaled(counters: Counters, name: str, factor: float) -> float | None:
    value = counters.get(name)
    return None if value is None else value * factor


def _sum(*values: float | None) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def _ratio(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
