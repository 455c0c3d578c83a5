"""The shape of a training job -> the sequences and tokens of one step, each counted once.

A step is one optimizer update. The global batch of a resolved configuration is of all devices already; multiplying it
by them again is the mistake that this module is there to find. Assignments to experts are no tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one step reads.

    Attributes:
        sequences_count: of all devices and microsteps.
        sequence_tokens: slots of a sequence, padding included.
        devices_count: devices that share the step.
        microsteps_count: forward and backward passes before the update.
    """

    sequences_count: int
    sequence_tokens: int
    devices_count: int
    microsteps_count: int

    @property
    def tokens_count(self) -> int:
        return self.sequences_count * self.sequence_tokens


def resolve_batch(
    *,
    sequence_tokens: int,
    devices_count: int,
    per_device_sequences: int | None = None,
    global_sequences: int | None = None,
    microsteps_count: int = 1,
) -> Batch:
    """The batch of a step.

    Args:
        per_device_sequences: of one device in one microstep.
        global_sequences: of all devices and microsteps, as a resolved configuration states it.
        microsteps_count: gradient accumulation.

    Raises:
        UsageError: neither of the two is given, they contradict each other, or a count is below 1.
    """
    counts = (sequence_tokens, devices_count, per_device_sequences, global_sequences, microsteps_count)
    if any(count is not None and count < 1 for count in counts):
        raise UsageError("batch-count", "a batch, its sequences, devices and microsteps are at least 1 each")
    product = None if per_device_sequences is None else per_device_sequences * devices_count * microsteps_count
    if product is None and global_sequences is None:
        raise UsageError("batch-unknown", "no batch is given", hint="the batch of one device, or that of all")
    if product is not None and global_sequences is not None and product != global_sequences:
        again = " (the devices are multiplied in twice)" if global_sequences == product * devices_count else ""
        raise UsageError(
            "batch-does-not-resolve",
            f"{per_device_sequences} sequences x {devices_count} devices x {microsteps_count} microsteps are "
            f"{product}, and the global batch is given as {global_sequences}{again}",
            hint="one of the two only",
        )
    sequences_count = product if product is not None else global_sequences
    assert sequences_count is not None
    return Batch(
        sequences_count=sequences_count,
        sequence_tokens=sequence_tokens,
        devices_count=devices_count,
        microsteps_count=microsteps_count,
    )
