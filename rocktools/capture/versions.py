"""Which rocprofv3 it is, and so what it can do and what it gets wrong.

Releases and their SDK versions: ROCm 6.3 is SDK 0.5, 7.0 is 1.0, 7.1 is 1.1, 7.13 is 1.3.0, 7.14 is 1.3.2, 10.0.1 is
1.4.1. Between two releases the options of the tool itself (`--help`) decide, not the number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocktools.errors import CaptureError

_VERSION_LINE = re.compile(r"^[ \t]*([a-z_]+)[ \t]*:[ \t]*(.*?)\s*$", re.MULTILINE)
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_BARE_VERSION = re.compile(r"\s*(?:rocprofv3\W+)?(?:version\W+)?v?\d+\.\d+\S*\s*", re.IGNORECASE)
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]+)")


@dataclass(frozen=True, slots=True, order=True)
class SdkVersion:
    """Version of rocprofiler-sdk."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


FIRST_ROCPD = SdkVersion(1, 0)
FIRST_REGIONS_GATE_COUNTERS = SdkVersion(1, 3)
# The repair (ROCm/rocm-systems#6750) came between two versions with one number: only from here on it is sure.
FIRST_PAUSE_WITH_KERNELS_IN_FLIGHT = SdkVersion(1, 4)
FIRST_KERNEL_REPLAY = SdkVersion(1, 4, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerTool:
    """A rocprofv3 as it answered when asked.

    Attributes:
        executable: how it is started.
        version: of its SDK.
        rocm_version: of the ROCm it belongs to; None where it does not say.
        options: long options that its help names; empty where nobody asked, and then the version decides.
        facts: every line of `--version`, for the manifest.
    """

    executable: str
    version: SdkVersion
    rocm_version: str | None = None
    options: frozenset[str] = frozenset()
    facts: tuple[tuple[str, str], ...] = ()

    def require(self, option: str, *, since: SdkVersion, purpose: str) -> str:
        """`option`, if this tool has it.

        Args:
            since: first version that has it.
            purpose: what it is needed for, for the message.

        Raises:
            CaptureError: it has not.
        """
        has_option = option in self.options if self.options else self.version >= since
        if not has_option:
            raise CaptureError(
                "tool-lacks-option",
                f"{purpose} needs {option}, which this rocprofv3 ({self.version}) does not have",
                where=self.executable,
                hint=f"use a rocprofv3 of SDK {since} or later",
            )
        return option


def parse_version_text(executable: str, text: str) -> ProfilerTool:
    """A tool from what `rocprofv3 --version` prints (`key: value` lines since ROCm 7.0, one number before).

    Raises:
        CaptureError: no version is in it.
    """
    facts = tuple((key, value) for key, value in _VERSION_LINE.findall(text) if value)
    known = dict(facts)
    numbers = _NUMBERS.search(known.get("version", text if _BARE_VERSION.fullmatch(text) else ""))
    if numbers is None:
        raise CaptureError(
            "tool-version-unknown",
            f"it does not tell its version; it printed {text.strip()[:120]!r}",
            where=executable,
            hint=f"run `{executable} --version` by hand",
        )
    major, minor, patch = (int(number or 0) for number in numbers.groups())
    return ProfilerTool(
        executable=executable,
        version=SdkVersion(major, minor, patch),
        rocm_version=known.get("rocm_version"),
        facts=facts,
    )


def parse_help_options(text: str) -> frozenset[str]:
    """The long options that a help text names."""
    return frozenset(_OPTION.findall(text))
