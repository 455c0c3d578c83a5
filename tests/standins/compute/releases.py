"""Releases of rocprof-compute, as the reference has them; an opinion of its own, shared with nothing under test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release.

    Attributes:
        name: as tests call it.
        column: its place in the option tables.
        told: version that it tells.
        number: for comparisons.
    """

    name: str
    column: int
    told: str
    number: tuple[int, int]

    @property
    def ignores_filters(self) -> bool:
        """`-k` and `-d` do not reach rocprofv3."""
        return self.number == (3, 0)

    @property
    def has_native_tool(self) -> bool:
        """A tool of its own counts, which searches `-k` in names that are cut short."""
        return self.number >= (3, 5)

    @property
    def wipes(self) -> bool:
        """The target folder is deleted before anything else."""
        return self.number < (3, 8)

    @property
    def dispatch_counts_from_zero(self) -> bool:
        return self.number < (3, 5)

    @property
    def checks_ranges(self) -> bool:
        return self.number >= (3, 7)

    @property
    def keeps_quoting(self) -> bool:
        return self.number >= (3, 10)

    @property
    def needs_name(self) -> bool:
        return self.number < (3, 5)

    @property
    def refuses_dots(self) -> bool:
        """Paths with two dots are refused, after the folder is gone."""
        return self.number <= (3, 4)

    @property
    def default_format(self) -> str:
        return "csv" if self.number <= (3, 4) else "rocpd"

    @property
    def has_result_files(self) -> bool:
        """A file for each pass, and no pmc_perf.csv before `analyze`."""
        return self.number >= (3, 6)

    @property
    def packs_results(self) -> bool:
        return self.number >= (3, 9)

    @property
    def schema_version(self) -> str:
        return "2.0.0" if self.number >= (3, 9) else "1.3.0"

    @property
    def line_bytes(self) -> int:
        return 128 if self.number >= (3, 7) else 64


RELEASES: dict[str, Release] = {
    name: Release(name=name, column=column, told=told, number=number)
    for name, column, told, number in (
        ("3.0", 0, "3.0.0", (3, 0)),
        ("3.3", 1, "3.3.0", (3, 3)),
        ("3.3.0-released", 1, "3.3.0", (3, 3)),
        ("3.4", 1, "3.4.0", (3, 4)),
        ("3.5", 2, "3.5.0", (3, 5)),
        ("3.6", 3, "3.6.0", (3, 6)),
        ("3.7", 4, "3.7.0", (3, 7)),
        ("3.8", 5, "3.8.0", (3, 8)),
        ("3.9", 6, "3.9.0", (3, 9)),
        ("3.10", 7, "3.10.0", (3, 10)),
    )
}
