"""What the sites of the demo's step work on: FLOPs counted by hand from the sizes, times above the roofline."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rocktools.demo.job_work import EFFICIENCIES, OWN_SHARE_RATIO, WorkKind, read_registers

# The sizes of scripts/demo_train_step.py, per device and microstep.
TOKENS, HIDDEN, INTERMEDIATE, VOCABULARY = 4 * 4096, 6144, 16384, 32768
LOCAL_EXPERTS, GROUP_SEQUENCES, CAPACITY = 4, 8, 1280
LAYERS, MICROSTEPS, DEVICES = 4, 2, 8


def products(program, component: str, phase: str):
    return [
        site
        for site in program.sites
        if site.kind is WorkKind.PRODUCT and site.component == component and site.phase == phase
    ]


@pytest.mark.parametrize(
    "component, phase, count, flop",
    [
        ("wi_0", "forward", 1, 2 * LOCAL_EXPERTS * GROUP_SEQUENCES * CAPACITY * HIDDEN * INTERMEDIATE),
        ("wi_1", "forward", 1, 2 * LOCAL_EXPERTS * GROUP_SEQUENCES * CAPACITY * HIDDEN * INTERMEDIATE),
        ("wo", "forward", 1, 2 * LOCAL_EXPERTS * GROUP_SEQUENCES * CAPACITY * HIDDEN * INTERMEDIATE),
        ("wi_0", "backward", 2, 2 * LOCAL_EXPERTS * GROUP_SEQUENCES * CAPACITY * HIDDEN * INTERMEDIATE),
        ("lm_head", "forward", 1, 2 * TOKENS * HIDDEN * VOCABULARY),
        ("lm_head", "backward", 2, 2 * TOKENS * HIDDEN * VOCABULARY),
    ],
)
def test_products_have_the_flop_of_their_sizes(job_program, component, phase, count, flop):
    found = products(job_program, component, phase)
    assert len(found) == count
    for site in found:
        assert site.flop == pytest.approx(flop, rel=1e-3)  # an epilogue adds a little
        assert (site.arithmetic.unit, site.arithmetic.dtype) == ("matrix", "bf16")


def test_sites_in_the_layers_run_once_for_each_layer_and_microstep(job_program):
    counts = Counter(job_program.schedule.site.tolist())
    (site,) = products(job_program, "wi_0", "forward")
    assert counts[job_program.sites.index(site)] == LAYERS * MICROSTEPS
    (head,) = products(job_program, "lm_head", "forward")
    assert counts[job_program.sites.index(head)] == MICROSTEPS


def test_no_kernel_beats_the_roofline_and_none_is_far_from_its_share(job_program):
    device = job_program.device
    peak, bandwidth = device.peak("bf16").flop_per_s, device.bandwidth("hbm").bytes_per_s
    for site in job_program.sites:
        if site.kind in (WorkKind.COLLECTIVE, WorkKind.FURTHER):
            continue
        moved_ns = (site.read_bytes + site.written_bytes) / bandwidth * 1e9
        flop_ns = site.flop / peak * 1e9 if site.arithmetic and site.arithmetic.unit == "matrix" else 0.0
        assert site.ideal_ns > max(moved_ns, flop_ns)
        efficiency = EFFICIENCIES[site.kind]
        slowest = max(moved_ns / efficiency.bytes_ratio, flop_ns / efficiency.flop_ratio) / (1 - OWN_SHARE_RATIO)
        if site.arithmetic is None or site.arithmetic.unit == "matrix":
            assert site.ideal_ns <= efficiency.fixed_ns + slowest + 1e-6


def test_every_collective_joins_each_device_once_and_sends_no_faster_than_its_links(job_program):
    collectives = [site for site in job_program.sites if site.collective]
    assert {site.collective for site in collectives} == {"all-gather", "all-reduce", "all-to-all", "reduce-scatter"}
    link = job_program.device.bandwidth("network").bytes_per_s / (DEVICES - 1)
    for site in collectives:
        assert sorted(device for group in site.groups for device in group) == list(range(DEVICES))
        assert site.payload_bytes > 0
        peers = len(site.groups[0]) - 1
        assert site.ideal_ns > site.sent_bytes / (peers * link) * 1e9


def test_phases_and_components_are_those_of_the_source(job_program):
    times = Counter()
    counts = np.bincount(job_program.schedule.site[job_program.schedule.site >= 0], minlength=len(job_program.sites))
    for site, count in zip(job_program.sites, counts.tolist(), strict=True):
        times[site.phase] += site.ideal_ns * count
    total = sum(times.values())
    # What is outside of differentiation, and what the compiler left without a name.
    assert times[""] / total < 0.1
    assert times["backward"] > times["forward"] > times["rematerialized"] > 0


def test_registers_are_read_by_kernel(packed, job_program):
    registers = read_registers(packed.kernels_csv)
    launched = {site.thunk.kernel for site in job_program.sites if site.thunk.kernel}
    conditions = {name for name in registers if name.startswith("loop_compare")}  # never launched: trips are known
    assert set(registers) - conditions == launched - conditions
    assert registers["gemm_fusion_dot_65"][0] > 128
