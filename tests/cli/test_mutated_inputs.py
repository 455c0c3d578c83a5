"""Whatever becomes of a file, a command ends with a message and an exit code, and leaves the file alone.

Each reader gets `ROCKTOOLS_MUTATIONS` broken copies (default: few, so that the suite stays quick); where real files are
at hand, they are broken as well.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from breakable_inputs import LATER_JSON, LATER_SUBJECTS, Subject
from command_line import CommandLine
from mutated_inputs import copy_input, mutate, mutate_json
from rocpd_files import write_counter_pass, write_small_trace
from scoped_run import WORKLOAD, write_scoped_run
from summary_documents import summary_of_operations
from tiny_run import make_proto, tiny_trace, write_tiny_profile

from rocktools.summary.document import render_summary

MUTATIONS = int(os.environ.get("ROCKTOOLS_MUTATIONS", "6"))
_SECONDS = 60


def _text(name: str, text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def _run(folder: Path) -> Path:
    return write_scoped_run(folder / "run")


def _counter_csv(folder: Path) -> Path:
    """Counter values as rocprofv3 writes them as CSV."""
    header = (
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
        '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
        '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"'
    )
    rows = [
        f'{n},{n},"Agent 4",1,77,77,1024,16,"gemm",256,0,0,8,0,16,"{name}",{100 * n},{1000 * n},{1000 * n + 500}'
        for n in range(1, 5)
        for name in ("SQ_WAVES", "TCC_HIT_sum", "TCC_MISS_sum")
    ]
    path = folder / "counter_collection.csv"
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return path


_MODULES_MAP = Path(__file__).resolve().parents[2] / "rocktools" / "attribution" / "component_maps" / "plain_jax.yaml"
_PART = Path(__file__).resolve().parents[2] / "rocktools" / "devices" / "parts" / "MI355X.yaml"

SUBJECTS = (
    Subject(
        "trace",
        lambda folder: write_small_trace(folder / "1_results.db"),
        (lambda path: ("info", path), lambda path: ("kernels", path), lambda path: ("ledger", path)),
    ),
    Subject(
        "counters",
        lambda folder: write_counter_pass(folder / "pass_results.db"),
        (lambda path: ("metrics", path), lambda path: ("dispatches", "--counted", path)),
    ),
    Subject("counter_csv", _counter_csv, (lambda path: ("metrics", path, "--arch", "gfx950"),)),
    Subject(
        "profile",
        lambda folder: write_tiny_profile(folder / "a.xplane.pb", tiny_trace(), protos={"p(7)": make_proto("p", 7)}),
        (
            lambda path: ("info", path),
            lambda path: ("link", path),
            lambda path: ("ledger", path),
            lambda path: ("hlo", "info", path),
        ),
    ),
    Subject(
        "hlo_proto",
        lambda folder: _bytes(folder / "module_0007.p.hlo.pb", make_proto("p", 7, extra=30)),
        (lambda path: ("hlo", "info", path), lambda path: ("hlo", "list", path)),
    ),
    *(
        Subject(f"dump_{name}", _run, (lambda path: ("hlo", "info", path / "hlo"), lambda path: ("ledger", path)), file)
        for name, file in (
            ("text", "hlo/module_0007.jit_tiny.gfx950_gpu_after_optimizations.txt"),
            ("sequence", "hlo/module_0007.jit_tiny.thunk_sequence.txt"),
            ("metadata", "hlo/module_0007.jit_tiny.thunk_metadata.txt"),
        )
    ),
    Subject(
        "manifest", _run, (lambda path: ("info", path), lambda path: ("kernels", path)), "manifest.json"
    ),
    Subject(
        "workload",
        lambda folder: _beside(_run(folder), "workload.yaml", WORKLOAD.replace("DEVICES", "1")),
        (lambda path: ("ledger", path, "--workload", path / "workload.yaml"),),
        "workload.yaml",
    ),
    Subject(
        "component_map",
        lambda folder: _beside(_run(folder), "map.yaml", _MODULES_MAP.read_text(encoding="utf-8")),
        (lambda path: ("ledger", path, "--components", path / "map.yaml"),),
        "map.yaml",
    ),
    Subject(
        "part",
        _text("part.yaml", _PART.read_text(encoding="utf-8")),
        (lambda path: ("devices", "show", path),),
    ),
    Subject(
        "summary",
        _text("summary.json", render_summary(summary_of_operations(5))),
        (lambda path: ("report", path), lambda path: ("report", path, "--html", "-o", f"{path}.html")),
    ),
    *LATER_SUBJECTS,
)  # fmt: skip
JSON_FILES = {"summary", "manifest", *LATER_JSON}


def _bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _beside(run: Path, name: str, text: str) -> Path:
    (run / name).write_text(text, encoding="utf-8")
    return run


@pytest.fixture(scope="session")
def good_inputs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Subject], Path]:
    made: dict[str, Path] = {}

    def get(subject: Subject) -> Path:
        if subject.name not in made:
            made[subject.name] = subject.make(tmp_path_factory.mktemp(subject.name))
        return made[subject.name]

    return get


@pytest.fixture
def alarm() -> Iterator[None]:
    """A command that hangs fails its test."""

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"a command took more than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _look(path: Path) -> object:
    if path.is_dir():
        return sorted(each.name for each in path.iterdir())
    return path.read_bytes()


def _check(run: CommandLine, command: tuple[object, ...], what: str) -> int:
    """Run it, and hold how it ends against the rules; its exit code."""
    signal.alarm(_SECONDS)
    try:
        ran = run(*command)
    except AssertionError as error:
        raise AssertionError(f"{what}: rocktools {' '.join(map(str, command))}\n{error}") from error
    signal.alarm(0)
    if ran.code not in (0, 3):
        assert ran.err.strip(), what
        assert "error" in ran.err or "fault" in ran.err or "warning" in ran.err, f"{what}\n{ran.err}"
    return ran.code


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_broken_files_end_in_a_message(
    subject: Subject, run: CommandLine, good_inputs: Callable[[Subject], Path], tmp_path: Path, alarm: None
) -> None:
    good = good_inputs(subject)
    for command in subject.commands:
        assert _check(run, command(good), "the good input") in (0, 3)
    for number in range(MUTATIONS):
        random = Random(f"{subject.name} {number}")
        copy = copy_input(good, tmp_path / str(number) / good.name)
        broken = copy / subject.broken if subject.broken else copy
        is_json = subject.name in JSON_FILES and random.random() < 0.6
        what = f"{subject.name} {number}: {(mutate_json if is_json else mutate)(broken, random)}"
        before = _look(broken)
        for command in subject.commands:
            _check(run, command(copy), what)
        assert _look(broken) == before, what
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_wrong_places_are_named(subject: Subject, run: CommandLine, tmp_path: Path, alarm: None) -> None:
    (tmp_path / "empty").mkdir()
    places = [tmp_path / "missing", tmp_path / "empty", Path(sys.executable), tmp_path]
    for place in places:
        for command in subject.commands:
            ran = run(*command(place))
            assert ran.code in (1, 2), (command(place), ran.out)
            assert "error" in ran.err or "fault [" in ran.err


_REAL = (
    ("rocpd/rocprofv3-mi300x.db", ("info", "kernels", "gaps")),
    ("rocpd/rocprofsys-mi350x.db", ("info", "kernels")),
    ("rocpd/minimal-handmade-v3.db", ("info", "kernels")),
    ("xplane/mi355_te_fused_attn", ("info", "ledger")),
    ("rocprofv3-csv/rocprof-compute_vcopy_iteration_multiplexing_MI350", ("metrics",)),
    ("hlo/gfx942", ("hlo info",)),
)


@pytest.mark.conformance
@pytest.mark.parametrize(("place", "commands"), _REAL, ids=[place for place, _ in _REAL])
def test_broken_real_files_end_in_a_message(
    place: str, commands: tuple[str, ...], run: CommandLine, shared: Path, tmp_path: Path, alarm: None
) -> None:
    good = shared / "data" / place
    for number in range(max(2, MUTATIONS // 3)):
        random = Random(f"{place} {number}")
        copy = copy_input(good, tmp_path / str(number) / good.name)
        for each in [copy, *copy.rglob("*")] if copy.is_dir() else [copy]:
            each.chmod(0o755)
        files = sorted(each for each in copy.rglob("*") if each.is_file()) if copy.is_dir() else [copy]
        broken = random.choice(files)
        what = f"{place} {number}: {broken.name}: {mutate(broken, random)}"
        for command in commands:
            _check(run, (*command.split(), copy), what)
        shutil.rmtree(tmp_path / str(number))
