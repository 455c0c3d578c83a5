"""One collective over the devices of this process: each has a message of as many elements."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import measure

AXIS = "devices"
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which collective, over how many devices, of which size."""
    parser.add_argument("--collective", choices=COLLECTIVES, default="all-reduce", help="which one")
    sizes = {
        "devices": (8, "devices of this process that take part"),
        "elements": (2**26, "of a device's input; of its result, for all-gather"),
    }
    measure.add_sizes(parser, sizes)
    measure.add_dtype(parser)


def build(options: argparse.Namespace) -> measure.Work:
    """The collective that the options ask for."""
    collective, devices, elements, dtype = options.collective, options.devices, options.elements, options.dtype
    if devices < 2:
        raise measure.ArgumentsError("--devices must be at least 2: one device has nobody to talk to")
    if elements % devices:
        raise measure.ArgumentsError(f"--elements must be a multiple of --devices, but {elements} is none of {devices}")
    part = elements // devices
    sent_count = part * (devices - 1)
    sent = {"all-reduce": 2 * sent_count, "collective-permute": elements}.get(collective, sent_count)
    reduces = collective in ("all-reduce", "reduce-scatter")
    read = part if collective == "all-gather" else elements
    written = part if collective == "reduce-scatter" else elements
    return measure.Work(
        function=_function(collective, devices),
        operands=(measure.Operand(dimensions=(read * devices,), dtype=dtype),),
        sizes={"collective": collective, "devices": devices, "elements": elements},
        dtype=dtype,
        flop=sent_count if reduces else 0,
        flop_counted="of one device: the additions that a ring leaves to it",
        read_bytes=measure.byte_size(read, dtype),
        written_bytes=measure.byte_size(written, dtype),
        bytes_counted="of one device: its input read once, its result written once; not the library's own buffers, nor "
        "the copy that XLA makes of an input it may not reduce in place",
        # The least that any algorithm without help of the network can do; a ring reaches it.
        further={"sent_bytes": measure.byte_size(sent, dtype)},
        axis=AXIS,
        devices_count=devices,
    )


def _function(collective: str, devices: int) -> Any:
    """What each device does with its part."""

    def communicate(x: Any) -> Any:
        from jax import lax

        if collective == "all-reduce":
            return lax.psum(x, AXIS)
        if collective == "all-gather":
            return lax.all_gather(x, AXIS, tiled=True)
        if collective == "reduce-scatter":
            return lax.psum_scatter(x, AXIS, tiled=True)
        if collective == "all-to-all":
            return lax.all_to_all(x, AXIS, 0, 0, tiled=True)
        return lax.ppermute(x, AXIS, [(device, (device + 1) % devices) for device in range(devices)])

    return communicate


SCRIPT = measure.Script(name="collective", description=__doc__, add_options=add_options, build=build)


def step(devices: Sequence[Any]) -> Any:
    """The all-reduce of the default size over all devices, for `rocktools aot compile`."""
    return measure.build_program(SCRIPT, devices, ("--devices", str(len(devices))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    return measure.run(SCRIPT, arguments)


if __name__ == "__main__":
    sys.exit(main())
