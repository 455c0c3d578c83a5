"""What commands on summaries take: the file that `rocktools summarize` wrote, or the run itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocktools.cli.progress import working

if TYPE_CHECKING:
    from rocktools.summary.document import Summary


def load_summary(argument: str) -> Summary:
    """The summary in a file, or that of a run directory, a trace or a profile, made on the spot.

    Raises:
        InputError: it cannot be read.
    """
    from rocktools.summary.document import read_summary

    path = Path(argument)
    if path.suffix.lower() == ".json" or (path.is_file() and _begins_like_json(path)):
        return read_summary(path)
    from rocktools.attribution.component_map_file import read_shipped_map
    from rocktools.summary.build import build_summary
    from rocktools.summary.gathered import SummaryOptions
    from rocktools.workspace.attributed import AttributionOptions

    options = SummaryOptions(attribution=AttributionOptions(component_map=read_shipped_map()))
    with working(f"summarizing {path.name}"):
        return build_summary([argument], options)


def _begins_like_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip().startswith(b"{")
    except OSError:
        return False
