"""The data folders that travel with rocktools: where they are, in a checkout and in an installed wheel.

In the repository they stand at the top, where people look for them; the wheel carries them in `rocktools/shipped/`
(`force-include` in pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path

from rocktools.errors import ContractError, UsageError, nearest_names

ASSET_FOLDERS = ("counters", "replays")

_PACKAGE = Path(__file__).resolve().parent


def find_asset_folder(name: str) -> Path:
    """The folder of that name, one of `ASSET_FOLDERS`.

    Raises:
        UsageError: there is no such data folder.
        ContractError: the installation lacks it.
    """
    if name not in ASSET_FOLDERS:
        near = nearest_names(name, ASSET_FOLDERS) or ASSET_FOLDERS
        raise UsageError("unknown-asset-folder", f"there is no data folder {name!r}", hint=f"one of: {', '.join(near)}")
    shipped = _PACKAGE / "shipped" / name
    if shipped.is_dir():
        return shipped
    # Beside an installed package lie other packages, one of which may be called `counters`: only a checkout counts.
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise ContractError(
        "asset-folder-missing",
        f"this installation of rocktools lacks its data folder {name!r}",
        where=str(_PACKAGE),
        hint="pip install --force-reinstall rocktools",
    )
