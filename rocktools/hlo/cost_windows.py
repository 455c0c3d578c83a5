"""Windows of convolutions and window reductions: how many positions they touch, padding and holes left out.

Formats: `window={size=3x3 stride=2x2 pad=1_1x0_0 lhs_dilate=1x1 rhs_dilate=1x1}` and `dim_labels=b01f_01io->b01f`,
as XLA prints them (xla/window_util.cc, xla/hlo/parser).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.hlo.shapes import Shape

_FIELD = re.compile(r"(\w+)=([^\s}]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDimension:
    """One dimension of a window. Dilations are 1 where nothing lies between two positions."""

    size: int
    stride: int = 1
    padding_low: int = 0
    base_dilation: int = 1
    window_dilation: int = 1


def parse_window(text: str) -> tuple[WindowDimension, ...]:
    """The dimensions of a window; () where the text has none (a convolution over nothing, which is a product)."""
    fields = dict(_FIELD.findall(text))
    sizes = _numbers(fields.get("size", ""))
    strides = _numbers(fields.get("stride", "")) or [1] * len(sizes)
    base = _numbers(fields.get("lhs_dilate", "")) or [1] * len(sizes)
    dilations = _numbers(fields.get("rhs_dilate", "")) or [1] * len(sizes)
    paddings = [int(pad.split("_")[0]) for pad in fields["pad"].split("x")] if "pad" in fields else [0] * len(sizes)
    return tuple(
        WindowDimension(size=size, stride=stride, padding_low=pad, base_dilation=hole, window_dilation=dilation)
        for size, stride, pad, hole, dilation in zip(sizes, strides, paddings, base, dilations, strict=True)
    )


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split("x")] if text else []


def count_positions(window: WindowDimension, base_length: int, output_length: int) -> int:
    """How many pairs (output, place in the window) meet an element of the base, along one dimension.

    Output `o` and place `k` meet element `(o * stride + k * window_dilation - padding_low) / base_dilation`, if that is
    a whole number and within the base.
    """
    step = window.stride // math.gcd(window.stride, window.base_dilation)
    period = window.base_dilation // math.gcd(window.stride, window.base_dilation)
    inverse = pow(step, -1, period) if period > 1 else 0
    last = (base_length - 1) * window.base_dilation
    found = 0
    for place in range(window.size):
        offset = place * window.window_dilation - window.padding_low
        first_output = max(0, -(offset // window.stride))
        last_output = min(output_length - 1, (last - offset) // window.stride)
        if last_output < first_output or offset % math.gcd(window.stride, window.base_dilation):
            continue
        # Outputs o with (o * stride + offset) % base_dilation == 0 are one residue modulo the period.
        residue = (-(offset // math.gcd(window.stride, window.base_dilation)) * inverse) % period
        found += (last_output - residue) // period - (first_output - 1 - residue) // period
    return found


def count_window_terms(window: tuple[WindowDimension, ...], base: Shape, output: Shape) -> int:
    """Elements that a window reduction adds up, for all outputs together."""
    return math.prod(
        count_positions(dimension, base_length, output_length)
        for dimension, base_length, output_length in zip(window, base.dimensions, output.dimensions, strict=True)
    )


def count_convolution_flop(attributes: Mapping[str, str], base: Shape, kernel: Shape, output: Shape) -> int:
    """FLOPs of a convolution: two for each meeting of a base element and a kernel element.

    For the gradients of a convolution, `base`, `kernel` and `output` are those of the convolution itself: they meet in
    the same pairs. Groups are in the shapes: `i` of the kernel counts the features of one group, `b` of the output the
    batches of one.
    """
    labels = attributes.get("dim_labels", "")
    base_labels, _, rest = labels.partition("_")
    kernel_labels, _, output_labels = rest.partition("->")
    meetings = 1
    for i, dimension in enumerate(parse_window(attributes.get("window", ""))):
        base_length = base.dimensions[base_labels.index(str(i))]
        output_length = output.dimensions[output_labels.index(str(i))]
        meetings *= count_positions(dimension, base_length, output_length)
    batch = output.dimensions[output_labels.index("b")]
    features = output.dimensions[output_labels.index("f")]
    terms = kernel.dimensions[kernel_labels.index("i")]
    return 2 * batch * features * terms * meetings
