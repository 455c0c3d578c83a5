"""A trace of two GPUs of one node, one of which computes longer, so that the other waits for it in every collective."""

from __future__ import annotations

from pathlib import Path

from rocpd_files import BOOT_NS

from rocktools.demo.rocpd_writer import RocpdWriter

STEPS_COUNT = 3
COMPUTE_NS = (100_000, 300_000)
TRANSFER_NS = 50_000
STEP_NS = 400_000
WAIT_NS = COMPUTE_NS[1] - COMPUTE_NS[0]
"""How long the fast one waits in each step; the collective ends on both at one instant."""


def write_late_trace(path: Path) -> Path:
    with RocpdWriter(path) as writer:
        writer.process(11)
        agents = [writer.agent(kind) for kind in ("CPU", "GPU", "GPU")][1:]
        symbols = [
            tuple(
                writer.kernel_symbol(name, code_object_id=code)
                for name in ("loop_fusion_1", "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)")
            )
            for code in [writer.code_object(agent_id=agent) for agent in agents]
        ]
        for step in range(STEPS_COUNT):
            start = BOOT_NS + step * STEP_NS
            end = start + COMPUTE_NS[1] + TRANSFER_NS
            for agent, (compute, collective), length in zip(agents, symbols, COMPUTE_NS, strict=True):
                writer.dispatch(compute, start, start + length, agent_id=agent)
                writer.dispatch(collective, start + length, end, agent_id=agent)
    return path
