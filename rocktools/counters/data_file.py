"""Data files of the folder counters/: YAML that travels with rocktools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# Ten times as fast where PyYAML was built with libyaml, and the same documents.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_data_file(path: Path) -> Any:
    """The content of one data file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # a safe loader, of either kind
