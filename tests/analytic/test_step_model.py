"""The floor under a step: told again in a few lines for a dense model, and its limits."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rocktools.analytic.conventions import change_conventions
from rocktools.analytic.model_file import read_model, shipped_models
from rocktools.analytic.step_conventions import AttentionKernel, FlopShareOf, StepConventions
from rocktools.analytic.step_model import Category, Work, build_step_model, time_work
from rocktools.analytic.useful_flop import FlopConventions, build_flop_ledger
from rocktools.devices.files import read_device
from rocktools.errors import UsageError

H100, MI355X = read_device("H100-SXM"), read_device("MI355X")
ATTENTION = [AttentionKernel.FUSED, AttentionKernel.UNFUSED]


def _built(model="llama-3-8b", device=H100, *, tokens=8192, sequence=8192, settings=None, **given):
    conventions = change_conventions(StepConventions(), settings or {})
    return build_step_model(
        read_model(model), device, tokens_count=tokens, sequence_tokens=sequence, conventions=conventions, **given
    )


def _told_again(tokens: int, sequence: int, *, is_fused: bool) -> float:
    """Seconds of Llama 3 8B on an H100 from its dimensions, one operation after the other."""
    peak, bandwidth = 989e12, 3.35e12
    layers, d, f, vocabulary, heads = 32, 4096, 14336, 128256, 32

    def product(rows: int, columns: int) -> float:
        moved = 2 * (tokens * rows + rows * columns + tokens * columns)
        return 3 * max(2 * tokens * rows * columns / peak, moved / bandwidth)

    matmuls = 2 * product(d, d) + 2 * product(d, 1024) + 2 * product(d, f) + product(f, d)
    core_flop = 2 * tokens * sequence * d
    core_bytes = 2 * tokens * (2 * d + 2 * 1024)
    if is_fused:
        core = max(core_flop / peak, core_bytes / bandwidth) + max(2.5 * core_flop / peak, 2 * core_bytes / bandwidth)
    else:
        core = 3 * max(core_flop / peak, (core_bytes + 2 * 2 * tokens * sequence * heads) / bandwidth)
    elementwise = 3 * 2 * tokens * (10 * d + 3 * f) / bandwidth
    optimizer = max(34 * 8_030_261_248 / bandwidth, 12 * 8_030_261_248 / peak)
    return layers * (matmuls + core + elementwise) + product(d, vocabulary) + optimizer


@pytest.mark.parametrize("tokens, sequence", [(8192, 8192), (65536, 8192), (64, 64), (1, 1), (131072, 131072)])
@pytest.mark.parametrize("attention", ATTENTION)
def test_step_is_the_one_that_a_few_lines_give(tokens, sequence, attention):
    told = _told_again(tokens, sequence, is_fused=attention is AttentionKernel.FUSED)
    assert _built(tokens=tokens, sequence=sequence, attention=attention).step_s == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize("model", shipped_models())
@pytest.mark.parametrize("attention", ATTENTION)
def test_shares_add_up_and_no_step_beats_its_compute_bound(model, attention):
    built = _built(model, MI355X, tokens=8192, sequence=4096, attention=attention)
    assert sum(built.time_share(each) for each in Category) == pytest.approx(1)
    assert sum(built.flop_share(each) for each in Category) == pytest.approx(1)
    assert sum(row.time_s for row in built.categories) == pytest.approx(built.step_s)
    assert 0 < built.mfu_ceiling < 1
    assert built.step_s >= built.counted_flop / MI355X.peak("bf16").flop_per_s


@pytest.mark.parametrize("model", shipped_models())
def test_products_have_the_flop_of_the_ledger_of_useful_flop(model):
    """Two ways to count the same products: by operation here, by component there."""
    built = _built(model, MI355X, tokens=8192, sequence=4096, settings={"fused_core_backward_factor": "2"})
    ledger = build_flop_ledger(
        read_model(model), tokens_count=8192, sequence_tokens=4096, conventions=FlopConventions()
    )
    products = sum(built.category(each).flop for each in (Category.MATMUL, Category.HEAD, Category.CORE))
    assert products == pytest.approx(ledger.useful_flop, rel=1e-12)
    weights = ledger.useful_flop - ledger.row("attention core").useful_flop
    assert built.counted_flop == pytest.approx(weights, rel=1e-12)


@pytest.mark.parametrize("model", shipped_models())
def test_unfused_attention_is_never_faster(model):
    fused, unfused = (_built(model, MI355X, tokens=8192, sequence=4096, attention=each) for each in ATTENTION)
    assert unfused.category(Category.CORE).traffic_bytes > fused.category(Category.CORE).traffic_bytes
    settings = {"fused_core_backward_factor": "2"}
    same = _built(model, MI355X, tokens=8192, sequence=4096, settings=settings)
    assert unfused.step_s >= same.step_s


@pytest.mark.parametrize("shards", [1, 2, 8, 64])
def test_shards_divide_the_optimizer_and_nothing_else(shards):
    whole, part = _built(), _built(optimizer_shards=shards)
    assert part.category(Category.OPTIMIZER).time_s == pytest.approx(whole.category(Category.OPTIMIZER).time_s / shards)
    rest = [each for each in Category if each is not Category.OPTIMIZER]
    assert [part.category(each) for each in rest] == [whole.category(each) for each in rest]


def test_more_tokens_leave_the_optimizer_less_of_the_step():
    shares = [_built(tokens=8192 * count).time_share(Category.OPTIMIZER) for count in (1, 2, 4, 8)]
    ceilings = [_built(tokens=8192 * count).mfu_ceiling for count in (1, 2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert ceilings == sorted(ceilings)


def test_few_tokens_are_bound_by_weights():
    """One token: every weight of the products is read once forward and twice backward."""
    built = _built(tokens=1, sequence=1)
    assert built.category(Category.MATMUL).memory_bound_s == built.category(Category.MATMUL).time_s
    assert built.category(Category.HEAD).traffic_bytes == pytest.approx(3 * 2 * 4096 * 128256, rel=1e-3)


def test_experts_that_no_token_is_sent_to_are_not_read():
    """Three tokens x 2 of 8 experts: 6 of them at most."""
    few, many = (
        next(row for row in _built("mixtral-8x7b", tokens=tokens, sequence=1).operations if row.name == "experts up")
        for tokens in (3, 4)
    )
    weights = 4096 * 14336 * 2 * 3 * 32
    assert few.traffic_bytes == pytest.approx(6 * weights, rel=1e-3)
    assert many.traffic_bytes == pytest.approx(8 * weights, rel=1e-3)


def test_capacity_and_movement_cost_what_they_say():
    plain = _built("mixtral-8x22b", MI355X)
    padded = _built("mixtral-8x22b", MI355X, settings={"capacity_factor": "1.25", "movement_passes": "4"})
    experts = [sum(row.flop for row in each.operations if row.name.startswith("experts")) for each in (plain, padded)]
    assert experts[1] == pytest.approx(1.25 * experts[0])
    assert padded.category(Category.MOVEMENT).time_s == pytest.approx(2 * plain.category(Category.MOVEMENT).time_s)
    assert plain.category(Category.MOVEMENT).traffic_bytes == 3 * 2 * (1 + 2) * 8192 * 6144 * 2 * 56
    assert _built().category(Category.MOVEMENT).time_s == 0


def test_shares_of_flop_may_be_of_products_with_weights_only():
    built = _built(settings={"flop_share_of": str(FlopShareOf.MATMULS)})
    assert built.flop_share(Category.MATMUL) + built.flop_share(Category.HEAD) == pytest.approx(1)
    assert built.flop_share(Category.OPTIMIZER) == pytest.approx(12 * 8_030_261_248 / (6 * 7_504_658_432 * 8192))


@pytest.mark.parametrize("flop, traffic, time_s, memory_s", [(4, 1, 4, 0), (1, 4, 4, 4), (2, 2, 2, 0)])
def test_an_operation_takes_the_longer_of_its_two_times(flop, traffic, time_s, memory_s):
    peak, bandwidth = H100.peak("bf16"), H100.bandwidth("hbm")
    row = time_work(
        Work(
            category=Category.MATMUL,
            name="made",
            count=3,
            flop=Fraction(flop * int(peak.flop_per_s)),
            bytes=Fraction(traffic * int(bandwidth.bytes_per_s)),
            backward_flop_factor=Fraction(0),
            backward_bytes_factor=Fraction(0),
        ),
        peak,
        bandwidth,
    )
    assert (row.time_s, row.memory_bound_s) == (3 * time_s, 3 * memory_s)


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="tokens-are-no-sequences"):
        _built(tokens=100, sequence=64)
    with pytest.raises(UsageError, match="optimizer-shards"):
        _built(optimizer_shards=0)
    with pytest.raises(UsageError, match="no-such-peak"):
        _built(dtype="f4")
