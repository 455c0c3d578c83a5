"""The 34 ways in which captures with rocprofv3 are known to fail, and how the stand-ins act each of them out.

Numbers are those of reference/rocprofv3.md, section 5. Which finding must name a failure, and which exit code must
follow, is for the tests of the capture layer to say; here is only what a stand-in can do, or why it cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureMode:
    """One failure mode.

    Attributes:
        number: in the reference.
        name: short name of ours.
        faults: values of ROCKTOOLS_STANDIN_FAULT that act it out, one run each; empty where a scenario or a command
            alone does it, or nothing can.
        scenario: what the scenario must say beside its defaults.
        how: what happens, and what of the command matters.
        why_not: why nothing can act it out; empty where something can.
    """

    number: int
    name: str
    faults: tuple[str, ...] = ()
    scenario: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    why_not: str = ""

    @property
    def is_acted_out(self) -> bool:
        """Whether a stand-in can do it."""
        return not self.why_not


_ONE_WORKER = {"processes_count": 2, "agents_count": 2, "kernels": [{"name": "loop_fusion_3", "processes": [1]}]}
_GRAPHS = {"kernels": [{"name": "loop_fusion_3", "count": 100, "launched_by": "hipGraphLaunch"}]}
_EIGHT_GPUS = {"agents_count": 8}
_REGION = {"selected_rounds": [4, 6]}

FAILURE_MODES = (
    FailureMode(
        number=1,
        name="group-over-capacity",
        faults=("over-full", "over-full:hang"),
        how="SIGABRT at the first counted dispatch, or a hang instead; too many counters of one block do it without a "
        "fault, and pmc-check refuses the same groups",
    ),
    FailureMode(
        number=2,
        name="unknown-counter",
        faults=("unknown-counter", "missing-counter"),
        how="a warning and code 0, the other counters are there; a name that the device lacks does it without a fault",
    ),
    FailureMode(
        number=3,
        name="hang-deep-queue",
        faults=("hang@pmc", "hang-ignoring-sigint@pmc", "hang-ignoring-all@pmc"),
        how="runs that collect counters never end",
    ),
    FailureMode(
        number=4,
        name="hang-flush-kernels",
        faults=("hang@pmc",),
        how="as 3: from outside it cannot be told from it",
    ),
    FailureMode(
        number=5,
        name="hang-many-gpus",
        faults=("hang@trace",),
        scenario=_EIGHT_GPUS,
        how="a trace of one process with eight GPUs never ends",
    ),
    FailureMode(
        number=6,
        name="hang-regions-with-counters",
        faults=("hang@pmc",),
        scenario=_REGION,
        how="as 3, with --selected-regions and --pmc together",
    ),
    FailureMode(
        number=7,
        name="counted-collective",
        faults=("hang:collectives",),
        how="hangs only where a kernel of nccl, rccl or mscclpp is counted; the built-in scenario has one",
    ),
    FailureMode(
        number=8,
        name="one-name-several-processes",
        faults=("same-file",),
        scenario={"processes_count": 2, "agents_count": 2},
        how="a fixed -o does it without the fault; with it two processes have one pid, so %pid% does not help",
    ),
    FailureMode(
        number=9,
        name="worker-ended-early",
        faults=("caught-signal", "dropped-process"),
        how="the text with a whole database, or the file of one process missing",
    ),
    FailureMode(
        number=10,
        name="hang-at-exit",
        faults=("hang", "hang-ignoring-sigint", "hang-ignoring-all", "orphan:60", "slow-finalise:2"),
        how="the application has ended and the tool has not; a child outlives it; files come late",
    ),
    FailureMode(
        number=11,
        name="forked-worker-crash",
        faults=("dropped-process",),
        scenario={"processes_count": 2, "agents_count": 2},
        how="the worker's file is missing; its SIGSEGV itself is swallowed by the parent, as by a data loader",
    ),
    FailureMode(
        number=12,
        name="ring-buffer-on-pipe",
        faults=("munmap:pipe", "munmap"),
        how="SIGABRT where stdout is a pipe (must not happen to us), or always",
    ),
    FailureMode(
        number=13,
        name="two-llvm-copies",
        faults=("comgr-conflict",),
        how="the text of LLVM, then a hang that only SIGTERM ends",
    ),
    FailureMode(
        number=14,
        name="avail-library-missing",
        faults=("avail-missing-lib",),
        how="rocprofv3-avail ends with OSError unless ROCPROF_LIST_AVAIL_TOOL_LIBRARY names the file ending in .so.1",
    ),
    FailureMode(
        number=15,
        name="calls-without-kernels",
        faults=("calls-only",),
        how="host calls are in the file, dispatches are not (a runtime trace; a kernel trace leaves no file)",
    ),
    FailureMode(
        number=16,
        name="kernels-in-a-worker",
        scenario=_ONE_WORKER,
        how="the first process runs no kernel and leaves no file, the second does",
    ),
    FailureMode(
        number=17,
        name="jax-profiler-inside",
        why_not="it is XLA's own profiler that stays empty; what we can do is refuse its use before the launch, which "
        "needs no stand-in",
    ),
    FailureMode(
        number=18,
        name="crash-at-output",
        faults=("crash-at-output",),
        how="double free while files are written: SIGABRT, no file",
    ),
    FailureMode(
        number=19,
        name="graph-launch-crash",
        faults=("segfault:graphs",),
        how="SIGSEGV unless XLA_FLAGS has --xla_gpu_enable_command_buffer= with nothing after it",
    ),
    FailureMode(
        number=20,
        name="graph-kernels-lost",
        faults=("lost-graph-kernels", "lost-graph-kernels:0.99"),
        scenario=_GRAPHS,
        how="a part of the dispatches is not there, the launches are; wrong durations are not acted out, because "
        "nothing in a file tells them from right ones",
    ),
    FailureMode(
        number=21,
        name="absurd-value",
        faults=("outlier",),
        how="one dispatch is a million times too long, and GRBM_GUI_ACTIVE with it",
    ),
    FailureMode(
        number=22,
        name="inverted-times",
        faults=("inverted-timestamps",),
        how="one dispatch ends before it starts; in a trace it overlaps its neighbour on the queue",
    ),
    FailureMode(
        number=23,
        name="no-perfmon-capability",
        faults=("perfmon-warning",),
        how="the text for every GPU, values as always",
    ),
    FailureMode(
        number=24,
        name="all-zero-counters",
        faults=("zero-counters", "zero-counters:SQ_WAVES"),
        how="every value, or every value of one counter, is 0",
    ),
    FailureMode(
        number=25,
        name="zeros-on-mixed-gpus",
        faults=("zero-counters",),
        scenario={"agents_count": 2},
        how="as 24: the file does not show why",
    ),
    FailureMode(
        number=26,
        name="wrong-counter-definition",
        why_not="the values are plausible, and no file or message of a run shows that they are wrong; the guard is to "
        "record the release and to ask for raw counters",
    ),
    FailureMode(
        number=27,
        name="smaller-block",
        faults=("small-block:TCP=1",),
        how="pmc-check refuses and a run aborts, although the table of capacities allows the group",
    ),
    FailureMode(
        number=28,
        name="iterations-from-process-start",
        scenario={**_REGION, "kernels": [{"name": "loop_fusion_3", "count": 12}]},
        how="a range counts from the start of the process, on each device, with or without --selected-regions",
    ),
    FailureMode(
        number=29,
        name="replay-incomplete",
        faults=("replay-once", "replay-collapse"),
        how="release 1.4.1: replay passes take iteration numbers, rocpd puts all passes on one dispatch (both without "
        "a fault), or a dispatch is not replayed at all",
    ),
    FailureMode(
        number=30,
        name="attach",
        why_not="no command of ours attaches; the stand-in's --pid answers code 0 without a file, as seen",
    ),
    FailureMode(
        number=31,
        name="option-of-another-release",
        faults=("reports-version:1.4.1",),
        how="--version names a release that has more options than the parser: code 2 and usage",
    ),
    FailureMode(
        number=32,
        name="queue-interposition",
        why_not="it concerns tools that are linked against the SDK, not rocprofv3",
    ),
    FailureMode(
        number=33,
        name="crash-with-call-arguments",
        faults=("crash-at-output:hip",),
        how="SIGSEGV while files are written, where HIP calls are traced; a kernel trace alone works",
    ),
    FailureMode(
        number=34,
        name="rotating-groups",
        why_not="several groups that take turns in one run exist in input files only, and we write none (the stand-in "
        "does it, so that a test can show what would be missing)",
    ),
)
