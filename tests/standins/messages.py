"""What rocprofv3 and its library print: the launcher's plain lines, and the library's lines with a head.

The library's lines look like `E0720 12:00:00.000000 4711 generateRocpd.cpp:1076] text`; which of them appear follows
ROCPROF_LOG_LEVEL, whose default is `warning`. The launcher's fatal lines end in exit code 1.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import NoReturn

from standins.versions import PREFIXED_MESSAGES, SdkVersion

_LEVELS = ("fatal", "error", "warning", "info", "trace")


def fatal(version: SdkVersion, text: str) -> NoReturn:
    """The launcher gives up: one line on stderr, exit code 1."""
    print(f"{_prefix(version)}Fatal error: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


def warn(version: SdkVersion, text: str) -> None:
    """A warning of the launcher."""
    print(f"{_prefix(version)}Warning: {text}", file=sys.stderr, flush=True)


def _prefix(version: SdkVersion) -> str:
    return "[rocprofv3] " if version >= PREFIXED_MESSAGES else ""


def log(environment: Mapping[str, str], level: str, source: str, text: str) -> None:
    """A line of the library, where its level is shown."""
    wanted = environment.get("ROCPROF_LOG_LEVEL", "warning")
    shown = _LEVELS.index(wanted) if wanted in _LEVELS else _LEVELS.index("warning")
    if _LEVELS.index(level) > shown:
        return
    now = time.time()
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1e6) % 1_000_000:06d}"
    print(f"{level[0].upper()}{stamp} {os.getpid()} {source}] {text}", file=sys.stderr, flush=True)
