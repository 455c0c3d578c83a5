"""One kind of collective is several times slower in one group of devices than in another: the mesh axis is mapped so
that its traffic takes more hops, or chains of permutations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.attribution.collective_rates import find_replica_groups
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.hlo.module import HloModule
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count
from rocktools.units import count_noun, format_si

SLOWER_RATIO = 1.9
LEAST_PAYLOAD_BYTES = 1 << 20
PAYLOADS_ALIKE_RATIO = 4.0
CHAIN_COUNT = 2

_PASSED_ON = frozenset({"bitcast", "copy", "convert", "reshape", "transpose", "get-tuple-element"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    """Collectives of one kind in one layout of groups; `links_count` of a device to the others of its group.

    Within a node every pair of GPUs has a link of its own, so that a larger group has more of them.
    """

    kind: str
    stride: int
    links_count: int
    instruction: str
    payload_bytes: int
    best_bytes_per_s: float
    sum_ns: int

    @property
    def link_bytes_per_s(self) -> float:
        return self.best_bytes_per_s / self.links_count


def check_mesh_axes(inputs: RuleInputs) -> Outcome:
    """Bus bandwidth of a kind of collective in one layout of replica groups against another; chains of permutations."""
    assert inputs.rates is not None
    assert inputs.programs is not None
    assert inputs.step_times is not None
    found = [_chain(module, chain) for module in inputs.programs for chain in find_permute_chains(module)]
    classes = _classes(inputs.rates, inputs.programs, inputs.gpus_count)
    cells = cells_count(inputs.step_times)
    compared = 0
    slow: dict[str, RuleFinding] = {}
    for one, other in itertools.permutations(classes, 2):
        alike = 1 / PAYLOADS_ALIKE_RATIO <= one.payload_bytes / other.payload_bytes <= PAYLOADS_ALIKE_RATIO
        if one.kind != other.kind or one.stride == other.stride or not alike:
            continue
        compared += 1
        if other.link_bytes_per_s >= SLOWER_RATIO * one.link_bytes_per_s:
            slow.setdefault(one.instruction, _slower(one, other, cells))
    if not compared and not found:
        return CannotSay(
            reason="no kind of collective runs in two layouts of replica groups with payloads alike, so that their "
            "bandwidths could be compared"
        )
    return [*slow.values(), *found]


def find_permute_chains(module: HloModule) -> list[tuple[str, ...]]:
    """Collective-permutes that hand on to one another what nobody has worked on between them, at least two."""
    chains = []
    permutes = {
        name: each
        for name, each in module.instructions.items()
        if each.opcode in ("collective-permute", "collective-permute-start")
    }
    follows: dict[str, str] = {}
    for name, each in permutes.items():
        source = each.operands[0] if each.operands else ""
        while source in module.instructions and (
            module.instructions[source].opcode in (*_PASSED_ON, "collective-permute-done")
        ):
            source = module.instructions[source].operands[0]
        if source in permutes:
            follows[name] = source
    for last in permutes:
        if last in follows.values() or last not in follows:
            continue
        chain = [last]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        if len(chain) >= CHAIN_COUNT:
            chains.append(tuple(reversed(chain)))
    return chains


def _classes(rates: pd.DataFrame, programs: tuple[HloModule, ...], gpus_count: Mapping[str, int]) -> list[_Class]:
    """Large collectives by kind and stride of their groups; of each the one whose best execution is fastest."""
    gpus = max(gpus_count.values(), default=0)
    groups = {(module.label, name): found for module in programs for name, found in find_replica_groups(module).items()}
    best: dict[tuple[str, int], _Class] = {}
    names = ("program_id", "instruction", "collective", "payload_bytes", "best_bus_bytes_per_s", "sum_ns")
    for program, instruction, kind, payload, rate, sum_ns in zip(*(rates[name] for name in names), strict=True):
        members = groups.get((str(program), str(instruction)))
        if members is None or len(members[0]) < 2 or pd.isna(payload) or not np.isfinite(rate):
            continue
        if payload < LEAST_PAYLOAD_BYTES:
            continue
        stride = members[0][1] - members[0][0]
        is_near = not gpus or all(len({device // gpus for device in group}) == 1 for group in members)
        before = best.get((str(kind), stride))
        if before is None or rate > before.best_bytes_per_s:
            best[str(kind), stride] = _Class(
                kind=str(kind),
                stride=stride,
                links_count=len(members[0]) - 1 if is_near else 1,
                instruction=str(instruction),
                payload_bytes=int(payload),
                best_bytes_per_s=float(rate),
                sum_ns=int(sum_ns) + (0 if before is None else before.sum_ns),
            )
    return list(best.values())


def _slower(one: _Class, other: _Class, cells: int) -> RuleFinding:
    times = other.link_bytes_per_s / one.link_bytes_per_s
    finding = Finding(
        rule="wrong-mesh-axis",
        severity=Severity.WARNING,
        where=one.instruction,
        message=f"{one.kind} in groups with stride {one.stride} moves {format_si(one.link_bytes_per_s, 'B/s')} over "
        f"each of {count_noun(one.links_count, 'link')} at best, {other.instruction} in groups with stride "
        f"{other.stride} {format_si(other.link_bytes_per_s, 'B/s')} over each of {other.links_count}: {times:.1f} "
        f"times as much, with payloads of {format_si(one.payload_bytes, 'B')} and "
        f"{format_si(other.payload_bytes, 'B')}",
        numbers={
            "times_ratio": times,
            "slow_link_bytes_per_s": one.link_bytes_per_s,
            "fast_link_bytes_per_s": other.link_bytes_per_s,
            "slow_payload_bytes": one.payload_bytes,
            "fast_payload_bytes": other.payload_bytes,
        },
        advice="give the axis with most traffic to neighbours: the order of axes in make_mesh, or the PartitionSpec",
    )
    return RuleFinding(finding=finding, explained_ns=one.sum_ns / cells * (1 - 1 / times))


def _chain(module: HloModule, chain: tuple[str, ...]) -> RuleFinding:
    finding = Finding(
        rule="wrong-mesh-axis",
        severity=Severity.NOTE,
        where=f"{module.name}, {chain[0]}",
        message=f"{count_noun(len(chain), 'permutation')} hand a value on with no work between them "
        f"({' -> '.join(chain[:4])}): it takes that many hops to where it is needed",
        numbers={"permutations_count": len(chain)},
        advice="one permutation to the final device, by another order of mesh axes",
    )
    return RuleFinding(finding=finding, evidence=Evidence.COMPILER_ESTIMATE)


RULE = Rule(
    name="wrong-mesh-axis",
    title="Wrong mapping of a mesh axis",
    group=RuleGroup.FAULT,
    looks_at="The bus bandwidth that one kind of collective reaches in the different layouts of its replica groups. "
    "The eight GPUs of a node are fully connected by xGMI, so within it a pair is always one hop away and a group of n "
    "uses n - 1 links; across nodes the NIC is several times slower.",
    signature="All-gathers over one axis take a whole number of times as long as those over another with the same "
    "payload; or values travel through chains of collective-permute.",
    confirmations=(
        Confirmation(detail="bandwidth of each collective, its group and payload", command="rocktools collectives RUN"),
        Confirmation(detail="links of the device, and their bandwidth", command="rocktools devices show MI355X"),
        Confirmation(detail="the groups as the program has them", command="rocktools hlo show --help"),
    ),
    fixes=(
        "order the axes of `make_mesh` so that the axis with most traffic is innermost, within a node",
        "another PartitionSpec, so that the large dimension is sharded over the fast axis",
    ),
    thresholds=(
        Threshold(
            name="slower_ratio",
            value=SLOWER_RATIO,
            meaning="bandwidth of a link in the faster layout over that in the slower one",
            source="rocktools: a whole number of hops, less measuring error",
        ),
        Threshold(
            name="least_payload_bytes",
            value=LEAST_PAYLOAD_BYTES,
            meaning="payloads below are bound by latency and are not compared",
            source="rocktools",
        ),
        Threshold(
            name="payloads_alike_ratio",
            value=PAYLOADS_ALIKE_RATIO,
            meaning="payloads further apart are not compared",
            source="rocktools",
        ),
    ),
    needs=("rates", "programs", "step_times"),
    check=check_mesh_axes,
)
