"""Useful rates of components: the FLOPs of the ledger over the times of another ledger."""

from __future__ import annotations

from rocktools.analytic.component_rates import ComponentTime, rate_components
from rocktools.analytic.model_file import read_model
from rocktools.analytic.useful_flop import build_flop_ledger
from rocktools.devices.files import read_device

PEAK = read_device("MI355X").peak("bf16")


def _rates(model, *times):
    ledger = build_flop_ledger(read_model(model), tokens_count=262144, sequence_tokens=4096)
    given = [
        ComponentTime(phase=phase, title=title, components=components, duration_s=duration_s)
        for phase, title, components, duration_s in times
    ]
    return ledger, rate_components(given, ledger, devices_count=8, peak=PEAK)


def test_published_times_give_the_rates_that_they_imply():
    """Of the printed ms: 1,437.7 and 1,334.7 TFLOP/s forward, 731.0 and 867.5 backward, head 1,403.6 and 1,474.2."""
    _, rates = _rates(
        "mixtral-8x22b",
        ("forward", "Expert MLP", ("expert_mlp",), 1.5418),
        ("forward", "Attention", ("attention",), 0.3114),
        ("backward", "MoE backward", ("router", "dispatch", "expert_mlp", "combine", "moe"), 6.0652),
        ("backward", "Attention backward", ("attention",), 0.9582),
        ("forward", "LM head", ("lm_head",), 0.0094),
        ("backward", "LM-head VJP", ("lm_head",), 0.0179),
    )
    printed = [f"{rate.flop_per_s / 1e12:.1f}" for rate in rates]
    assert printed == ["1437.7", "1334.7", "731.0", "867.5", "1403.6", "1474.2"]
    assert [f"{100 * rate.peak_ratio:.1f}" for rate in rates] == ["57.1", "53.0", "29.0", "34.5", "55.8", "58.6"]


def test_rows_without_useful_work_or_time_have_no_rate():
    _, rates = _rates(
        "llama-3-8b",
        ("forward", "Embedding", ("embedding",), 1.0),
        ("forward", "Expert MLP", ("expert_mlp",), 1.0),
        ("forward", "Dense MLP", ("mlp",), 0.0),
    )
    assert rates == ()


def test_forward_and_backward_are_all_useful_work():
    rows = {"attention": ("attention",), "feed-forward": ("mlp",), "head": ("lm_head",)}
    times = [(phase, title, names, 1.0) for phase in ("forward", "backward") for title, names in rows.items()]
    ledger, rates = _rates("llama-3-70b", *times)
    assert sum(rate.useful_flop for rate in rates) == ledger.useful_flop
