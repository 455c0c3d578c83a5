"""Small compiled programs without any file: a tree of launches -> HLO text, thunk sequence, thunk metadata.

The texts are in the form that jaxlib 0.10 dumps for ROCm; the HLO is valid. Every value is f32[64,128], so anything can
follow anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.hlo.thunk_reader import parse_thunk_sequence

ARRAY = "f32[64,128]{1,0}"
STREAM = "communication_stream[0]"
STEM = "module_0007.jit_tiny.gfx950_gpu"


@dataclass
class Launch:
    """One thunk of the main stream.

    Attributes:
        instruction: its name; the text before the first dot or digit does not matter.
        kind: as in the thunk sequence.
        kernel: symbol; "" for library thunks.
        grid: workgroups, x.
        opcode: what the HLO text shows.
    """

    instruction: str
    kind: str = "kCustomKernel"
    kernel: str = ""
    grid: int = 1
    opcode: str = "fusion"


@dataclass
class Async:
    """A collective between its start and its done; `inside` runs on the main stream meanwhile."""

    instruction: str
    inside: list[Node] = field(default_factory=list)


@dataclass
class Loop:
    """A while; `trips` None: the compiler does not know."""

    instruction: str
    body: list[Node]
    trips: int | None = None
    condition: list[Node] = field(default_factory=list)


Node = Launch | Async | Loop


def kernel(instruction: str, symbol: str | None = None, grid: int = 1) -> Launch:
    """A generated kernel; its symbol is the instruction's name, sanitized, unless it shares another's."""
    return Launch(instruction, kernel=symbol or instruction.replace(".", "_"), grid=grid)


def matmul(instruction: str) -> Launch:
    return Launch(instruction, "kCublasLtMatmul", opcode="custom-call")


def copy(instruction: str) -> Launch:
    return Launch(instruction, "kCopy", opcode="copy")


def all_reduce(instruction: str) -> Launch:
    return Launch(instruction, "kAllReduce", opcode="all-reduce")


def all_to_all(instruction: str) -> Launch:
    return Launch(instruction, "kAllToAll", opcode="all-to-all")


# 30 thunks: a loop in a loop, reused kernels, asynchronous collectives with work in between, copies, library thunks.
TINY: list[Node] = [
    copy("copy.1"),
    kernel("loop_broadcast_fusion.1", grid=4),
    kernel("loop_broadcast_fusion.2", "loop_broadcast_fusion_1", grid=4),
    Loop(
        "while.1",
        trips=3,
        condition=[kernel("loop_compare_fusion.1")],
        body=[
            kernel("loop_add_fusion.1"),
            copy("copy.2"),
            Async("all-reduce-start.1", inside=[kernel("loop_gather_fusion.1", grid=7), matmul("custom-call.1")]),
            Loop(
                "while.2",
                trips=5,
                condition=[kernel("loop_compare_fusion.2", "loop_compare_fusion_1")],
                body=[
                    kernel("loop_add_fusion.2", "loop_add_fusion_1"),
                    kernel("input_reduce_fusion.1", grid=32),
                    matmul("custom-call.2"),
                    all_to_all("all-to-all.1"),
                    kernel("gemm_fusion_dot.1", grid=16),
                    kernel("loop_multiply_fusion.1", grid=3),
                    kernel("loop_multiply_fusion.2", "loop_multiply_fusion_1", grid=5),
                    Async("all-reduce-start.2", inside=[kernel("wrapped_convert.1", grid=9)]),
                ],
            ),
            kernel("sort.1", grid=2),
            all_reduce("all-reduce.3"),
        ],
    ),
    kernel("wrapped_convert.2", "wrapped_convert_1", grid=9),
    kernel("input_transpose_fusion.1", grid=11),
    copy("copy.3"),
]


def sequence_text(nodes: Sequence[Node]) -> str:
    """`*.thunk_sequence.txt`; ids count in the order of the lines, but a start comes after its collective."""
    return "".join(_SequenceText().lines(nodes, 0))


def thunk_ids(nodes: Sequence[Node]) -> dict[str, tuple[int, str]]:
    """Instruction -> thunk id and kind; a loop's and a start's own among them, starts and dones as `NAME start`."""
    text = _SequenceText()
    list(text.lines(nodes, 0))
    return text.ids


class _SequenceText:
    def __init__(self) -> None:
        self.last = 0
        self.ids: dict[str, tuple[int, str]] = {}

    def _next(self, name: str, kind: str) -> int:
        self.last += 1
        self.ids[name] = (self.last, kind)
        return self.last

    def lines(self, nodes: Sequence[Node], indent: int) -> Iterator[str]:
        blank = " " * indent
        for node in nodes:
            if isinstance(node, Launch):
                number = self._next(node.instruction, node.kind)
                size = f"grid: [{node.grid}, 1, 1] threads: [256, 1, 1]  shared_memory: 0 bytes"
                text = f"{node.kernel} {size}" if node.kernel else node.kind
                yield f"{blank}{number:03d}: {node.kind} [source | sink] {text}\n"
            elif isinstance(node, Async):
                inner = self._next(node.instruction, "kAllReduce")
                number = self._next(f"{node.instruction} start", "kAsyncStart")
                yield f"{blank}{number:03d}: kAsyncStart [source | sink] stream={STREAM}, async_id={number}\n"
                yield f"{blank}    {inner:03d}: kAllReduce [source | sink] kAllReduce\n"
                yield from self.lines(node.inside, indent)
                done = self._next(f"{node.instruction} done", "kAsyncDone")
                yield f"{blank}{done:03d}: kAsyncDone [source | sink] async_id={number}\n"
            else:
                number = self._next(node.instruction, "kWhile")
                yield f"{blank}{number:03d}: kWhile [source | sink] {blank}\n"
                yield "condition:\n"
                yield from self.lines(node.condition, indent + 4) if node.condition else ["    No thunks."]
                yield f"{blank}  body:\n"
                yield from self.lines(node.body, indent + 4) if node.body else ["    No thunks.\n"]


def metadata_text(nodes: Sequence[Node]) -> str:
    """`*.thunk_metadata.txt`: starts and dones have the collective's instruction, as in real files."""
    return "".join(
        f'thunk_metadata {{\n  thunk_info {{\n    profile_annotation: "{name.split(" ")[0]}"\n'
        f'    thunk_id: {number}\n  }}\n  thunk_kind: "{kind}"\n}}\n'
        for name, (number, kind) in thunk_ids(nodes).items()
    )


_STATE = f"(s32[], {ARRAY})"
_HEAD = """HloModule jit_tiny, is_scheduled=true, entry_computation_layout={(f32[64,128]{1,0})->f32[64,128]{1,0}}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%fused (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128]{1,0} parameter(0)
  ROOT %negate = f32[64,128]{1,0} negate(%p)
}
"""
_GROUPS = "channel_id=1, replica_groups={{0,1}}"


def hlo_text(nodes: Sequence[Node]) -> str:
    """The module, scheduled."""
    text = _HloText()
    entry = text.computation(nodes, "p0")
    lines = [f"  %p0 = {ARRAY} parameter(0)", *entry]
    lines[-1] = lines[-1].replace("  %", "  ROOT %", 1)
    main = f"\nENTRY %main (p0: f32[64,128]) -> f32[64,128] {{\n{chr(10).join(lines)}\n}}\n"
    return _HEAD + "".join(text.computations) + main


class _HloText:
    def __init__(self) -> None:
        self.computations: list[str] = []

    def computation(self, nodes: Sequence[Node], value: str) -> list[str]:
        """Instructions that turn `value` into the last line's."""
        lines: list[str] = []
        for node in nodes:
            name = node.instruction
            if isinstance(node, Launch):
                lines.append(_instruction(name, node.opcode, value))
            elif isinstance(node, Async):
                lines.append(f"  %{name} = {ARRAY} all-reduce-start(%{value}), {_GROUPS}, to_apply=%add")
                inside = self.computation(node.inside, value)
                lines += inside
                value = name.replace("start", "done")
                lines.append(f"  %{value} = {ARRAY} all-reduce-done(%{name})")
                continue
            else:
                lines += self._loop(node, value)
                value = f"{name}.value"
                continue
            value = name
        return lines

    def _loop(self, node: Loop, value: str) -> list[str]:
        name = node.instruction
        config = f', backend_config={{"known_trip_count":{{"n":"{node.trips}"}}}}' if node.trips is not None else ""
        body = self.computation(node.body, f"{name}.in")
        last = body[-1].split("=")[0].strip().removeprefix("%") if body else f"{name}.in"
        inner = "\n".join(
            [
                f"  %{name}.state = {_STATE} parameter(0)",
                f"  %{name}.i = s32[] get-tuple-element(%{name}.state), index=0",
                f"  %{name}.in = {ARRAY} get-tuple-element(%{name}.state), index=1",
                *body,
                f"  ROOT %{name}.out = {_STATE} tuple(%{name}.i, %{last})",
            ]
        )
        self.computations.append(f"\n%{name}.body (state: {_STATE}) -> {_STATE} {{\n{inner}\n}}\n")
        condition = "\n".join(
            [
                f"  %{name}.seen = {_STATE} parameter(0)",
                *(
                    f"  %{one.instruction} = {ARRAY} fusion(%{name}.held), kind=kLoop, calls=%fused"
                    for one in node.condition
                ),
                f"  %{name}.count = s32[] get-tuple-element(%{name}.seen), index=0",
                f"  %{name}.limit = s32[] constant(9)",
                f"  ROOT %{name}.more = pred[] compare(%{name}.count, %{name}.limit), direction=LT",
            ]
        )
        held = f"  %{name}.held = {ARRAY} get-tuple-element(%{name}.seen), index=1\n"
        first, _, rest = condition.partition("\n")
        self.computations.append(f"\n%{name}.condition (state: {_STATE}) -> pred[] {{\n{first}\n{held}{rest}\n}}\n")
        return [
            f"  %{name}.zero = s32[] constant(0)",
            f"  %{name}.tuple = {_STATE} tuple(%{name}.zero, %{value})",
            f"  %{name} = {_STATE} while(%{name}.tuple), condition=%{name}.condition, body=%{name}.body{config}",
            f"  %{name}.value = {ARRAY} get-tuple-element(%{name}), index=1",
        ]


def _instruction(name: str, opcode: str, value: str) -> str:
    rest = {
        "fusion": f"fusion(%{value}), kind=kLoop, calls=%fused",
        "custom-call": f'custom-call(%{value}, %{value}), custom_call_target="__cublas$lt$matmul"',
        "copy": f"copy(%{value})",
        "all-reduce": f"all-reduce(%{value}), {_GROUPS}, to_apply=%add",
        "all-to-all": f"all-to-all(%{value}), {_GROUPS}, dimensions={{0}}",
    }[opcode]
    return f"  %{name} = {ARRAY} {rest}"


def build_tiny(nodes: Sequence[Node] | None = None, name: str = "jit_tiny") -> CompiledProgram:
    """The program, in memory."""
    nodes = TINY if nodes is None else nodes
    module = parse_hlo_text(hlo_text(nodes).replace("jit_tiny", name), name)
    thunks = parse_thunk_sequence(sequence_text(nodes), metadata_text(nodes), name)
    return CompiledProgram(module=module, thunks=thunks)


def write_tiny_dump(folder: Path, nodes: Sequence[Node] | None = None) -> None:
    """The files that XLA would dump for it."""
    nodes = TINY if nodes is None else nodes
    stem = STEM.rpartition(".")[0]
    (folder / f"{STEM}_after_optimizations.txt").write_text(hlo_text(nodes), encoding="utf-8")
    (folder / f"{stem}.thunk_sequence.txt").write_text(sequence_text(nodes), encoding="utf-8")
    (folder / f"{stem}.thunk_metadata.txt").write_text(metadata_text(nodes), encoding="utf-8")


@st.composite
def program_trees(draw: st.DrawFn) -> list[Node]:
    """Any tree: loops in loops, of unknown, no, one or more trips, asynchronous collectives around anything."""
    numbers = iter(range(10_000))

    def nodes(depth: int) -> list[Node]:
        found: list[Node] = []
        for kind in draw(st.lists(st.sampled_from(["kernel", "copy", "matmul", "async", "loop"]), max_size=4)):
            name = f"{kind}.{next(numbers)}"
            if kind == "async" and depth:
                found.append(Async(name, nodes(depth - 1)))
            elif kind == "loop" and depth:
                trips = draw(st.sampled_from([None, 0, 1, 3]))
                found.append(Loop(name, nodes(depth - 1), trips, [kernel(f"condition.{next(numbers)}")]))
            else:
                found.append({"copy": copy, "matmul": matmul}.get(kind, kernel)(name))
        return found

    return [copy("first.1"), *nodes(3)]
