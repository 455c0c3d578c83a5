"""What a simulated run does, and what goes wrong with its trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocktools.demo.library_kernels import SYMBOL_ENDING, Copies
from rocktools.demo.rocpd_defaults import PID, START_NS
from rocktools.errors import UsageError

_RATIOS = (
    *("foreign_ratio", "loss_ratio", "cut_first_ratio", "cut_last_ratio"),
    *("swapped_times_ratio", "swapped_ids_ratio"),
)


class Lanes(str, Enum):
    """How streams and hardware queues are laid out."""

    SEPARATE = "separate"  # every stream has a queue of its own
    MERGED_QUEUE = "merged-queue"  # streams run side by side, but the packets of all go through one queue
    ONE_STREAM = "one-stream"  # nothing is asynchronous: everything runs in the order of launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run to simulate; what is not given is a clean trace of three steps on one device, warm-up included.

    Attributes:
        seed: of all chance. The program launches the same kernels under every seed.
        steps_count: executions of the program on every device.
        devices_count: agents; each runs the program, launched by a thread of its own.
        unknown_trips_count: iterations of a loop whose trip count the compiler does not know.
        copies: which copy thunks leave a dispatch.
        is_k_split: whether some matmuls are followed by a helper kernel.
        has_sort_merges: whether sorts are followed by library kernels.
        all_to_all_kernels_count: kernels of one all-to-all.
        symbol_ending: ending of the names of kernels that are no C++ functions; "" as roctracer wrote them.
        warm_up_dispatches_count: kernels of autotuning before the first step, on every device.
        other_runs_count: runs of another small executable before the first step; there is one between any two steps
            and one after the last too. 0: it does not exist.
        foreign_ratio: kernels of nobody inside the steps, per dispatch of the program.
        substituted_kernels_count: generated kernels that this run had under another name and with another geometry.
        lanes: how streams and queues are laid out.
        has_stream_ids: whether the trace tells the streams apart; False gives all dispatches stream 0.
        has_host_calls: whether the trace has the HIP call that launched each dispatch.
        is_serialised: whether times are those of a counter pass, one kernel at a time.
        loss_ratio: records lost, each by chance.
        bursts_count: stretches of lost records on every device.
        burst_dispatches_count: records in such a stretch.
        cut_first_ratio: share of the first step that was over when recording began; 0 records the warm-up too.
        cut_last_ratio: share of the last step that was not recorded.
        swapped_times_ratio: pairs of short neighbours of one stream whose recorded times are the wrong way round.
        swapped_ids_ratio: pairs launched one after the other on two streams whose dispatch ids are exchanged.
        communication_skew_ns: how far the clock of all streams but the main one is ahead.
        pid: process id; with the seed it makes the label of the process.
        start_ns: when the process starts, trace clock.

    Raises:
        UsageError: a count is negative, or a ratio is outside of 0 to 1.
    """

    seed: int = 0
    steps_count: int = 3
    devices_count: int = 1
    unknown_trips_count: int = 3
    copies: Copies = Copies.MIXED
    is_k_split: bool = True
    has_sort_merges: bool = True
    all_to_all_kernels_count: int = 1
    symbol_ending: str = SYMBOL_ENDING
    warm_up_dispatches_count: int = 200
    other_runs_count: int = 2
    foreign_ratio: float = 0.0
    substituted_kernels_count: int = 0
    lanes: Lanes = Lanes.SEPARATE
    has_stream_ids: bool = True
    has_host_calls: bool = False
    is_serialised: bool = False
    loss_ratio: float = 0.0
    bursts_count: int = 0
    burst_dispatches_count: int = 500
    cut_first_ratio: float = 0.0
    cut_last_ratio: float = 0.0
    swapped_times_ratio: float = 0.0
    swapped_ids_ratio: float = 0.0
    communication_skew_ns: int = 0
    pid: int = PID
    start_ns: int = START_NS

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if name.endswith("_count") and value < (name in ("steps_count", "devices_count")):
                raise UsageError("simulation-count", f"{name} is too small: {value}")
            if name in _RATIOS and not 0 <= value <= 1:
                raise UsageError("simulation-ratio", f"{name} must be in 0 to 1, but is {value}")
