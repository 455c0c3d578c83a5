"""`rocktools replay run|prove`: run a replay, and whether it stands in for the job's kernel; `profile` is beside."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.cli.aot import environment_options, stand_in_findings
from rocktools.cli.output import TableOutput, emit_document, emit_findings, emit_table
from rocktools.cli.replay_profile import profile
from rocktools.cli.replay_proofs import compile_replays, write_parts
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError
from rocktools.units import count_noun

if TYPE_CHECKING:
    from rocktools.findings import Finding
    from rocktools.replay.aot_environment import PreparedEnvironment
    from rocktools.replay.prove import Part, Proof
    from rocktools.replay.prove_bundle import ReplayModule

_OPTIONAL = ("note", "kernel_name", "evidence", "level", "instruction")
_HASH_LETTERS, _SHOWN_LETTERS = 64, 12
_trace = click.Path(path_type=Path)


@click.group("replay")
def command() -> None:
    """What was taken out of a job by `rocktools extract`: run it, count it, and prove that it is the job's kernel."""


command.add_command(profile)


@command.command("run")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--device", metavar="N", type=click.IntRange(min=0), default=0, show_default=True,
              help="Number of the device, or of the first of several.")  # fmt: skip
@click.option("--iterations", "iterations_count", metavar="N", type=click.IntRange(min=1), default=20,
              show_default=True, help="How often the kernel runs, in one roctx range.")  # fmt: skip
@click.option("--warm-up", "warmups_count", metavar="N", type=click.IntRange(min=0), default=3, show_default=True,
              help="How often it runs before.")  # fmt: skip
@click.option("--inputs", metavar="random|zeros|DIR", default="random", show_default=True,
              help="Values of the operands; DIR holds captured ones (.npy).")  # fmt: skip
@click.option("--outputs", metavar="DIR", type=click.Path(path_type=Path), help="Folder for the results, as .npy.")
@click.option("--flush-cache", "is_cache_flushed", is_flag=True, help="Overwrite the caches before each iteration.")
@click.option("--plugin", metavar="FILE", type=click.Path(path_type=Path), help="PJRT plugin.  [default: JAX's]")
@click.option("--timeout", "timeout_s", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
              help="Stop it after that.  [default: never]")  # fmt: skip
def run(folder: Path, timeout_s: float | None, **options: Any) -> int:
    """Run the replay in DIR on this machine's GPU, and print what it says of the run, as JSON.

    Times in it are of the host. For the kernel's, trace it: rocktools trace -- python DIR/replay.py.
    """
    from rocktools.replay.run import ReplayRunOptions, run_replay

    document = run_replay(
        folder, ReplayRunOptions(**options), python=Path(sys.executable), env=dict(os.environ), deadline_s=timeout_s
    )
    emit_document(document, TableOutput())
    return EXIT_GOOD


@command.command("prove")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--job-executable",
    "job_executable",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Serialized executable of the job: a folder of `rocktools aot compile`, an entry of JAX's compilation cache, "
    "or what compiled.runtime_executable().serialize() gives.  [default: executable.serialized beside the program that "
    "the replay was taken from, or one folder up]",
)
@click.option(
    "--target",
    metavar="NAME",
    help="Description of the job's device: mi355x, mi350x, mi300x, a YAML file, or a *.gpu_target_config.pbtxt of the "
    "job's dump.  [default: the one that was dumped; else those of the executable's architecture, one after the other]",
)
@click.option("--no-compile", is_flag=True, help="Compile nothing; compare traces only.")
@click.option("--job-trace", metavar="PATH", type=_trace, help="Trace of the job: rocpd database or run directory.")
@click.option("--replay-trace", metavar="PATH", type=_trace, help="Trace of the replay, with all of its iterations.")
@click.option("--replay-counters", metavar="PATH", type=_trace, help="Counter passes of the replay.")
@click.option("--job-counters", metavar="PATH", type=_trace, help="Counter passes of the job, where it was counted.")
@click.option(
    "--warm-up",
    "warmups_count",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Dispatches of the replay's trace that warm up, and are left out.",
)
@click.option(
    "-o",
    "--output",
    "proof_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Proof to write, where one DIR is given.  [default: proof.json in DIR]",
)
@environment_options
def prove(
    folders: tuple[Path, ...],
    job_executable: Path | None,
    target: str | None,
    no_compile: bool,
    proof_path: Path | None,
    prepare: Callable[[], PreparedEnvironment],
    **traces: Any,
) -> int:
    """Whether each replay in DIR launches the job's kernel, and how sure that is.

    \b
        identical        machine code, launch and shared memory are the same
        equivalent       name, launch, registers, private and shared memory are the same
        similar          same name; duration within max(5 %, 2 x IQR) of the job's median
        not-a-stand-in   both sides are known, and differ
        unproven         nothing contradicts it, and nothing proves it

    Ahead of time, without a GPU: the replay is compiled by the ROCm plugin of JAX, and what it launches is compared
    with the job's serialized executable. From traces: what ran, with its registers and durations. Counters of a replay
    that differ from pass to pass, or from the job's, are told.

    The proof is a JSON file with both sides of every comparison. The exit code is 3 unless every replay stands in.
    """
    from rocktools.replay.prove_bundle import read_replay

    if len(folders) > 1 and (proof_path or any(traces[name] for name in traces if name != "warmups_count")):
        raise UsageError("one-replay", "an output, traces and counters belong to one replay; name one DIR")
    if no_compile and not (traces["job_trace"] and traces["replay_trace"]):
        raise UsageError("nothing-to-compare", "without compiling, --job-trace and --replay-trace are needed")
    if (traces["job_trace"] is None) != (traces["replay_trace"] is None):
        raise UsageError("one-sided-trace", "--job-trace and --replay-trace go together")
    if traces["job_counters"] is not None and traces["replay_counters"] is None:
        raise UsageError("one-sided-counters", "--job-counters needs --replay-counters")
    targets = [proof_path or folder / "proof.json" for folder in folders]
    for path in targets:
        _require_no_proof(path)
    replays = [read_replay(folder) for folder in folders]
    prepared = None if no_compile else prepare()
    compiled = [None] * len(replays) if prepared is None else compile_replays(replays, job_executable, target, prepared)
    findings: list[Finding] = [] if prepared is None else stand_in_findings(prepared)
    proofs = []
    for replay, (made, job_path, environment), path in zip(
        replays, [each or (None, None, {}) for each in compiled], targets, strict=True
    ):
        traced, is_simulated = _parts_of_traces(replay, **traces)
        parts = [*([made.part] if made is not None else []), *traced]
        files = {name: str(value) for name, value in traces.items() if isinstance(value, Path)}
        remarks = {"traces": files, "is_simulated": is_simulated}
        proofs.append(write_parts(path, replay, parts, made, job_path, environment, remarks))
    findings += [finding for proof in proofs for finding in proof.findings]
    _show(proofs, targets, findings)
    emit_findings(findings)
    return EXIT_GOOD if all(proof.level.is_stand_in for proof in proofs) else EXIT_GATE


def _parts_of_traces(
    replay: ReplayModule,
    *,
    job_trace: Path | None,
    replay_trace: Path | None,
    replay_counters: Path | None,
    job_counters: Path | None,
    warmups_count: int,
) -> tuple[list[Part], bool]:
    """What traces and counters say of the replay's kernel; and whether any of them was made without hardware."""
    from rocktools.replay.prove import prove_counters, prove_traces
    from rocktools.replay.prove_facts import counters_by_pass, facts_of_dispatches
    from rocktools.workspace.workspace import Workspace

    kernel = replay.kernel_name
    if not kernel and (job_trace or replay_counters):
        raise UsageError(
            "no-kernel-name",
            f"the kernel of {replay.instruction} is not known, so it cannot be found in a trace",
            hint="extract from a dump with its thunk sequence; a library's kernel is compared by hand",
        )
    parts = []
    is_simulated = False
    if job_trace is not None and replay_trace is not None:
        sides = []
        for trace, count in ((job_trace, 0), (replay_trace, warmups_count)):
            with Workspace.open([trace]) as workspace:
                is_simulated |= workspace.is_simulated
                sides.append(
                    facts_of_dispatches(workspace.require_dispatches(), kernel_name=kernel, warmups_count=count)
                )
        parts.append(prove_traces(*sides, where=replay.instruction))
    if replay_counters is not None:
        counted = []
        for path in (replay_counters, job_counters):
            if path is not None:
                with Workspace.open([path]) as workspace:
                    is_simulated |= workspace.is_simulated
                    frames = workspace.require_counted_dispatches(), workspace.counter_values()
                counted.append(counters_by_pass(*frames, kernel_name=kernel))
        job = {name: values[0] for name, values in counted[1].items()} if len(counted) > 1 else None
        parts.append(prove_counters(kernel, counted[0], job=job, where=replay.instruction))
    return parts, is_simulated


def _show(proofs: Sequence[Proof], paths: Sequence[Path], findings: Sequence[Finding]) -> None:
    """The comparisons of one proof; of several what is not equal, and their levels first."""
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.replay.prove_document import meaning_of
    from rocktools.replay.prove_table import PROOF_COMPARISONS, build_comparisons

    for proof, path in zip(proofs, paths, strict=True):
        click.echo(f"{proof.subject['instruction']}: {proof.level} ({meaning_of(proof.level)}); {path}")
    frame = build_comparisons(proofs)
    if len(proofs) == 1:
        title = f"{proofs[0].subject['instruction']}, job and replay"
        frame = frame.drop(columns=["comparison_index", "instruction", "level"])
    else:
        frame = frame[frame["verdict"] != "equal"].drop(columns="comparison_index")
        title = f"what is not equal in {count_noun(len(proofs), 'proof')}"
    frame = frame.drop(columns=[name for name in ("note",) if frame[name].isna().all()])
    if len(frame):
        for side in ("job", "replay"):  # the proof has the whole hash
            frame[side] = frame[side].astype(object).map(_shortened)
        table = table_from_spec(
            frame,
            PROOF_COMPARISONS,
            evidence=Evidence.COMPILER_ESTIMATE,
            title=title,
            is_simulated=any(proof.subject["is_simulated"] for proof in proofs),
            optional_columns=_OPTIONAL,
        )
        emit_table(table, TableOutput(), findings=findings)


def _shortened(text: object) -> object:
    is_hash = isinstance(text, str) and len(text) == _HASH_LETTERS and set(text) <= set("0123456789abcdef")
    return f"{str(text)[:_SHOWN_LETTERS]}..." if is_hash else text


def _require_no_proof(path: Path) -> None:
    if path.exists():
        raise UsageError(
            "proof-exists",
            "there is a proof already, and results are never overwritten",
            where=str(path),
            hint="-o FILE names another one",
        )
