"""Groups of counters that fit into one pass: packed from the table of blocks, confirmed by the tool where it is there.

`rocprofv3-avail pmc-check` makes the very request that the run will make. Its exit code is the answer; its text is not
(it does not say which counter or block was too much, and some versions leave names out). A group that it refuses is
halved until it is accepted; a single counter that it refuses cannot be collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.capture.rocprofv3 import pmc_check_argv
from rocktools.errors import CaptureError
from rocktools.findings import Finding, Severity
from rocktools.process import read_output

# It lists all counters of all devices anew for each name.
_CHECK_TIMEOUT_S = 120.0
_REFUSAL_TEXTS = ("not collected on agent", "Invalid counter name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedGroups:
    """Groups of counters, one for each pass.

    Attributes:
        groups: counters that are collected together.
        confirmed_by: `rocprofv3-avail pmc-check`, or `table` where only the block capacities speak for them.
        findings: what had to be changed, and why nobody could be asked.
    """

    groups: tuple[tuple[str, ...], ...]
    confirmed_by: str
    findings: tuple[Finding, ...]


def confirm_groups(
    groups: Sequence[Sequence[str]], *, avail: Path | None, device: int, environment: Mapping[str, str]
) -> ConfirmedGroups:
    """Ask the tool about each group.

    Args:
        avail: rocprofv3-avail; None where there is none, and then the table has to do.
        device: index of the GPU that is asked about.

    Raises:
        CaptureError: the tool refuses a counter on its own.
    """
    packed = tuple(tuple(group) for group in groups)
    if avail is None:
        return ConfirmedGroups(groups=packed, confirmed_by="table", findings=())
    confirmed: list[tuple[str, ...]] = []
    findings: list[Finding] = []
    for group in packed:
        try:
            parts = _confirm(avail, group, device, environment)
        except _NoAnswerError as error:
            return ConfirmedGroups(groups=packed, confirmed_by="table", findings=(_unusable(avail, error.reason),))
        confirmed += parts
        if len(parts) == 1:
            continue
        findings.append(
            Finding(
                rule="group-refused-by-tool",
                severity=Severity.WARNING,
                where=str(avail),
                message=(
                    f"{', '.join(group)} fit by our table, but pmc-check refuses them: split into {len(parts)} passes"
                ),
                numbers={"passes_count": len(parts)},
                advice="ratios between counters of different passes are not sound",
            )
        )
    return ConfirmedGroups(groups=tuple(confirmed), confirmed_by="rocprofv3-avail pmc-check", findings=tuple(findings))


class _NoAnswerError(Exception):
    """The tool neither accepts nor refuses: it does not work here."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _confirm(avail: Path, group: tuple[str, ...], device: int, environment: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The group, or the parts of it that are accepted."""
    if _is_accepted(avail, group, device, environment):
        return [group]
    if len(group) == 1:
        raise CaptureError(
            "counter-refused-by-tool",
            f"rocprofv3-avail cannot collect {group[0]} on device {device}",
            where=str(avail),
            hint="rocprofv3-avail list --pmc shows what this installation knows; is it the right device (--device)?",
        )
    middle = len(group) // 2
    halves = (group[:middle], group[middle:])
    return [part for half in halves for part in _confirm(avail, half, device, environment)]


def _is_accepted(avail: Path, group: Sequence[str], device: int, environment: Mapping[str, str]) -> bool:
    argv = pmc_check_argv(str(avail), group, device=device)
    try:
        output = read_output(argv, env=environment, timeout_s=_CHECK_TIMEOUT_S)
    except CaptureError as error:  # it hangs, or cannot be started
        raise _NoAnswerError(error.what) from error
    if output.exit_code == 0:
        return True
    # Of a counter's own restriction (X:device=9); else it is --device that this machine does not have.
    is_of_counter = "Invalid device id" in output.stderr and any(":device=" in name for name in group)
    if output.exit_code == 1 and (is_of_counter or any(text in output.stderr for text in _REFUSAL_TEXTS)):
        return False
    last_line = (output.stderr.strip().splitlines() or ["without a word"])[-1]
    raise _NoAnswerError(f"code {output.exit_code}: {last_line[:200]}")


def _unusable(avail: Path, reason: str) -> Finding:
    return Finding(
        rule="pmc-check-unusable",
        severity=Severity.WARNING,
        where=str(avail),
        message=f"it does not say whether counters fit ({reason}), so the groups rest on our table of capacities alone",
        advice="run it by hand; if librocprofv3-list-avail.so is missing, ROCPROF_LIST_AVAIL_TOOL_LIBRARY can name it",
    )
