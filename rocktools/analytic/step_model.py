"""A transformer, a device and the tokens of one step -> how long the step takes at least, operation by operation.

Every operation takes the longer of its FLOPs at the peak and its bytes at the bandwidth of memory; operations run one
after the other, nothing overlaps, nothing waits. That is a floor under the time of perfect kernels on one device, and
so a ceiling over its MFU. What a real step has beyond it (launch gaps, communication, input, kernels below their roof,
rematerialized work) is not in it. One device works on whole sequences with the whole model; sharding of the optimizer
divides its traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from rocktools.analytic.model import Matrix, Transformer
from rocktools.analytic.step_conventions import AttentionKernel, FlopShareOf, MfuNumerator, StepConventions
from rocktools.analytic.useful_flop import core_forward_flop, require_sequences
from rocktools.devices.device import Bandwidth, Device, Level, Peak
from rocktools.errors import UsageError
from rocktools.evidence import Evidence


class Category(str, Enum):
    """Groups of operations."""

    MATMUL = "layer matmuls"
    HEAD = "output head"
    CORE = "attention core"
    ELEMENTWISE = "elementwise"
    MOVEMENT = "token movement"
    OPTIMIZER = "optimizer"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one operation does forward, and how much more backward.

    Attributes:
        category, name: which operation.
        count: times that it runs, once per layer that has it.
        flop, bytes: of one run.
        backward_flop_factor, backward_bytes_factor: backward over forward; 0 where there is no backward.
    """

    category: Category
    name: str
    count: int
    flop: Fraction
    bytes: Fraction
    backward_flop_factor: Fraction
    backward_bytes_factor: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """The time of an operation, or of a category, in one step.

    Attributes:
        category, name: which; the name of a category is its own.
        count: times that it runs forward; of a category, operations.
        flop, traffic_bytes: forward and backward.
        time_s: forward and backward.
        memory_bound_s: part of the time in which memory is the longer of the two.
    """

    category: Category
    name: str
    count: int
    flop: float
    traffic_bytes: float
    time_s: float
    memory_bound_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """The floor under a step.

    Attributes:
        model, device: of what, and where.
        peak, bandwidth: the two ceilings.
        tokens_count, sequence_tokens: of one step on one device.
        attention: whether its core is fused.
        optimizer_shards: devices that the optimizer is divided among.
        conventions: what was taken for granted.
        operations: all of them.
        counted_flop: numerator of the utilization.
        evidence: of every number.
    """

    model: Transformer
    device: Device
    peak: Peak
    bandwidth: Bandwidth
    tokens_count: int
    sequence_tokens: int
    attention: AttentionKernel
    optimizer_shards: int
    conventions: StepConventions
    operations: tuple[StepRow, ...]
    counted_flop: float
    evidence: Evidence = Evidence.ANALYTIC

    @property
    def step_s(self) -> float:
        return sum(row.time_s for row in self.operations)

    @property
    def categories(self) -> tuple[StepRow, ...]:
        """Operations added up, in the order of `Category`; those without time are left out."""
        rows = (self.category(each) for each in Category)
        return tuple(row for row in rows if row.time_s > 0)

    @property
    def mfu_ceiling(self) -> float:
        """The highest utilization that such a step allows, 0..1."""
        return self.counted_flop / (self.peak.flop_per_s * self.step_s)

    def category(self, category: Category) -> StepRow:
        """One category; zeros where it has no operation."""
        rows = [row for row in self.operations if row.category is category]
        return StepRow(
            category=category,
            name=str(category),
            count=len(rows),
            flop=sum(row.flop for row in rows),
            traffic_bytes=sum(row.traffic_bytes for row in rows),
            time_s=sum(row.time_s for row in rows),
            memory_bound_s=sum(row.memory_bound_s for row in rows),
        )

    def time_share(self, category: Category) -> float:
        """Share of the step, 0..1."""
        return self.category(category).time_s / self.step_s

    def flop_share(self, category: Category) -> float:
        """Share of the FLOPs that the conventions name, 0..1."""
        of = (Category.MATMUL, Category.HEAD)
        is_everything = self.conventions.flop_share_of is FlopShareOf.EVERYTHING
        whole = sum(self.category(each).flop for each in (Category if is_everything else of))
        return self.category(category).flop / whole


def build_step_model(
    model: Transformer,
    device: Device,
    *,
    tokens_count: int,
    sequence_tokens: int,
    attention: AttentionKernel = AttentionKernel.FUSED,
    optimizer_shards: int = 1,
    dtype: str = "bf16",
    conventions: StepConventions | None = None,
) -> StepModel:
    """The floor under a step of one device.

    Args:
        tokens_count: of one step on one device, of all its microsteps.
        sequence_tokens: length of a sequence.
        attention: whether scores go through memory.
        optimizer_shards: devices that the optimizer is divided among.
        dtype: format of the products, whose dense matrix peak counts.
        conventions: what is taken for granted; None: the defaults.

    Raises:
        UsageError: the tokens are no whole number of sequences, or the device has no such peak.
    """
    require_sequences(tokens_count, sequence_tokens)
    if optimizer_shards < 1:
        raise UsageError(
            "optimizer-shards", f"the optimizer is divided among at least 1 device, not {optimizer_shards}"
        )
    chosen = conventions or StepConventions()
    peak, bandwidth = device.peak(dtype), device.bandwidth(Level.HBM)
    job = _Job(
        model=model, tokens=tokens_count, sequence=sequence_tokens, attention=attention, shards=optimizer_shards,
        conventions=chosen,
    )  # fmt: skip
    return StepModel(
        model=model,
        device=device,
        peak=peak,
        bandwidth=bandwidth,
        tokens_count=tokens_count,
        sequence_tokens=sequence_tokens,
        attention=attention,
        optimizer_shards=optimizer_shards,
        conventions=chosen,
        operations=tuple(time_work(work, peak, bandwidth) for work in _list_work(job) if work.count),
        counted_flop=float(_counted_flop(job)),
    )


def time_work(work: Work, peak: Peak, bandwidth: Bandwidth) -> StepRow:
    """The time of an operation: forward and backward each the longer of arithmetic and traffic."""
    time_s = memory_bound_s = flop = traffic_bytes = 0.0
    for flop_factor, bytes_factor in ((1, 1), (work.backward_flop_factor, work.backward_bytes_factor)):
        pass_flop, pass_bytes = float(work.flop * flop_factor), float(work.bytes * bytes_factor)
        compute_s, memory_s = pass_flop / peak.flop_per_s, pass_bytes / bandwidth.bytes_per_s
        flop, traffic_bytes = flop + pass_flop, traffic_bytes + pass_bytes
        time_s += max(compute_s, memory_s)
        memory_bound_s += memory_s if memory_s > compute_s else 0.0
    return StepRow(
        category=work.category,
        name=work.name,
        count=work.count,
        flop=flop * work.count,
        traffic_bytes=traffic_bytes * work.count,
        time_s=time_s * work.count,
        memory_bound_s=memory_bound_s * work.count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    model: Transformer
    tokens: int
    sequence: int
    attention: AttentionKernel
    shards: int
    conventions: StepConventions


def _list_work(job: _Job) -> Iterator[Work]:
    """Every operation of a step, with what it does."""
    model, conventions = job.model, job.conventions
    layers = model.layers_count
    for matrix in model.attention.matrices:
        yield _product(job, matrix, f"attention {matrix.name}", layers)
    if model.mlp_width is not None:
        for matrix in model.feed_forward(model.mlp_width):
            yield _product(job, matrix, f"mlp {matrix.name}", model.dense_layers_count)
    yield from _experts(job)
    head = Matrix(name="head", rows_count=model.width, columns_count=model.vocabulary_count)
    yield _product(job, head, "output head", 1, category=Category.HEAD)
    yield _core(job)
    for name, count, width, traversals in (
        ("norms", 2 * layers, model.width, conventions.norm_traversals),
        ("residual additions", 2 * layers, model.width, conventions.residual_traversals),
        ("rotary embedding", layers, model.attention.rotated_width, conventions.rope_traversals),
        ("gating, mlp", model.dense_layers_count, model.mlp_width or 0, _gating(job)),
        ("gating, experts", model.expert_layers_count, _expert_width(model), _gating(job)),
        ("cross entropy", 1, model.vocabulary_count, conventions.cross_entropy_traversals),
    ):
        if traversals and width:
            yield _traffic(job, Category.ELEMENTWISE, name, count, width * traversals)
    if model.experts is not None:
        moved = (1 + model.experts.top_k) * model.width * conventions.movement_passes
        yield _traffic(job, Category.MOVEMENT, "dispatch and combine", model.expert_layers_count, moved)
    parameters = Fraction(model.parameters_count, job.shards)
    yield Work(
        category=Category.OPTIMIZER,
        name="AdamW",
        count=1,
        flop=parameters * conventions.optimizer_flop_per_parameter,
        bytes=parameters * conventions.optimizer_bytes_per_parameter,
        backward_flop_factor=Fraction(0),
        backward_bytes_factor=Fraction(0),
    )


def _product(
    job: _Job,
    matrix: Matrix,
    name: str,
    count: int,
    *,
    category: Category = Category.MATMUL,
    vectors: Fraction | None = None,
    copies: int = 1,
) -> Work:
    """The product of every token's vector with a weight; each operand and the result go through memory once.

    Args:
        vectors: how many vectors are multiplied; None: one per token.
        copies: matrices of that shape among which the vectors are divided.
    """
    rows = Fraction(job.tokens) if vectors is None else vectors
    elements = rows * (matrix.rows_count + matrix.columns_count) + copies * matrix.weights_count
    return Work(
        category=category,
        name=name,
        count=count,
        flop=2 * rows * matrix.weights_count,
        bytes=elements * job.conventions.element_bytes,
        backward_flop_factor=job.conventions.backward_factor,
        backward_bytes_factor=job.conventions.backward_factor,
    )


def _experts(job: _Job) -> Iterator[Work]:
    model, experts = job.model, job.model.experts
    if experts is None:
        return
    count = model.expert_layers_count
    router = Matrix(name="router", rows_count=model.width, columns_count=experts.count)
    yield _product(job, router, "router", count)
    slots = job.tokens * experts.top_k * job.conventions.capacity_factor
    touched = min(experts.count, job.tokens * experts.top_k)
    for matrix in model.feed_forward(experts.width):
        yield _product(job, matrix, f"experts {matrix.name}", count, vectors=slots, copies=touched)
        if experts.shared_count:
            shared = Fraction(job.tokens * experts.shared_count)
            name = f"shared experts {matrix.name}"
            yield _product(job, matrix, name, count, vectors=shared, copies=experts.shared_count)


def _core(job: _Job) -> Work:
    """The attention core of a layer. Fused, its traffic is queries, keys, values and output; else scores too."""
    model, conventions = job.model, job.conventions
    moved_bytes = job.tokens * model.attention.operand_width * conventions.element_bytes
    factor = conventions.fused_core_backward_factor
    if job.attention is AttentionKernel.UNFUSED:
        each = score_bytes(model, job.tokens, job.sequence, conventions.element_bytes)
        moved_bytes += conventions.score_passes * each
        factor = conventions.unfused_core_backward_factor
    flop = core_forward_flop(model, job.tokens, job.sequence, conventions.causal_factor) / model.layers_count
    return Work(
        category=Category.CORE,
        name=f"{job.attention} attention core",
        count=model.layers_count,
        flop=flop,
        bytes=moved_bytes,
        backward_flop_factor=factor,
        backward_bytes_factor=conventions.backward_factor,
    )


def score_bytes(model: Transformer, tokens_count: int, sequence_tokens: int, element_bytes: Fraction) -> Fraction:
    """Bytes of the scores of one layer, all heads, the whole square."""
    return tokens_count * sequence_tokens * model.attention.heads_count * element_bytes


def _traffic(job: _Job, category: Category, name: str, count: int, elements_per_token: Fraction) -> Work:
    """An operation that moves bytes and calculates next to nothing."""
    return Work(
        category=category,
        name=name,
        count=count,
        flop=Fraction(0),
        bytes=job.tokens * elements_per_token * job.conventions.element_bytes,
        backward_flop_factor=Fraction(0),
        backward_bytes_factor=job.conventions.backward_factor,
    )


def _gating(job: _Job) -> Fraction:
    traversals = job.conventions.gating_traversals
    return traversals if job.model.is_gated else max(traversals - 1, Fraction(0))


def _expert_width(model: Transformer) -> int:
    """Elements that all experts of one token put out between their matrices."""
    experts = model.experts
    return 0 if experts is None else (experts.top_k + experts.shared_count) * experts.width


def _counted_flop(job: _Job) -> Fraction:
    """The numerator of the utilization, forward and backward."""
    model, conventions = job.model, job.conventions
    other = model.norm_weights_count + (0 if model.is_head_tied else model.head_weights_count)
    weights = model.active_parameters_count
    if conventions.mfu_numerator is not MfuNumerator.ALL_PARAMETERS:
        weights -= other
    flop = Fraction(2 * job.tokens * weights)
    if conventions.mfu_numerator is MfuNumerator.WITH_CORE:
        flop += core_forward_flop(model, job.tokens, job.sequence, conventions.causal_factor)
    return flop * (1 + conventions.backward_factor)
