"""The summary of a run: one versioned JSON document (`rocktools.summary/1`, summary.schema.json beside this file).

Everything that is compared, asked, reported and drawn is taken from it, so it stands for the run where the traces are
not at hand. A block whose inputs were not there is `Missing` with a reason. The blocks:

    metadata       what ran: runs, devices, programs, the configuration of the job as far as it is known
    provenance     files with their hashes; versions, flags, device, partition, options: what a comparison asks first
    quality        how much was recorded, whether it is whole, and every doubt (findings)
    steps          steps of the trace: series of the job and of each device, statistics, light and heavy classes
    step_log       steps of an unprofiled run, by its log
    throughput     tokens over unprofiled time; never made of a profiled run
    ledger         phases and components, with sums that close; buckets with their series over the steps
    overlap        unions and intersections on each device, reconciled with the step; spread and critical device
    operations     HLO instructions by exclusive time, with fingerprint, scope, kernels, sizes and source line
    families       the same by kind of work, with the compiler's FLOPs and bytes
    collectives    kinds, operations, rates, arrival skew
    gaps           idle time by payload, marker and cause
    regions        the hierarchy of scopes, for each phase
    counters       quantities of counter passes, of the job and of replays, with the proof of the latter
    roofline       points under ceilings
    memory         reserved by programs, allocated on devices
    candidates     what the numbers suggest to try, each with those numbers

Times are nanoseconds, and units are in names. `quality.findings` speaks for all blocks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, InputError, UnknownFormat, UnsupportedVersion
from rocktools.summary.document_facts import (
    JOB_FACTS,
    PROVENANCE_FACTS,
    DeviceFacts,
    Fact,
    InputFile,
    LinkMethod,
    Missing,
    Provenance,
    Quality,
    RunMetadata,
    Statistics,
    TraceOverview,
    Value,
)
from rocktools.summary.document_hardware import (
    AbsentQuantity,
    AllocatorPeak,
    Candidate,
    CandidateEvidence,
    CounterQuantity,
    CountersBlock,
    DeviceHighWater,
    LiveValue,
    MemoryBlock,
    ProgramReserve,
    RooflineBlock,
    RooflinePoint,
    RooflineTable,
)
from rocktools.summary.document_json import from_plain, to_plain
from rocktools.summary.document_operations import (
    FamiliesBlock,
    Family,
    Operation,
    OperationsBlock,
    Region,
    RegionsBlock,
    RestOfOperations,
)
from rocktools.summary.document_steps import (
    DeviceSteps,
    JobStep,
    LoggedStep,
    StepClass,
    StepLog,
    Steps,
    StepSample,
    Throughput,
)
from rocktools.summary.document_time import (
    ArrivalSkew,
    Collective,
    CollectiveKind,
    CollectivesBlock,
    Gap,
    GapBefore,
    GapCauseTotal,
    GapsBlock,
    LedgerBlock,
    LedgerBucket,
    LedgerRow,
    LedgerTable,
    OperationSkew,
    OverlapBlock,
    OverlapMeans,
    OverlapStep,
    QuantitySpread,
)

__all__ = [
    "JOB_FACTS",
    "PROVENANCE_FACTS",
    "SCHEMA",
    "SCHEMA_FILE",
    "AbsentQuantity",
    "AllocatorPeak",
    "ArrivalSkew",
    "Candidate",
    "CandidateEvidence",
    "Collective",
    "CollectiveKind",
    "CollectivesBlock",
    "CounterQuantity",
    "CountersBlock",
    "DeviceFacts",
    "DeviceHighWater",
    "DeviceSteps",
    "Fact",
    "FamiliesBlock",
    "Family",
    "Gap",
    "GapBefore",
    "GapCauseTotal",
    "GapsBlock",
    "InputFile",
    "JobStep",
    "LedgerBlock",
    "LedgerBucket",
    "LedgerRow",
    "LedgerTable",
    "LinkMethod",
    "LiveValue",
    "LoggedStep",
    "MemoryBlock",
    "Missing",
    "Operation",
    "OperationSkew",
    "OperationsBlock",
    "OverlapBlock",
    "OverlapMeans",
    "OverlapStep",
    "ProgramReserve",
    "Provenance",
    "Quality",
    "QuantitySpread",
    "Region",
    "RegionsBlock",
    "RestOfOperations",
    "RooflineBlock",
    "RooflinePoint",
    "RooflineTable",
    "RunMetadata",
    "Statistics",
    "StepClass",
    "StepLog",
    "StepSample",
    "Steps",
    "Summary",
    "Throughput",
    "TraceOverview",
    "Value",
    "parse_summary",
    "read_summary",
    "render_summary",
    "summary_document",
]

SCHEMA = "rocktools.summary/1"
SCHEMA_FILE = Path(__file__).resolve().parent / "summary.schema.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run.

    Attributes:
        schema: `SCHEMA`.
        rocktools_version: of the program that made it.
        generated_at_utc: ISO 8601; None where it was suppressed. Nothing else in it depends on when it was made.
        title: one line for people.
        is_simulated: whether any input says that no hardware produced it.
        metadata, provenance, ...: the blocks, as described above.
    """

    schema: str
    rocktools_version: str
    generated_at_utc: str | None
    title: str
    is_simulated: bool
    metadata: RunMetadata
    provenance: Provenance
    quality: Quality
    steps: Steps | Missing
    step_log: StepLog | Missing
    throughput: Throughput | Missing
    ledger: LedgerBlock | Missing
    overlap: OverlapBlock | Missing
    operations: OperationsBlock | Missing
    families: FamiliesBlock | Missing
    collectives: CollectivesBlock | Missing
    gaps: GapsBlock | Missing
    regions: RegionsBlock | Missing
    counters: CountersBlock | Missing
    roofline: RooflineBlock | Missing
    memory: MemoryBlock | Missing
    candidates: tuple[Candidate, ...]


def render_summary(summary: Summary) -> str:
    """The document as JSON text: members in the order of the blocks, a newline at the end."""
    return json.dumps(summary_document(summary), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def summary_document(summary: Summary) -> dict[str, Any]:
    """The document as plain values, ready for `json.dump`."""
    document: dict[str, Any] = to_plain(summary)
    return document


def read_summary(path: Path) -> Summary:
    """The document of a file.

    Raises:
        InputError: it cannot be read.
        UnknownFormat: it is something else; UnsupportedVersion: another version of it.
        DamagedFile: it is no JSON, or a member is not what the schema says.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UnknownFormat("not-a-summary", "this is no text, and no summary", where=str(path)) from error
    return parse_summary(text, where=str(path))


def parse_summary(text: str, *, where: str) -> Summary:
    """The document of a JSON text; errors as in `read_summary`."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFile("summary-json", f"this is no JSON: {error}", where=where) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith("rocktools.summary/"):
        is_marin = isinstance(document, dict) and document.get("schema_version") == "profile_summary.v1"
        what = (
            "a profile_summary.v1" if is_marin else f"a document {schema!r}" if schema else "no document of rocktools"
        )
        raise UnknownFormat(
            "not-a-summary", f"this is {what}, not a summary", where=where, hint="rocktools summarize RUN -o FILE.json"
        )
    if schema != SCHEMA:
        what = f"this is {schema}; this rocktools reads {SCHEMA}"
        raise UnsupportedVersion("summary-version", what, where=where, hint="rocktools summarize it again")
    _require_texts(document, where)
    return from_plain(Summary, document, where=where)


def _require_texts(document: object, where: str) -> None:
    """JSON can escape half of a pair of UTF-16, which no text can hold."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise DamagedFile("summary-json", "a text in it is no Unicode", where=where) from error
