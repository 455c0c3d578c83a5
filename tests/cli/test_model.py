"""`rocktools model`: the published figures with their conventions, and refusals."""

from __future__ import annotations

import json

import pytest
from command_line import assert_formats_agree
from scoped_run import write_scoped_run

from rocktools.attribution.ledger_document import SCHEMA as LEDGER_SCHEMA

MIXTRAL = ("mixtral-8x22b", "--batch", 4, "--devices", 8, "--accumulation", 2, "--sequence", 4096)
TIMED = (*MIXTRAL, "--device", "MI355X", "--step-time", 20.599)
LLAMA = ("llama-3-8b", "--device", "H100")


@pytest.fixture
def ledger(tmp_path):
    """The published step of Mixtral 8x22B as a ledger."""
    row = {
        "span_ns": 20_759_000_000,
        "compute_ns": 12_128_000_000,
        "compute_sum_ns": 12_128_200_000,
        "exposed_communication_ns": 8_595_000_000,
        "exposed_copy_ns": 0,
        "idle_ns": 36_000_000,
    }
    phases = [{"row": "Rematerialized forward replay", "mean_ns": 2_210_500_000.0}]
    forward = [{"row": "Expert MLP", "components": "expert_mlp", "mean_ns": 1_541_800_000.0}]
    tables = {"phases": phases, "forward": forward}
    document = {"schema": LEDGER_SCHEMA, "is_simulated": False, "reconciliation": [row], "tables": tables}
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _tables(document) -> dict[str, list[dict]]:
    return {table["name"]: table["rows"] for table in document["tables"]}


def test_mixtral_on_eight_mi355x(run):
    ran = run("model", "flops", *TIMED)
    assert ran.code == 0
    assert "63.495 PFLOP in one step of 262,144 tokens, 242.212 GFLOP per token" in ran.out
    assert "385.3 TFLOP/s" in ran.out
    assert "15.31 %" in ran.out
    assert all(name in ran.out for name in ("counts_core", "causal_factor", "training_factor"))
    assert "warning [one-step-sample]" in ran.err
    document = run.document("model", "flops", *TIMED)
    assert document["schema"] == "rocktools.model-flops/1"
    assert document["useful_flop"] == 63_494_528_761_331_712
    metrics = {row["metric"]: row for row in _tables(document)["MODEL_METRICS"]}
    assert f"{metrics['MFU']['value']:.4f}" == "0.1531"
    assert "dense bf16, 2516.6 TFLOP/s per device" in metrics["MFU"]["read_with"]


def test_llama_on_an_h100_with_its_conventions_shown(run):
    ran = run("model", "step", *LLAMA)
    assert "Llama 3 8B on H100-SXM, 8,192 tokens, fused attention: 556.2 ms at least, 67.1 % MFU at most" in ran.out
    assert "the optimizer does 0.022 % of the FLOPs and takes 15 % of the time" in ran.out
    for name in ("fused_core_backward_factor", "score_passes", "optimizer_bytes_per_parameter", "mfu_numerator"):
        assert name in ran.out
    floor = {row["category"]: row for row in _tables(run.document("model", "step", *LLAMA))["STEP_FLOOR"]}
    assert f"{100 * floor['layer matmuls']['time_share_ratio']:.0f}" == "62"
    assert f"{100 * floor['optimizer']['time_share_ratio']:.0f}" == "15"
    assert f"{100 * floor['optimizer']['flop_share_ratio']:.3f}" == "0.022"


def test_llama_unfused_and_with_more_tokens(run):
    ran = run("model", "step", *LLAMA, "--unfused")
    assert "744.9 ms at least, 50.1 % MFU at most" in ran.out
    floor = {row["category"]: row for row in run.rows("model", "step", *LLAMA, "--unfused", "--part", "floor")}
    assert f"{100 * floor['attention core']['time_share_ratio']:.0f}" == "34"
    more = {row["category"]: row for row in run.rows("model", "step", *LLAMA, "--tokens", 65536, "--part", "floor")}
    assert f"{100 * more['optimizer']['time_share_ratio']:.0f}" == "2"
    sharded = run.document("model", "step", *LLAMA, "--optimizer-shards", 8)
    assert sharded["step_s"] == pytest.approx(0.55615 - 0.0815012 * 7 / 8, abs=1e-4)


def test_a_changed_convention_changes_the_result_and_is_named(run):
    ran = run("model", "step", *LLAMA, "--set", "causal_factor=1", "--set", "fused_core_backward_factor=2")
    assert "600.6 ms at least" in ran.out
    assert "conventions of the step floor, changed: causal_factor, fused_core_backward_factor" in ran.out


def test_measured_step_is_split_into_what_the_ledger_knows(run, ledger):
    arguments = ("model", "bounds", *MIXTRAL, "--device", "MI355X", "--ledger", ledger)
    gap = {row["part"]: row for row in run.rows(*arguments, "--part", "gap")}
    assert gap["exposed communication"]["duration_s"] == 8.595
    assert gap["rematerialized forward work"]["duration_s"] == 2.2105
    assert (gap["launch gaps"]["duration_s"], gap["launch gaps"]["state"]) == (None, "ambiguous")
    assert f"{gap['measured step']['mfu_ratio']:.4f}" == f"{63.494528761 / 8 / 2.5165824 / 20.759:.4f}"
    (rate,) = run.rows(*arguments, "--part", "components")
    assert (rate["row"], f"{rate['useful_flop_per_s'] / 1e12:.1f}") == ("Expert MLP", "1437.7")
    ran = run(*arguments, "--step-time", 20.605, "--input-wait", 0.01)
    assert "15.3 % measured: where the difference went" in ran.out
    assert "note [step-shorter-than-span]" in ran.err


def test_a_ledger_of_rocktools_itself_is_read(run, tmp_path):
    source, path = write_scoped_run(tmp_path / "run", devices_count=2), tmp_path / "ledger.json"
    assert run("ledger", source, "-o", path).code == 0
    arguments = ("--tokens", 8192, "--sequence", 4096, "--devices", 2, "--device", "MI355X", "--ledger", path)
    ran = run("model", "bounds", "mixtral-8x7b", *arguments)
    assert "SIMULATED" in ran.out
    assert "warning [compute-below-floor]" in ran.err
    gap = run.rows("model", "bounds", "mixtral-8x7b", *arguments, "--part", "gap")
    told = [row["duration_s"] for row in gap if row["duration_s"] is not None]
    assert sum(told[:-1]) == pytest.approx(told[-1])
    lines = json.loads(path.read_text(encoding="utf-8"))["tables"]["forward"]
    rates = run.rows("model", "bounds", "mixtral-8x7b", *arguments, "--part", "components")
    timed = {row["row"]: row["mean_ns"] / 1e9 for row in lines if row["mean_ns"]}
    assert {row["row"]: row["duration_s"] for row in rates if row["phase"] == "forward"} == {
        title: timed[title] for title in ("Attention", "Router and top-k selection", "Expert MLP")
    }


def test_three_bounds_and_no_sum(run, ledger):
    given = ("--communication-bytes", 2**30, "--communication-bandwidth", 300e9, "--communication-fixed", 1e-5)
    arguments = ("model", "bounds", *MIXTRAL, "--device", "MI355X", "--memory-bytes", 1e9, *given)
    rows = {row["bound"]: row for row in run.rows(*arguments, "--part", "bounds")}
    printed = {name: f"{row['duration_s']:.4g}" for name, row in rows.items()}
    assert printed == {"compute": "3.154", "memory": "0.000125", "communication": "0.003589"}
    assert [name for name, row in rows.items() if row["is_longest"]] == ["compute"]
    assert "not added" in run(*arguments).out


def test_bandwidth_of_collectives_comes_from_a_test_of_that_size(run, tmp_path):
    path = tmp_path / "all_reduce.txt"
    path.write_text(
        "# Collective test starting: all_reduce_perf\n"
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw\n"
        "  1048576  262144  float  sum  -1  50.00  20.97  36.70  0  50.00  20.97  36.70  0\n"
        "  1073741824  268435456  float  sum  -1  5000.00  214.75  375.81  0  5000.00  214.75  375.81  0\n",
        encoding="utf-8",
    )
    arguments = ("model", "bounds", *MIXTRAL, "--device", "MI355X", "--communication-test", path, "--part", "bounds")
    for size, bandwidth in ((1_000_000, 36.70e9), (500_000_000, 375.81e9)):
        rows = {row["bound"]: row for row in run.rows(*arguments, "--communication-bytes", size)}
        assert rows["communication"]["duration_s"] == pytest.approx(size / bandwidth)


def test_both_kinds_of_conventions_are_set_in_bounds(run):
    arguments = ("model", "bounds", *MIXTRAL, "--device", "MI355X", "--part", "conventions")
    settings = ("--set", "causal_factor=1", "--set", "training_factor=1", "--capacity-factor", "1.25")
    changed = {
        (row["of"], row["convention"]): row["setting"]
        for row in run.rows(*arguments, *settings)
        if row["setting"] != row["default"]
    }
    assert changed == {
        ("useful FLOPs", "training_factor"): "1",
        ("useful FLOPs", "causal_factor"): "1",
        ("step floor", "causal_factor"): "1",
        ("step floor", "capacity_factor"): "1.25",
    }


def test_models_are_listed_and_shown(run):
    rows = run.rows("model", "list")
    assert [row["model"] for row in rows] == sorted(row["model"] for row in rows)
    assert {"mixtral-8x22b", "llama-3-8b", "deepseek-v3"} <= {row["model"] for row in rows}
    assert run.rows("model", "show", "llama-3-8b")[-1]["weights_count"] == 8_030_261_248


PARTS = [
    ("list",),
    ("show", "deepseek-v3"),
    *(("flops", *TIMED, "--part", part) for part in ("ledger", "metrics", "conventions")),
    *(("step", *LLAMA, "--part", part) for part in ("floor", "operations", "conventions")),
    ("bounds", *TIMED, "--part", "bounds"),
]


@pytest.mark.parametrize("arguments", PARTS, ids=lambda arguments: " ".join(map(str, (arguments[0], *arguments[-1:]))))
def test_formats_of_each_part_agree(run, tmp_path, arguments):
    assert assert_formats_agree(run, tmp_path, "model", *arguments)


REFUSED = [
    (("flops", "llama-3", "--tokens", 64, "--sequence", 64), "unknown-model", 2),
    (("flops", "llama-3-8b", "--tokens", 100, "--sequence", 64), "tokens-are-no-sequences", 2),
    (("flops", "llama-3-8b", "--sequence", 64), "batch-unknown", 2),
    (("flops", "llama-3-8b", "--batch", 4, "--sequence", 64), "no-devices", 2),
    (("flops", "llama-3-8b", "--batch", 4, "--tokens", 64, "--sequence", 64), "batch-twice", 2),
    (("flops", *MIXTRAL, "--global-batch", 512), "batch-does-not-resolve", 2),
    (("flops", *MIXTRAL, "--convention", "mine"), "unknown-convention", 2),
    (("flops", *MIXTRAL, "--set", "counts_core"), "set-option", 2),
    (("flops", *MIXTRAL, "--set", "counts_core=1"), "convention-value", 2),
    (("flops", *MIXTRAL, "--capacity-factor", "much"), "capacity-factor", 2),
    (("flops", *MIXTRAL, "--set", "training_factor=0"), "nothing-counted", 2),
    (("step", *LLAMA, "--set", "backward_factor=1e400"), "convention-value", 2),
    (("bounds", *MIXTRAL, "--device", "MI355X", "--capacity-factor", "1e400"), "capacity-factor", 2),
    (("bounds", *MIXTRAL, "--device", "MI355X", "--step-time", "nan"), "step-time", 2),
    (("flops", *MIXTRAL, "--step-time", 20), "metric-without-denominator", 2),
    (("flops", *MIXTRAL, "--part", "metrics"), "no-such-part", 2),
    (("flops", *TIMED, "--profiled"), "throughput-from-profile", 2),
    (("flops", *TIMED, "--statistic", "median"), "one-sample-is-no-statistic", 2),
    (("flops", *TIMED, "--dtype", "f3"), "no peak is stated for", 2),
    (("step", "llama-3-8b", "--device", "MI9"), "unknown-device", 2),
    (("step", "llama-3-8b", "--device", "MI3"), "unknown-device", 2),
    (("bounds", *MIXTRAL), "no-device", 2),
    (("bounds", *MIXTRAL, "--device", "MI355X", "--communication-bytes", 5), "communication-bound", 2),
    (("bounds", *MIXTRAL, "--device", "MI355X", "--ledger", "none.json"), "ledger-file", 1),
    (("bounds", "llama-3-8b", "--tokens", 4096, "--sequence", 4096, "--devices", 8, "--device", "MI355X"),
     "no whole sequences", 2),
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments, words, code", REFUSED, ids=[f"{i} {words}" for i, (_, words, _) in enumerate(REFUSED)]
)
def test_what_says_nothing_is_refused(run, arguments, words, code):
    ran = run("model", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
