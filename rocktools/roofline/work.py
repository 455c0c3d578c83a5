"""The input of a roofline: executions on devices with what they calculated and moved, and where these numbers are from.

Times must be those of a trace. Where the only times are those of a counter pass, in which the device runs one kernel at
a time, `WorkOrigin` says so, and so does every point.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.devices.device import Level
from rocktools.errors import UsageError
from rocktools.evidence import Evidence
from rocktools.frames import Column, FrameSpec

WORK = FrameSpec(
    name="ROOFLINE_WORK",
    meaning="One row per execution on a device, under the name of the point that it belongs to.",
    key=("run", "device", "name", "start_ns"),
    sort=("run", "device", "start_ns"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("name", "category", "kernel, instruction, component or replay"),
        Column("start_ns", "int64", "start on the device"),
        Column("end_ns", "int64", "end on the device"),
        Column("unit", "category", "`matrix` or `vector`: where most of it was calculated", "nothing, or unknown"),
        Column("dtype", "category", "format that was calculated in", "nothing, or unknown"),
        Column("compute_flop", "Int64", "floating-point operations", "counted in another row, or unknown"),
        Column("moved_bytes", "Int64", "bytes through the level", "counted in another row, or unknown"),
        Column("is_counted", "bool", "whether FLOPs and bytes are known, in this row or in another of its instruction"),
        Column("is_certain", "bool", "whether it is certain that they belong to this execution"),
        Column("is_execution", "bool", "no: it adds FLOPs of another format to an execution, and takes no time"),
    ),
)


class TimeSource:
    """Names of where times come from."""

    TRACE = "trace"
    COUNTER_PASS = "counter pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrigin:
    """Where the numbers of all rows come from.

    Attributes:
        level: where bytes were counted.
        flop_evidence, bytes_evidence: of the two numbers.
        bytes_label: what the bytes are, for people: `fabric, >= HBM`.
        time_source: `trace`, or `counter pass`.
    """

    level: Level
    flop_evidence: Evidence
    bytes_evidence: Evidence
    bytes_label: str
    time_source: str = TimeSource.TRACE

    @property
    def sentence(self) -> str:
        """Evidence of everything, for a title or legend."""
        flop, moved = (str(each).replace("_", " ") for each in (self.flop_evidence, self.bytes_evidence))
        both = f"FLOPs and bytes: {flop}" if flop == moved else f"FLOPs: {flop}; bytes: {moved}"
        return f"{both} ({self.bytes_label}); time: {self.time_source}"


def pass_times_refused() -> UsageError:
    """The error to raise where times would be those of a counter pass, and nobody asked for them."""
    return UsageError(
        "pass-times-in-roofline",
        "the only times are those of a counter pass, in which kernels run one at a time",
        hint="name the trace of the same job as well, or --pass-times to use them all the same",
    )
