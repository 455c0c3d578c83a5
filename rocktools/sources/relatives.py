"""Files of profilers that are not read, known by their names: what somebody has who looks for a database in vain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.errors import UnknownFormat

_CAPTURE_AGAIN = (
    "capture again with rocpd output, the default of: rocktools trace -o DIR -- CMD... (or rocprofv3 -f rocpd)"
)


@dataclass(frozen=True, slots=True)
class Relative:
    """A kind of file: the names it has, what it is called, what to do instead."""

    reference: str
    names: re.Pattern[str] = field(repr=False)
    what: str
    hint: str


RELATIVES = (
    Relative(
        "not-rocpd-riegeli",
        re.compile(r".*\.xplane\.riegeli"),
        "this is a profile in the container format of a newer xprof, which is not read",
        "profile again with jax.profiler, which writes *.xplane.pb",
    ),
    Relative(
        "not-rocpd-trace-json",
        re.compile(r".*(?:\.trace\.json|perfetto_trace\.json)(?:\.gz)?"),
        "this is the trace viewer's copy of a JAX profile, cut at a number of events and rounded, which is not read",
        "the profile itself lies beside it: *.xplane.pb",
    ),
    Relative(
        "not-rocpd-csv",
        # Domains of rocprofv3, and of AMD's rocpd package, which converts from rocpd.
        re.compile(
            r"(?:.*_)?(?:(?:kernel|domain|regions|scratch_memory|counter_collection|\w+_api|memory_\w+)_(?:trace|stats)"
            r"|agent_info|counter_collection|pc_sampling_\w+)\.csv"
        ),
        "this is CSV output of rocprofv3, which lacks what rocktools needs and is not read",
        _CAPTURE_AGAIN,
    ),
    Relative(
        "not-rocpd-json",
        re.compile(r"(?:.*_)?results\.json"),
        "this is JSON output of rocprofv3, which is read in a run directory only",
        _CAPTURE_AGAIN,
    ),
    Relative(
        "not-rocpd-timeline",
        re.compile(r".*\.(?:pftrace|otf2)"),
        "this is a timeline for another viewer (Perfetto, OTF2), which is not read",
        _CAPTURE_AGAIN,
    ),
)


def recognise_name(path: Path) -> Relative | None:
    """What a file is by its name, or None where the name says nothing."""
    return next((relative for relative in RELATIVES if relative.names.fullmatch(path.name)), None)


def refuse_relative(path: Path) -> None:
    """Refuse a file that is known by its name.

    Raises:
        UnknownFormat: it is.
    """
    relative = recognise_name(path)
    if relative is not None:
        raise UnknownFormat(relative.reference, relative.what, where=str(path), hint=relative.hint)


def find_relative(folder: Path) -> tuple[Path, Relative] | None:
    """The first file in a folder, or below it, that is known by its name."""
    for path in sorted(folder.rglob("*")):
        relative = recognise_name(path)
        if relative is not None and path.is_file():
            return path, relative
    return None
