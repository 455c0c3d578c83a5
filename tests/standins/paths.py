"""Names of output files: placeholders in `-o` and `-d`, with their traps.

`%nid%` is the rank and not the process, `%q{NAME}` takes the wrong part of the text, and any `%p`, `%h`, `%r`, `%s` or
`%j` in a path is replaced although it was meant literally.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SHORTHANDS = {"h": "hostname", "p": "pid", "j": "job", "r": "rank", "s": "size"}
_UNSAFE = re.compile(r"[/ \t]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """What placeholders are replaced from.

    Attributes:
        pid, ppid, pgid: of the process that writes.
        command: its argv.
        environment: its environment.
        working_folder: its current folder.
        started_s: when it started, seconds since 1970.
    """

    pid: int
    ppid: int
    pgid: int
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    working_folder: Path
    started_s: float

    @property
    def rank(self) -> int:
        """SLURM's process number, else the MPI rank, else 0."""
        for name in ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"):
            if self.environment.get(name, "").isdigit():
                return int(self.environment[name])
        return 0


def output_prefix(facts: ProcessFacts) -> Path:
    """Path of this process's files without `_results.db` and the like."""
    folder = facts.environment.get("ROCPROF_OUTPUT_PATH") or str(facts.working_folder)
    name = facts.environment.get("ROCPROF_OUTPUT_FILE_NAME") or "%hostname%/%pid%"
    return facts.working_folder / replace_keys(folder, facts) / replace_keys(name, facts)


def spill_path(facts: ProcessFacts, domain: str) -> Path:
    """Where the tool keeps records while the application runs."""
    base = facts.environment.get("ROCPROF_TMPDIR") or str(facts.working_folder)
    return facts.working_folder / base / ".rocprofv3" / f"{facts.ppid}-{facts.pid}-{domain}.dat"


def replace_keys(text: str, facts: ProcessFacts) -> str:
    """`text` with every placeholder replaced."""
    keys = _keys(facts)
    text = re.sub(r"%q\{[A-Z0-9_]+\}", "", text)
    text = re.sub(r"(?:%env|\$ENV|\$env)\{([A-Z0-9_]+)\}%?", lambda found: _from_environment(found[1], facts), text)
    text = re.sub(r"%(\w+)%|\{(\w+)\}", lambda found: keys.get(found[1] or found[2], found[0]), text)
    return re.sub(r"%([hpjrs])", lambda found: keys[_SHORTHANDS[found[1]]], text)


def _from_environment(name: str, facts: ProcessFacts) -> str:
    return _UNSAFE.sub("_", facts.environment.get(name, ""))


def _keys(facts: ProcessFacts) -> dict[str, str]:
    environment = facts.environment
    started = time.localtime(facts.started_s)
    words = [_UNSAFE.sub("_", word) for word in facts.command]
    rank = str(facts.rank)
    keys = {
        "argv": "_".join(words),
        "argt": Path(facts.command[0]).name,
        "args": "_".join(words[1:]),
        "tag": Path(facts.command[0]).name,
        "hostname": socket.gethostname(),
        "pid": str(facts.pid),
        "ppid": str(facts.ppid),
        "pgid": str(facts.pgid),
        "psid": str(facts.pgid),
        "psize": "1",
        "job": environment.get("SLURM_JOB_ID", "0"),
        "rank": rank,
        "size": environment.get("SLURM_NTASKS", environment.get("OMPI_COMM_WORLD_SIZE", "1")),
        "nid": rank,
        "cwd": str(facts.working_folder),
        "launch_date": time.strftime(environment.get("ROCPROF_DATE_FORMAT", "%F"), started),
        "launch_time": time.strftime(environment.get("ROCPROF_TIME_FORMAT", "%F_%H.%M"), started),
    }
    keys.update({f"arg{number}": word for number, word in enumerate(words)})
    return keys
