"""Good inputs that tests break, with the commands that read them; here those of logs, results, plans and documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compute_files import (
    Kernel,
    Workload,
    write_analysis,
    write_pass,
    write_saved_tables,
    write_sysinfo,
    write_view_files,
)
from fake_replays import write_fake_replay
from rocpd_files import write_small_trace
from scoped_run import write_scoped_run
from summary_documents import summary_of_operations
from tiny_run import tiny_trace, write_tiny_profile, write_tiny_run
from trace_json import trace_document, write_trace_json

from rocktools.cli.main import main
from rocktools.summary.document import render_summary

Command = Callable[[Path], tuple[object, ...]]
Maker = Callable[[Path], Path]


@dataclass(frozen=True)
class Subject:
    """A good input, which file of it is broken, and the commands that read it.

    Attributes:
        name: of the test.
        make: writes the input into a folder; its path.
        commands: each with the path of the input.
        broken: the file that is broken, below the path; "" for the path itself.
    """

    name: str
    make: Maker
    commands: tuple[Command, ...]
    broken: str = ""


_MODEL = Path(__file__).resolve().parents[1] / "rocktools" / "analytic" / "models" / "mixtral-8x22b.yaml"
_KERNEL = "loop_fusion_3"
_SYSTEM = {"gpu_arch": "gfx950", "gpu_model": "MI355X", "num_xcd": 8, "cu_per_gpu": 256, "max_sclk": 2400}
_VALUES = {("11.3.0", "Avg"): 6e3, ("4.1.1", "Value"): 6.0, ("2.1.24", "Avg"): 2.0, ("2.1.11", "Avg"): 60.0}

_MAXTEXT_LOG = "\n".join(
    [
        "Config param per_device_batch_size: 4.0",
        "Config param global_batch_size_to_train_on: 64",
        "Config param max_target_length: 4096",
        "Config param profiler: ",
        "Num_devices: 8, shape (4, 2)",
        *(f"completed step: {step}, seconds: {20 + step / 8}, TFLOP/s/device: 9.5, loss: 1.25" for step in range(9)),
        "",
    ]
)
_CSV_LOG = "step,seconds\n" + "".join(f"{step},{20 + step / 8}\n" for step in range(9))
_THRESHOLDS = (
    "schema: rocktools.thresholds/1\nstep_median: {warn_ratio: 0.02, fail_ratio: 0.05}\ncomponent: {fail_ratio: 0.05}\n"
    "components:\n  expert_mlp: {fail_ratio: 0.03}\nshares:\n  exposed_communication: {fail_ratio: 0.10}\n"
)
_CLAIMS = (
    "schema: rocktools.claims/1\nname: result\ntiming: {step_s: 0.00115, samples_count: 1, statistic: median}\n"
    "communication: {exposed_ratio: 0.5}\ncoverage: {ranks_count: 2, ranks_total_count: 8}\n"
)
_CEILINGS = (
    "schema: rocktools.ceilings/1\nsource: sweep of 3 May\nflop_per_s:\n  matrix: {bf16: 1.7e15, f8: 3.4e15}\n"
    "bytes_per_s: {hbm: 6.2e12, network: 390e9}\n"
)
_CEILINGS_CSV = (
    "device,HBMBw,HBMBwLow,hbmBwHigh,MALLBw,L2Bw,LDSBw,FP32Flops,MFMABF16Flops,MFMAF8Flops,MFMAI8Ops\n"
    "0,6200,6100,6300,8500,34500,54000,150000,616000,2450000,0\n"
)
_CEILINGS_SWEEP = """# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid 11 on node device  0 [0000:05:00] AMD Instinct MI355X
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.00    0.05    0.09      0    19.00    0.05    0.09      0
    16777216       4194304     float     sum      -1    120.0  139.81  244.67      0    118.0  142.18  248.82      0
# Avg bus bandwidth    : 206.33
"""


def _beside(make: Maker, name: str, text: str) -> Maker:
    """The input of `make`, with a text beside or in it."""

    def made(folder: Path) -> Path:
        path = make(folder)
        (path / name).write_text(text, encoding="utf-8")
        return path

    return made


def _trace_folder(folder: Path) -> Path:
    write_small_trace(folder / "1_results.db")
    return folder


def _tiny_run(folder: Path) -> Path:
    return write_tiny_run(folder / "run", trace=tiny_trace())


def _trace_json(name: str) -> Maker:
    def make(folder: Path) -> Path:
        profile = write_tiny_profile(folder / "node7.xplane.pb", tiny_trace())
        document, _ = trace_document(profile)
        profile.unlink()
        return write_trace_json(folder / name, document)

    return make


def _analysis(folder: Path) -> Path:
    kernel = Kernel(name=_KERNEL, launches_ns=(1_000, 1_100), values=_VALUES, points={"hbm": 2.0})
    bench = {"HBMBw": 6000.0, "FP32Flops": 150_000.0}
    workload = Workload(name="w", kernels=(kernel,), system=_SYSTEM, bench=bench)
    return write_analysis(folder / "analysis.db", [workload], version="3.10.0")


def _views(folder: Path) -> Path:
    return write_view_files(_analysis(folder), folder / "views")


def _saved_tables(folder: Path) -> Path:
    metrics = [("VALU FLOPs", 12.5, "Gflop", 100.0, 12.5), ("L2-Fabric Read BW", 1.5, "Gb/s", 8000.0, 0.1)]
    return write_saved_tables(folder / "tables", [(_KERNEL, 2, 1_050.0)], metrics)


def _workload(folder: Path) -> Path:
    path = folder / "workload"
    write_pass(path, 0, {"SQ_WAVES": (4, 4), "SQ_INSTS_VALU_ADD_F32": (64, 64)}, kernel=_KERNEL)
    write_pass(path, 1, {"TCC_HIT_sum": (90, 91), "TCC_MISS_sum": (9, 8)}, kernel=_KERNEL)
    write_sysinfo(path, **_SYSTEM)
    return path


def _plan(folder: Path) -> Path:
    for name in ("fusion.1", "fusion.2"):
        write_fake_replay(folder / "replays", name)
    assert main(["batch", "plan", "--replays", str(folder / "replays"), "-o", str(folder / "plan.yaml")]) == 0
    return folder


def _replay(folder: Path) -> Path:
    return write_fake_replay(folder, "fusion.1")


def _summaries(folder: Path) -> Path:
    for name in ("before.json", "after.json"):
        (folder / name).write_text(render_summary(summary_of_operations(5)), encoding="utf-8")
    return folder


def _history(folder: Path) -> Path:
    before, after = (str(_summaries(folder) / name) for name in ("before.json", "after.json"))
    for label in ("one", "two"):
        assert main(["track", before, after, "--label", label, "--history", str(folder / "history.jsonl")]) in (0, 3)
    return folder / "history.jsonl"


def _experiments(folder: Path) -> Path:
    before, path = str(_summaries(folder) / "before.json"), folder / "experiments.jsonl"
    for why in ("larger tiles", "another mesh"):
        plan = ("--before", before, "--hypothesis", why, "--predict", "-4..-6%", "--file", str(path))
        assert main(["experiment", "new", *plan]) == 0
    return path


def _ledger_document(folder: Path) -> Path:
    path = folder / "ledger.json"
    assert main(["ledger", str(write_scoped_run(folder / "run", devices_count=2)), "-o", str(path)]) == 0
    return path


def _model(folder: Path) -> Path:
    path = folder / "model.yaml"
    path.write_text(_MODEL.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def _collect(path: Path, *options: str) -> tuple[object, ...]:
    return ("batch", "collect", path, *options)


def _profile_replay(path: Path) -> tuple[object, ...]:
    options = ("--dry-run", "--sdk-version", "1.4.1", "--arch", "gfx950")
    return ("replay", "profile", path, "--metrics", "waves", *options)


LATER_SUBJECTS = (
    *(
        Subject(
            f"step_log_{kind}",
            _beside(_trace_folder, name, text),
            (lambda path, name=name: ("summarize", path, "--step-log", path / name),),  # type: ignore[misc]
            name,
        )
        for kind, name, text in (("maxtext", "train.log", _MAXTEXT_LOG), ("csv", "steps.csv", _CSV_LOG))
    ),
    Subject("trace_json", _trace_json("node7.trace.json"), (lambda path: ("summarize", path),)),
    Subject("trace_json_packed", _trace_json("node7.trace.json.gz"), (lambda path: ("summarize", path),)),
    Subject("compute_database", _analysis, (_collect, lambda path: _collect(path, "--part", "metrics"))),
    *(
        Subject(f"compute_{kind}", make, (_collect, lambda path, part=part: _collect(path, "--part", part)), broken)  # type: ignore[misc]
        for kind, make, broken, part in (
            ("view", _views, "kernel_metric.csv", "metrics"),
            ("kernel_list", _saved_tables, "0.1_Top_Kernels.csv", "metrics"),
            ("saved_table", _saved_tables, "2.1_System_Speed-of-Light.csv", "metrics"),
            ("pass", _workload, "results_pmc_perf_0.csv", "quantities"),
            ("system", _workload, "sysinfo.csv", "quantities"),
        )
    ),
    Subject(
        "batch_plan",
        _plan,
        (
            lambda path: (
                *("batch", "run", path / "plan.yaml", "-o", path / "batch", "--dry-run", "--compute-version", "3.10"),
                *("--python", "/j/py"),
            ),
        ),
        "plan.yaml",
    ),
    Subject("replay_spec", _replay, (_profile_replay,), "spec.json"),
    Subject("replay_proof", _replay, (_profile_replay,), "proof.json"),
    Subject(
        "model",
        _model,
        (
            lambda path: ("model", "flops", path, "--tokens", 8192, "--sequence", 4096),
            lambda path: ("model", "step", path, "--device", "MI355X"),
            lambda path: ("model", "show", path),
        ),
    ),
    Subject(
        "thresholds",
        _beside(_summaries, "limits.yaml", _THRESHOLDS),
        (lambda path: ("track", path / "before.json", path / "after.json", "--thresholds", path / "limits.yaml"),),
        "limits.yaml",
    ),
    Subject(
        "compared",
        _summaries,
        (
            lambda path: ("compare", path / "before.json", path / "after.json"),
            lambda path: ("track", path / "before.json", path / "after.json"),
            lambda path: ("query", path / "before.json", "what are the top 10 ops by exclusive time?"),
        ),
        "before.json",
    ),
    Subject("history", _history, (lambda path: ("history", path),)),
    Subject("experiments", _experiments, (lambda path: ("experiment", "list", "--file", path),)),
    Subject(
        "ledger_document",
        _ledger_document,
        (
            lambda path: (
                *("model", "bounds", "mixtral-8x7b", "--tokens", 8192, "--sequence", 4096),
                *("--devices", 2, "--device", "MI355X", "--ledger", path),
            ),
        ),
    ),
    *(
        Subject(
            f"ceilings_{kind}",
            _beside(_tiny_run, name, text),
            (lambda path, name=name: ("roofline", path, "--all-steps", "--ceilings", path / name),),  # type: ignore[misc]
            name,
        )
        for kind, name, text in (
            ("yaml", "ceilings.yaml", _CEILINGS),
            ("csv", "roofline.csv", _CEILINGS_CSV),
            ("sweep", "sweep.txt", _CEILINGS_SWEEP),
        )
    ),
    Subject(
        "claims",
        _beside(_trace_folder, "claims.yaml", _CLAIMS),
        (lambda path: ("rules", "check", path, "--claims", path / "claims.yaml"),),
        "claims.yaml",
    ),
)
"""Inputs that are no traces, profiles or programs."""
LATER_JSON = {"trace_json", "replay_spec", "replay_proof", "compared", "ledger_document"}
"""Those of them whose file is one JSON document."""
