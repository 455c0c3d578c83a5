"""Optional libraries, imported when they are needed and never before: one helper that says what to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from rocktools.errors import MissingExtra


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """The imported optional module.

    Args:
        module: dotted name of the module, such as `pyarrow.parquet`.
        extra: name of the extra of rocktools that installs it.
        purpose: what it is needed for, as the first words of the message: `--format parquet`.

    Raises:
        MissingExtra: it is not installed, or is installed and cannot be imported.
    """
    install = f"pip install 'rocktools[{extra}]'"
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        absent = "which is not installed" if error.name == library else f"which lacks {error.name}"
        raise MissingExtra("missing-extra", f"{purpose} needs {library}, {absent}", hint=install) from error
    except ImportError as error:
        raise MissingExtra(
            "broken-extra", f"{purpose} needs {library}, which cannot be imported: {error}", hint=install
        ) from error
