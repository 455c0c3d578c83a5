"""`rocktools bundle`: everything that belongs to a run in one folder, and the proof that its tables come out again."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.errors import EXIT_GATE, EXIT_GOOD, RocktoolsError, UsageError
from rocktools.units import count_noun, format_si

if TYPE_CHECKING:
    from rocktools.summary.bundle import BundleCheck, Outcome
    from rocktools.summary.bundle_document import Bundle
    from rocktools.summary.bundle_inputs import SideRequest

_file = click.Path(path_type=Path)


@click.command("bundle")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("-o", "--output", "folder", metavar="DIR", type=_file, help="The new folder.")
@click.option("--after", metavar="PATH", help="A second run or summary, to be compared with the first.")
@click.option("--allow", "allowed", metavar="FACT", multiple=True, help="The two may differ in it; see `compare`.")
@click.option("--thresholds", metavar="FILE", type=_file, help="Limits of the comparison, as in `rocktools track`.")
@click.option(
    "--verify", "is_check", is_flag=True, help="PATH is a bundle: make everything in it again elsewhere, and compare."
)
@click.option("--hlo", metavar="FILE", help="The compiled program, if the run has none; a dump of XLA, or its folder.")
@click.option("--components", metavar="NAME|FILE", help="The component map, as in `rocktools ledger`.")
@click.option("--counters", metavar="PATH", multiple=True, help="Where the counter passes are, if not among PATHS.")
@click.option("--step-log", metavar="FILE", type=_file, help="Log of the unprofiled run.  [default: by the manifest]")
@click.option(
    "--after-step-log", metavar="FILE", type=_file, help="The same of the second run.  [default: by its manifest]"
)
@click.option("--workload", metavar="FILE", type=_file, help="What the program does.  [default: by the manifest]")
@click.option("--part", metavar="PART", help="Ceilings of this part, as in `rocktools roofline`.")
@click.option("--partition", metavar="MODE", help="Compute partition: SPX, DPX, QPX, CPX.  [default: as recorded]")
@click.option("--table", "tables", metavar="NAME", multiple=True, help="Only this table; may be repeated.")
@click.option("--without-traces", is_flag=True, help="Leave inputs out: summaries, reports and tables only.")
@click.option(
    "--scrub",
    "scrub",
    is_flag=False,
    flag_value="environment",
    default="nothing",
    type=click.Choice(["nothing", "environment", "identity"]),
    help="Take the environment of the job out of databases; `--scrub=identity`: who and where as well.",
)
def command(
    paths: tuple[str, ...],
    folder: Path | None,
    after: str | None,
    allowed: tuple[str, ...],
    thresholds: Path | None,
    is_check: bool,
    hlo: str | None,
    components: str | None,
    counters: tuple[str, ...],
    step_log: Path | None,
    after_step_log: Path | None,
    workload: Path | None,
    part: str | None,
    partition: str | None,
    tables: tuple[str, ...],
    without_traces: bool,
    scrub: str,
) -> int:
    """Put everything that belongs to a run into one folder: inputs, summary, report, every table, and the commands.

    PATH is a run directory, files, or a summary (*.json). With --after, two are compared. The tables are made from the
    copies in the folder; then all of them are made again from a copy of the folder elsewhere, and compared byte for
    byte: what differs is named, and the exit code is 3. `rocktools bundle --verify DIR` does this at any later time, on
    any machine.

    bundle.json in the folder says what it may tell besides measurements.
    """
    if is_check:
        return _verify(paths, folder)
    if folder is None:
        raise UsageError("bundle-without-folder", "a bundle is a new folder", hint="-o DIR, or --verify DIR")
    from datetime import datetime, timezone

    from rocktools.summary.bundle import BundleRequest, make_bundle, verify_bundle
    from rocktools.summary.bundle_commands import choose_tables
    from rocktools.summary.bundle_inputs import Scrub, SideRequest

    first = SideRequest(paths=paths, hlo=hlo, counters=counters, step_log=step_log, workload=workload)
    second = None if after is None else SideRequest(paths=(after,), step_log=after_step_log)
    request = BundleRequest(
        sides={"run": _side(first)} if second is None else {"before": _side(first), "after": _side(second)},
        components=components,
        device=(part, partition),
        tables=choose_tables(tables),
        has_traces=not without_traces,
        scrub=Scrub(scrub),
        allowed=allowed,
        thresholds=thresholds,
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    bundle = make_bundle(folder, request, _run_inside, _Teller("making"))
    _tell_bundle(folder, bundle)
    return _tell_check(folder, bundle, verify_bundle(folder, bundle, _run_inside, _Teller("checking")))


def _verify(paths: tuple[str, ...], folder: Path | None) -> int:
    from rocktools.summary.bundle import verify_bundle
    from rocktools.summary.bundle_document import read_bundle

    if len(paths) != 1 or folder is not None:
        raise UsageError("verify-one-bundle", "--verify takes one bundle, and writes nothing", hint="--verify DIR")
    place = Path(paths[0])
    bundle = read_bundle(place)
    return _tell_check(place, bundle, verify_bundle(place, bundle, _run_inside, _Teller("checking")))


def _side(request: SideRequest) -> SideRequest | Path:
    """The file of a summary where one is named; else the run.

    Raises:
        UsageError: options say how to make the summary that is there already.
    """
    name = request.paths[0]
    is_json = name.endswith(".json") and not name.endswith(".trace.json")
    if len(request.paths) > 1 or not is_json or not Path(name).is_file():
        return request
    if request.hlo or request.counters or request.step_log or request.workload:
        raise UsageError("bundle-of-summary", "a summary is taken as it is: no option says how to make it")
    return Path(name)


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_inside(arguments: tuple[str, ...], folder: Path) -> Outcome:
    """Run a command of ours in a folder, in this process; what it says is kept back."""
    from rocktools.cli.main import command as rocktools
    from rocktools.summary.bundle import Outcome

    silent = io.StringIO()
    with _working_in(folder), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        try:
            result = rocktools.main(list(arguments), prog_name="rocktools", standalone_mode=False)
            return Outcome(exit_code=result if isinstance(result, int) else EXIT_GOOD, message="")
        except RocktoolsError as error:
            return Outcome(exit_code=error.exit_code, message=f"{error.reference}: {error.what}")


class _Teller:
    """Says on a terminal which file is being made."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __call__(self, path: str, number: int, count: int) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            end = "\n" if number == count else ""
            click.echo(f"\r\x1b[K{self._doing} {number} of {count}: {path}{end}", nl=False, err=True)


def _tell_bundle(folder: Path, bundle: Bundle) -> None:
    made = [output for output in bundle.outputs if output.reason is None]
    inputs = [file for file in bundle.files if file.role == "input"]
    size = sum(file.size_bytes for file in inputs)
    stamp = " (simulated)" if bundle.is_simulated else ""
    click.echo(
        f"{folder}: {count_noun(len(made), 'file')} made, {count_noun(len(inputs), 'input')} "
        f"of {format_si(size, 'B')}{stamp}"
    )
    for output in bundle.outputs:
        if output.reason is not None:
            click.echo(f"  no {output.path}: {output.reason}", err=True)
        elif output.exit_code != EXIT_GOOD:
            click.echo(f"  {output.path}: the command ended with {output.exit_code}", err=True)
    for side in bundle.sides:
        for each in side.left_out:
            click.echo(f"  left out: {each}", err=True)
    for each in bundle.sensitive:
        click.echo(f"  before you hand it on: {each}", err=True)


def _tell_check(folder: Path, bundle: Bundle, check: BundleCheck) -> int:
    from rocktools.summary.bundle import used_versions

    count = sum(output.is_regenerable for output in bundle.outputs)
    click.echo(f"{folder}: {check.made_count} of {count} made again elsewhere, byte for byte")
    if check.not_made:
        click.echo(
            f"  without traces {count_noun(len(check.not_made), 'file')} cannot be made again: "
            f"{', '.join(check.not_made)}",
            err=True,
        )
    for name in check.changed:
        click.echo(f"  changed or missing: {name}", err=True)
    for name in check.different:
        command = next(output.command for output in bundle.outputs if output.path == name)
        click.echo(f"  differs: {name} ({shlex.join(command)})", err=True)
    if check.is_good:
        return EXIT_GOOD
    here = used_versions()
    others = [f"{name} {was}, here {here[name]}" for name, was in bundle.versions.items() if here.get(name) != was]
    if others:
        click.echo(f"  other versions may round differently: {'; '.join(others)}", err=True)
    return EXIT_GATE
