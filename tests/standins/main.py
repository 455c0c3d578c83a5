"""Where an installed executable starts: `python -I main.py <folder> <tool> <version> <rocm root> [arguments]`.

<folder> is where rocktools is, for environments that do not have it installed.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run one of the three tools."""
    source, tool, version, root, *arguments = sys.argv[1:]
    sys.path[0:0] = [str(Path(__file__).resolve().parents[1]), source]
    from standins.versions import RELEASES

    release, rocm_root = RELEASES[version], Path(root)
    if tool == "rocprofv3":
        from standins.launcher import main as run
    elif tool == "rocprofv3-avail":
        from standins.avail import main as run
    else:
        from standins.rocpd_tool import main as run
    run(arguments, release, rocm_root)


if __name__ == "__main__":
    main()
