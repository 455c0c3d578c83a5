"""Every fusion of compiled programs: its readable form translates, compiles, and agrees; counts and worst differences.

Run as `scripts/bench readable [PROGRAM...]`. Programs are folders of XLA dumps or files of optimized HLO; those under
ROCKTOOLS_SHARED where none is named. What is shown of each fusion, and within which tolerances, readable_agreement.py
says. Each fusion is checked in a worker process, since a failed check inside XLA ends the process; its result is
written at once, so that the command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import logging
import os
import resource
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED_PROGRAMS = (
    "data/hlo/gfx950-mixtral-8x22b/triton",
    "data/hlo/gfx950-mixtral-8x22b/blaslt",
    "data/hlo/gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt",
    "data/hlo/gfx950/lhs_on.after_optimizations.txt",
    "data/hlo/gfx950/moe_ragged_grouped.after_optimizations.txt",
    "data/hlo/gfx942/module_0011.jit_gspmd.gfx942_gpu_after_optimizations.txt",
    "data/hlo/gfx942/module_0014.jit_shardmap.gfx942_gpu_after_optimizations.txt",
)
WORKER = "--worker"
_MEMORY_BYTES = 12 * 2**30
_FOLLOWED = ("shrink_program.py", "plain_program.py", "readable_agreement.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fusion of a program: its replay, or why it has none."""

    program: str
    instruction: str
    data: bytes = b""
    refusal: str = ""

    def key(self, is_compiled: bool, sources: str) -> str:
        """Changes with the program, with what is checked, and with the code that does."""
        parts = (self.data, self.refusal.encode(), str(is_compiled).encode(), sources.encode())
        return hashlib.sha256(b"/".join(parts)).hexdigest()


def read_cases(path: Path) -> list[Case]:
    """The replays of all fusions that the program launches; what is no fusion is left out."""
    from rocktools.errors import CannotExtract
    from rocktools.hlo.dumps import find_dumps, read_program
    from rocktools.replay.extract import build_job_program, build_replay
    from rocktools.replay.proto_edit import parse_text_program
    from rocktools.replay.select import select_all

    program = read_program(find_dumps(path)[0] if path.is_dir() else path)
    protos = sorted(path.glob("*.hlo.pb")) if path.is_dir() else []
    data = protos[0].read_bytes() if protos else parse_text_program(path.read_text(encoding="utf-8"), str(path))
    job = build_job_program(program, data, str(path))
    found = []
    for selection in select_all(program):
        if selection.instruction.opcode != "fusion":
            continue
        name = selection.instruction.name
        try:
            replay = build_replay(job, selection, rocktools_version="bench")
        except CannotExtract as error:
            found.append(Case(program=path.name, instruction=name, refusal=error.what))
        else:
            found.append(Case(program=path.name, instruction=name, data=replay.program.data))
    return found


class Worker:
    """A process that checks one fusion after another; a new one after it died or took too long."""

    def __init__(self, log: Path, deadline_s: float) -> None:
        self._log, self._deadline_s = log, deadline_s
        self._process: subprocess.Popen[bytes] | None = None

    def check(self, case: Case, *, is_compiled: bool) -> dict[str, Any]:
        """The fields of an Agreement."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = {"data": base64.b64encode(case.data).decode(), "seed": case.instruction, "is_compiled": is_compiled}
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
            ready, _, _ = select.select([self._process.stdout], [], [], self._deadline_s)
            line = self._process.stdout.readline() if ready else b""
        except OSError:
            line, ready = b"", [True]
        if not line:
            self.close()
            return {"problem": "the process ended" if ready else f"it took more than {self._deadline_s:.0f} s"}
        found: dict[str, Any] = json.loads(line)
        return found

    def _start(self) -> None:
        # Of the shared file descriptor 1 only results may be written to: libraries print where they like.
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), WORKER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment,
            )  # fmt: skip

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def work() -> None:
    """The worker: a task a line on stdin, a result a line on stdout."""
    with contextlib.suppress(ValueError, OSError):  # not every system has the limit
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import jax
    from readable_agreement import Agreement, check_readable

    jax.config.update("jax_enable_x64", True)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            found = check_readable(base64.b64decode(task["data"]), task["seed"], is_compiled=task["is_compiled"])
        except Exception as error:  # whatever XLA or jax raises is a result
            found = Agreement(problem=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        print(json.dumps(found.as_dict()), file=results, flush=True)


def known_results(path: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs found, by key; a last line that was cut is left out."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            found[record["key"]] = record
    return found


def check_all(
    cases: Sequence[Case], results: Path, *, is_compiled: bool, deadline_s: float
) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Each case with what was found, now or before."""
    from rocktools import replay

    folders = [Path(__file__).parent / name for name in _FOLLOWED]
    folders += sorted(Path(replay.__file__).parent.glob("*.py"))
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in folders)).hexdigest()
    results.parent.mkdir(parents=True, exist_ok=True)
    known, worker = known_results(results), Worker(results.with_suffix(".log"), deadline_s)
    started = time.monotonic()
    try:
        for number, case in enumerate(cases, 1):
            key = case.key(is_compiled, sources)
            if key not in known:
                found = {"refusal": case.refusal} if case.refusal else worker.check(case, is_compiled=is_compiled)
                known[key] = {"key": key, "program": case.program, "instruction": case.instruction, **found}
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(known[key]) + "\n")
            if sys.stderr.isatty() and (number % 10 == 0 or number == len(cases)):
                print(f"\r{number} of {len(cases)}, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)
            yield case, known[key]
    finally:
        worker.close()


def report(name: str, found: Sequence[dict[str, Any]]) -> list[str]:
    """The lines about one program."""
    if not found:
        return [f"{name}: no fusion"]
    refused = [each for each in found if each.get("refusal")]
    broken = [each for each in found if each.get("problem")]
    compared = [each for each in found if not each.get("refusal") and not each.get("problem")]
    apart = [each for each in compared if not each["has_same_text"] or each["worst_ratio"] > 1]
    worst = max((each["worst_ratio"] for each in compared), default=0.0)
    compiled_count = sum(bool(each["compiles"]) for each in compared)
    equal = [sum(each[f"is_equal_to_{side}"] for each in compared) for side in ("xla", "interpreter")]
    results_count, finite_count, varied_count = (
        sum(each[f"{kind}_count"] for each in compared) for kind in ("results", "finite", "varied")
    )
    largest = max((each["elements_after"] for each in compared), default=0)
    dtypes = Counter(dtype for each in compared for dtype in each["dtypes"])
    listed = ", ".join(f"{count} {dtype}" for dtype, count in sorted(dtypes.items()))
    lines = [
        f"{name}: {len(found)} fusions, {len(found) - len(refused)} translated, {len(refused)} refused, "
        f"{compiled_count} compiled at full size, {len(compared)} compared, {len(compared) - len(apart)} agree",
        f"  to the last bit: {equal[0]} with XLA's reading, {equal[1]} with the interpreter; "
        f"worst difference {worst:.3g} of the tolerance",
        f"  small programs: the same text for {sum(each['has_same_text'] for each in compared)}, "
        f"at most {largest:,} elements",
        f"  {results_count} results ({listed}); {results_count - finite_count} without a finite value, "
        f"{results_count - varied_count} of one value throughout; "
        f"{sum(each['rounds_count'] > 1 for each in compared)} fusions also with absolute values",
    ]
    for reason, count in Counter(each["refusal"].partition(": ")[2] or each["refusal"] for each in refused).items():
        lines.append(f"  refused: {count} x {reason}")
    lines += [f"  {each['instruction']}: {each['problem']}" for each in broken]
    lines += [f"  {each['instruction']}: differs ({each['worst_ratio']:.3g} of the tolerance)" for each in apart]
    return lines


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == [WORKER]:
        work()
        return 0
    # Without a GPU jax logs a traceback for AMD's plugin, which nothing here uses.
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="scripts/bench readable", description="Readable forms of whole programs.")
    parser.add_argument("programs", nargs="*", type=Path, help="default: those under ROCKTOOLS_SHARED")
    parser.add_argument("--every", type=int, default=1, help="only each Nth fusion")
    parser.add_argument("--no-compile", action="store_true", help="leave out compiling at full size")
    parser.add_argument("--deadline", type=float, default=300, help="seconds for one fusion (default 300)")
    parser.add_argument("--results", type=Path, default=Path("bench-results/readable.jsonl"), help="file to go on with")
    options = parser.parse_args(arguments)
    programs = options.programs or _shared_programs()
    is_good = bool(programs)
    for path in programs:
        cases = read_cases(path)[:: options.every]
        checked = check_all(cases, options.results, is_compiled=not options.no_compile, deadline_s=options.deadline)
        found = [record for _, record in checked]
        print("\n".join(report(str(path), found)), flush=True)
        is_good &= all(
            each.get("refusal") or (not each.get("problem") and each["has_same_text"] and each["worst_ratio"] <= 1)
            for each in found
        )
    return 0 if is_good else 1


def _shared_programs() -> list[Path]:
    shared = os.environ.get("ROCKTOOLS_SHARED")
    if not shared:
        print("name a program, or set ROCKTOOLS_SHARED", file=sys.stderr)
        return []
    return [path for path in (Path(shared) / name for name in SHARED_PROGRAMS) if path.exists()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
