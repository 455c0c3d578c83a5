"""What the user calls a kernel -> a regular expression that every rocprofv3 understands in the same way.

rocprofv3 searches its expression in the demangled name without `.kd`, byte by byte. What of a regular expression can be
relied on is in rocktools.capture.portable_regex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.capture.portable_regex import require_portable_regex
from rocktools.errors import UsageError

# Kernels that wait for another rank: a counter pass runs one kernel at a time per device, and they would never end.
COLLECTIVE_KERNELS = "nccl|rccl|mscclpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFilter:
    """Which kernels a counter pass counts.

    Attributes:
        include: expression for rocprofv3; a kernel is counted if it matches somewhere.
        exclude: expression for kernels that are left out all the same; None for none.
        meaning: the filter in words, for manifests and messages.
    """

    include: str
    exclude: str | None
    meaning: str

    def matches(self, kernel_name: str) -> bool:
        """Whether a kernel of this clean name is counted."""
        if self.exclude is not None and _is_found(self.exclude, kernel_name):
            return False
        return _is_found(self.include, kernel_name)


def exclusion(regex: str | None) -> str | None:
    """What is left out: collectives, and beside them what the user names; nothing at all for an empty expression.

    Raises:
        UsageError: the expression is not one that all engines understand.
    """
    if not regex:
        return COLLECTIVE_KERNELS if regex is None else None
    require_portable_regex(regex)
    return f"{COLLECTIVE_KERNELS}|{regex}"


def filter_names(names: Sequence[str], *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels with exactly these names.

    Raises:
        UsageError: no name is given, or one is empty.
    """
    if not names or not all(names):
        raise UsageError("kernel-name-empty", "a kernel's name cannot be empty")
    # Alternatives at the top, each with its anchors: in `^(f|f_1)$` the home-made engine would never find f_1.
    include = "|".join(f"^{re.escape(name)}$" for name in dict.fromkeys(names))
    return _checked(include, exclude, meaning=f"kernels named {', '.join(names)}", names=names)


def filter_prefix(prefix: str, *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels whose names begin with `prefix`, as the kernels of one HLO instruction do.

    Raises:
        UsageError: the prefix is empty.
    """
    if not prefix:
        raise UsageError("kernel-prefix-empty", "an empty prefix would match every kernel")
    return _checked(f"^{re.escape(prefix)}", exclude, meaning=f"kernels that begin with {prefix}", names=[prefix])


def filter_regex(regex: str, *, exclude: str | None = COLLECTIVE_KERNELS) -> KernelFilter:
    """Kernels that match an expression of the user's, somewhere in the name.

    Raises:
        UsageError: the expression is not one that all engines understand; the reason is named.
    """
    require_portable_regex(regex)
    return _checked(regex, exclude, meaning=f"kernels that match /{regex}/", names=[])


def _checked(include: str, exclude: str | None, *, meaning: str, names: Sequence[str]) -> KernelFilter:
    if exclude is not None:
        require_portable_regex(exclude)
        excluded = [name for name in names if _is_found(exclude, name)]
        if excluded:
            raise UsageError(
                "kernel-is-excluded",
                f"{excluded[0]} is asked for and excluded by /{exclude}/ (a counter pass runs one kernel at a time; "
                "a collective would wait for the other ranks for ever)",
                hint="leave collectives to traces; or give --exclude '' if this kernel waits for nobody",
            )
    return KernelFilter(include=include, exclude=exclude, meaning=meaning)


def _is_found(regex: str, name: str) -> bool:
    """As the tool searches: in bytes, where `\\w` is ASCII and `.` is one byte."""
    pattern, text = (part.encode("utf-8", "surrogateescape") for part in (regex, name))
    return re.search(pattern, text) is not None
