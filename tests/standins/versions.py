"""The releases that the stand-ins can be. Four are tabulated by the reference; the others follow from its dates."""

from __future__ import annotations

from dataclasses import dataclass

SdkVersion = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release.

    Attributes:
        sdk: version of rocprofiler-sdk.
        rocm: the ROCm release that carries it.
        revision: what `--version` calls git_revision (made up).
        schema: rocpd schema it writes; None where the format did not exist.
        is_tabulated: whether the reference dumped its options; otherwise they follow from dates.
    """

    sdk: str
    rocm: str
    revision: str
    schema: str | None
    is_tabulated: bool

    @property
    def number(self) -> SdkVersion:
        major, minor, patch = (int(part) for part in self.sdk.split("."))
        return major, minor, patch


RELEASES = {
    release.sdk: release
    for release in (
        Release(sdk="0.5.0", rocm="6.3.0", revision="8ab1ed78", schema=None, is_tabulated=True),
        Release(sdk="0.6.0", rocm="6.4.0", revision="00060000", schema=None, is_tabulated=False),
        Release(sdk="1.0.0", rocm="7.0.0", revision="1b1610fc", schema="3", is_tabulated=True),
        Release(sdk="1.1.0", rocm="7.1.0", revision="00110000", schema="3", is_tabulated=False),
        Release(sdk="1.2.0", rocm="7.13.0", revision="00120000", schema="3", is_tabulated=False),
        Release(sdk="1.3.2", rocm="7.14.0", revision="a3c6becc", schema="3.0.1", is_tabulated=True),
        Release(sdk="1.4.1", rocm="10.0.1", revision="01610ac2", schema="3.0.4", is_tabulated=True),
    )
}

# What changed when, as far as the stand-ins act it out.
OWN_REGEX_ENGINE: SdkVersion = (1, 1, 0)
REPEATED_PMC_IS_PASSES: SdkVersion = (1, 2, 0)
REGIONS_GATE_COUNTERS: SdkVersion = (1, 2, 0)
PREFIXED_MESSAGES: SdkVersion = (1, 2, 0)
ROCPD_IS_DEFAULT: SdkVersion = (1, 0, 0)
SPM_FACT_LISTED: SdkVersion = (1, 3, 2)
