"""Misbehaviour on demand: `name[:argument][@slug][#call],...`; unknown names end the stand-in with code 99."""

from __future__ import annotations

import sys
from dataclasses import dataclass

# Name -> what it does. PASS is the number of a pass, from 0; the last one by default.
FAULTS = {
    "kernel-missing": "[PASS]: the kernel has no row in this pass; a join drops it from all",
    "launches-differ": "[PASS]: one launch fewer in this pass; a join cuts all passes to that",
    "no-data": "nothing is collected: a warning, exit code 0",
    "nan-rows": "[PASS]: the first launch has no number in this pass",
    "partial-rows": "[PASS]: ids of launches are shifted by one in this pass",
    "pass-missing": "[PASS]: this pass leaves nothing, exit code 0",
    "cut-off": "the last file of counters is cut in the middle of a line",
    "extra-kernel": "another kernel is counted too",
    "exit-code": "CODE: at the end, with everything written",
    "workload-fails": "[PASS]: the application counts as failed in this pass: exit code 1, half a folder",
    "says": "TEXT: `profile` prints this, with `_` for blanks, and ends with exit code 1, before it runs anything",
    "half-folder": "log, plan and facts are written, and then it ends with exit code 1",
    "hang": "[PASS]: never ends, in this pass, with the application running",
    "hang-ignoring-sigint": "[PASS]: as hang, but SIGINT does nothing",
    "slow": "SECONDS: every pass takes this much longer",
    "no-folder": "its folder is gone at the end, exit code 0",
    "two-folders": "a second folder lies beside the one of results",
    "no-roofline": "the benchmark leaves no roofline.csv, exit code 0",
    "analyze-fails": "`analyze` ends with a traceback, exit code 1",
    "analyze-nothing": "`analyze` ends with exit code 0 and has written nothing",
    "requirements": "its own Python lacks its requirements: every call ends with 1 at once",
    "reports-version": "VERSION: it tells another version",
    "no-version": "`--version` prints nothing that is a version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: name, argument ("" for none), workload ("" for all), call (0 for all)."""

    name: str
    argument: str
    slug: str
    call: int


class Faults:
    """The faults of one call.

    Args:
        text: of the variable.
        slug: name of the workload of this call.
        call: its number among the calls for this workload, from 1.
    """

    def __init__(self, text: str, *, slug: str = "", call: int = 1) -> None:
        self._active = {
            fault.name: fault.argument
            for fault in parse_faults(text)
            if fault.slug in ("", slug) and fault.call in (0, call)
        }

    def __contains__(self, name: str) -> bool:
        assert name in FAULTS, name
        return name in self._active

    def argument(self, name: str, default: str = "") -> str:
        return self._active.get(name, "") or default

    def is_at(self, name: str, number: int, last: int) -> bool:
        """Whether a fault is active in pass `number` of passes 0 to `last`."""
        return name in self and int(self.argument(name, str(last))) == number


def parse_faults(text: str) -> list[Fault]:
    """The faults of a text."""
    faults = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        rest, _, call = word.partition("#")
        rest, _, slug = rest.partition("@")
        name, _, argument = rest.partition(":")
        if name not in FAULTS:
            print(f"stand-in: no fault is called {name!r}", file=sys.stderr)
            sys.exit(99)
        faults.append(Fault(name=name, argument=argument, slug=slug, call=int(call or 0)))
    return faults
