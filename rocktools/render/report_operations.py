"""A summary -> the sections about operations: hot ones, kinds of work, scopes, collectives."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.render.report import Detail, Section, Shown, absent_section, record_table
from rocktools.summary.document import Missing, Operation, Summary
from rocktools.units import count_noun, format_duration

_COST = Evidence.COMPILER_ESTIMATE
_DETAILS = 60
_OPERATIONS = (
    Shown("name", "HLO instruction, or else the kernel or the kind of copy"),
    Shown("exclusive_per_step_ns", "time in which nothing else ran, mean over devices and steps"),
    Shown("exclusive_share_ratio", "share of all exclusive time"),
    Shown("sum_per_step_ns", "durations added up, mean over devices and steps"),
    Shown("share_ratio", "share of the durations"),
    Shown("rows_count", "executions on all devices"),
    Shown("mean_ns", "of one execution"),
    Shown("phase", "part of the step"),
    Shown("component", "part of the model"),
    Shown("opcode", "of the instruction"),
    Shown("scope", "named scopes"),
    Shown("shape", "of the result"),
    Shown("compute_flop", "of one execution", evidence=_COST),
    Shown("moved_bytes", "of one execution", lambda each: _moved(each), _COST),
    Shown("payload_bytes", "of one execution", evidence=_COST),
    Shown("source", "line of the model's code", lambda each: _source(each)),
)


def operations_section(summary: Summary) -> Section:
    """The hottest operations, with what is known of each behind it."""
    anchor, heading = "operations", "Hot operations"
    block = summary.operations
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    table = record_table(
        "operations",
        "By exclusive time",
        block.operations,
        _OPERATIONS,
        evidence=block.evidence,
        is_simulated=summary.is_simulated,
        cut_rows_count=0 if block.rest is None else block.rest.operations_count,
    )
    details = tuple(_detail(place, each) for place, each in enumerate(block.operations[:_DETAILS]))
    rest = (
        ""
        if block.rest is None
        else f" The other {block.rest.operations_count:,} take {format_duration(block.rest.exclusive_ns)} of it."
    )
    text = f"{count_noun(block.operations_count, 'operation')}, {format_duration(block.total_exclusive_ns)} exclusive."
    return Section(
        anchor=anchor,
        heading=heading,
        paragraphs=(text + rest,),
        tables=(table,),
        details=details,
        linked_table="operations",
    )


def _moved(operation: Operation) -> int | None:
    if operation.read_bytes is None or operation.written_bytes is None:
        return None
    return operation.read_bytes + operation.written_bytes


def _source(operation: Operation) -> str | None:
    if operation.source_file is None:
        return None
    return operation.source_file + ("" if operation.source_line is None else f":{operation.source_line}")


def _detail(place: int, operation: Operation) -> Detail:
    lines: list[tuple[str, str | None]] = [
        ("kernels", ", ".join(operation.kernel_names) or None),
        ("op_name", operation.op_name),
        ("shape", operation.shape),
        ("source", _source(operation)),
        ("custom call", operation.custom_call_target),
        ("fingerprint", operation.fingerprint),
        ("HLO", operation.hlo_text),
    ]
    if operation.instruction is not None:
        lines.append(("more", f"rocktools hlo show DUMP {operation.instruction}"))
        lines.append(("alone", f"rocktools extract DUMP --instruction {operation.instruction} -o FOLDER"))
    return Detail(
        anchor=f"operation-{place + 1}",
        title=operation.name,
        lines=tuple((label, text) for label, text in lines if text),
    )


def families_section(summary: Summary) -> Section:
    """Operations by kind of work."""
    anchor, heading = "families", "Kinds of work"
    block = summary.families
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    table = record_table(
        "families",
        "All operations by kind",
        block.families,
        (
            Shown("family", "kind of work"),
            Shown("sum_ns", "durations over devices and steps"),
            Shown("share_ratio", "share of all durations"),
            Shown("exclusive_ns", "in which nothing else ran"),
            Shown("operations_count", "operations"),
            Shown("rows_count", "executions"),
            Shown("compute_flop", "over all executions", evidence=_COST),
            Shown("flop_per_s", "FLOPs over the durations whose FLOPs are known", evidence=_COST),
            Shown("work_covered_ratio", "part of the durations whose FLOPs are known", evidence=_COST),
            Shown("example_operation", "the one with most exclusive time"),
            Shown("rule", "how it was told"),
        ),
        evidence=block.evidence,
        is_simulated=summary.is_simulated,
    )
    return Section(anchor=anchor, heading=heading, tables=(table,))


def regions_section(summary: Summary) -> Section:
    """The hierarchy of scopes."""
    anchor, heading = "regions", "Named scopes"
    block = summary.regions
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    table = record_table(
        "regions",
        "Scopes within each phase; exclusive times add up to all time",
        block.regions,
        (
            Shown("phase", "part of the step"),
            Shown("path", "scopes from the outermost", lambda each: "/".join(each.path) or "(no scope)"),
            Shown("inclusive_per_step_ns", "with what is in scopes inside of it"),
            Shown("exclusive_per_step_ns", "without that"),
            Shown("communication_ns", "part that is communication, over devices and steps"),
            Shown("rows_count", "kernels and copies"),
            Shown("depth_count", "scopes around it"),
        ),
        evidence=block.evidence,
        is_simulated=summary.is_simulated,
        cut_rows_count=block.left_out_count,
    )
    return Section(anchor=anchor, heading=heading, tables=(table,))


def collectives_section(summary: Summary) -> Section:
    """What was communicated, how fast, and who waited."""
    anchor, heading = "collectives", "Communication"
    block = summary.collectives
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    found = [
        record_table(name, title, records, columns, evidence=block.evidence, is_simulated=summary.is_simulated)
        for name, title, records, columns in (
            ("collective-kinds", "By kind and phase", block.kinds, _KINDS),
            ("collectives", "Each collective of the program", block.operations, _COLLECTIVES),
            ("arrivals", "Who waited for whom", block.arrivals, _ARRIVALS),
        )
    ]
    waits = () if block.arrivals else (f"Waiting is not told apart from transfer: {block.arrivals_reason}.",)
    return Section(
        anchor=anchor,
        heading=heading,
        paragraphs=waits,
        tables=tuple(table for table in found if len(table.frame)),
    )


_KINDS = (
    Shown("collective", "kind"),
    Shown("phase", "part of the step"),
    Shown("sum_ns", "durations over devices and steps"),
    Shown("share_ratio", "share of all communication"),
    Shown("instructions_count", "instructions"),
    Shown("rows_count", "executions"),
    Shown("moved_bytes", "payload of all executions", evidence=_COST),
)
_COLLECTIVES = (
    Shown("instruction", "HLO instruction"),
    Shown("collective", "kind"),
    Shown("phase", "part of the step"),
    Shown("sum_ns", "durations over devices and steps"),
    Shown("mean_ns", "of one execution"),
    Shown("wait_ns", "of a mean execution: for the last device"),
    Shown("transfer_ns", "of a mean execution: what is left"),
    Shown("payload_bytes", "of one execution", evidence=_COST),
    Shown("bus_bytes_per_s", "bus bandwidth", evidence=_COST),
    Shown("transfer_bus_bytes_per_s", "bus bandwidth without waiting", evidence=_COST),
    Shown("rows_count", "executions"),
)
_ARRIVALS = (
    Shown("device", "label of the device"),
    Shown("wait_ns", "waiting for others"),
    Shown("transfer_ns", "transfer"),
    Shown("total_ns", "together"),
    Shown("last_count", "collectives at which it came last"),
    Shown("collectives_count", "collectives"),
)
