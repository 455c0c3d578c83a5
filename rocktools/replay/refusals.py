"""An instruction -> what kind of replay it can have, or the reason why it has none and what to extract instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rocktools.correlate.names import find_launched
from rocktools.errors import CannotExtract, InputError
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.replica_groups import parse_replica_groups, parse_source_target_pairs
from rocktools.replay.registrations import Registration, find_registration, is_callback, is_mark

DEVICES_OF_A_NODE = 8
"""GPUs of one MI355X or MI300X machine: what one process can drive."""

_LISTED = 4
_HOST_MEMORY = "S(5)"  # memory space of layouts: Layout::kHostMemorySpace in XLA's layout.h


class ReplayKind(str, Enum):
    """What launches the instruction."""

    KERNEL = "kernel"  # XLA's own code
    COPY = "copy"  # a copy of memory, no kernel of XLA's
    LIBRARY = "library"  # hipBLASLt, rocBLAS, MIOpen through XLA
    FOREIGN = "foreign"  # a custom call that another package registers
    COLLECTIVE = "collective"  # RCCL, on several devices

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What a replay of an instruction is made of.

    Attributes:
        kind: what launches it.
        devices_count: that the replay needs: 1, or all of the program for a collective.
        registration: of the target of a custom call; None where there is none.
        has_done: whether it starts something asynchronous, so that its `-done` belongs to the replay.
        warnings: what the replay cannot know.
    """

    kind: ReplayKind
    devices_count: int = 1
    registration: Registration | None = None
    has_done: bool = False
    warnings: tuple[str, ...] = ()


_COLLECTIVES = frozenset(
    {
        *("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute"),
        *("collective-broadcast", "all-gather-start", "all-reduce-start", "collective-permute-start"),
    }
)
_EXCHANGES = frozenset({"send", "recv", "infeed", "outfeed", "send-done", "recv-done"})
_STATEFUL = frozenset({"rng", "rng-get-and-update-state"})
_CONTROL = frozenset({"while", "call", "conditional"})
_LAUNCH_NOTHING = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "domain"),
        *("opt-barrier", "partition-id", "replica-id", "get-dimension-size"),
    }
)
_STARTS = ("async-start", "copy-start")


def classify_instruction(module: HloModule, instruction: Instruction, modules: Sequence[str] = ()) -> Classification:
    """What a replay of the instruction is made of.

    Args:
        modules: Python modules that the user says register the target of a custom call.

    Raises:
        CannotExtract: it has no replay of its own; what to extract instead is said.
    """
    _refuse_inner(module, instruction)
    _refuse_opcode(module, instruction)
    _refuse_shapes(module, instruction)
    work = _wrapped(module, instruction)
    if work.opcode in _COLLECTIVES:
        return Classification(
            kind=ReplayKind.COLLECTIVE,
            devices_count=_require_one_node(module, work, instruction),
            has_done=is_start(instruction),
        )
    if work.opcode == "custom-call":
        return _classify_custom_call(work, instruction, modules)
    is_copy = work.opcode in ("copy", "copy-start") or _is_plain_copy(module, work)
    return Classification(
        kind=ReplayKind.COPY if is_copy else ReplayKind.KERNEL,
        has_done=is_start(instruction),
        registration=_registration_inside(module, work, modules),
        warnings=_data_warnings(module, work),
    )


def is_collective(instruction: Instruction) -> bool:
    """Whether it exchanges data between devices; also one that an asynchronous start wraps."""
    return instruction.opcode in _COLLECTIVES


def is_start(instruction: Instruction) -> bool:
    """Whether a `-done` waits for what the instruction starts."""
    return instruction.opcode in _STARTS or (
        instruction.opcode.endswith("-start") and instruction.opcode in _COLLECTIVES
    )


def find_done(module: HloModule, start: Instruction) -> Instruction | None:
    """The instruction that waits for what `start` starts, past updates in between."""
    seen = {start.name}
    waiting = [start.name]
    while waiting:
        for user in module.users.get(waiting.pop(), ()):
            if user.opcode.endswith("-done"):
                return user
            if user.opcode == "async-update" and user.name not in seen:
                seen.add(user.name)
                waiting.append(user.name)
    return None


def _refuse(reference: str, instruction: Instruction, what: str, hint: str) -> CannotExtract:
    return CannotExtract(reference, f"{instruction.name} ({instruction.opcode}) has no replay: {what}", hint=hint)


def _refuse_inner(module: HloModule, instruction: Instruction) -> None:
    """What is fused, or applied by a reduction, is no launch of its own."""
    for caller in module.callers.get(instruction.computation, ()):
        if caller.opcode not in (*_CONTROL, "async-start"):
            what = f"it is a part of {caller.name} ({caller.opcode})"
            raise _refuse("inside-another-instruction", instruction, what, f"--instruction {caller.name}")
        if caller.opcode == "async-start":
            what = f"it is what {caller.name} starts"
            raise _refuse("inside-another-instruction", instruction, what, f"--instruction {caller.name}")


def _refuse_opcode(module: HloModule, instruction: Instruction) -> None:
    opcode = instruction.opcode
    if opcode in _EXCHANGES:
        what = "it exchanges data with the host or another program"
        raise _refuse("exchange-with-host", instruction, what, _neighbours(module, instruction))
    if opcode.endswith("-done") or opcode == "async-update":
        start = _start_of(module, instruction)
        what = f"it only waits for {start}" if start else "it only waits"
        raise _refuse(
            "only-waits", instruction, what, f"--instruction {start}" if start else "extract what it waits for"
        )
    if opcode in _CONTROL:
        what = "it launches many kernels"
        raise _refuse("launches-many-kernels", instruction, what, _inside(module, instruction))
    if opcode in _STATEFUL:
        what = "its result depends on state that the job has advanced"
        raise _refuse("stateful-random-numbers", instruction, what, _neighbours(module, instruction))
    if opcode in _LAUNCH_NOTHING:
        raise _refuse("launches-nothing", instruction, "it launches nothing", _neighbours(module, instruction))


def _refuse_shapes(module: HloModule, instruction: Instruction) -> None:
    for name in instruction.operands:
        operand = module.instructions.get(name)
        if operand is None:
            what = f"its operand {name} is missing in the program that was read"
            raise _refuse("operand-missing", instruction, what, "name the whole program: *.hlo.pb of the dump")
        if operand.shape.is_tuple or operand.shape.dtype in ("token", "opaque", "buffer"):
            what = f"its operand {name} is a {operand.shape.dtype}, which no parameter of a replay can be"
            raise _refuse("tuple-parameter", instruction, what, _neighbours(module, instruction))
        if any(_HOST_MEMORY in (leaf.layout or "") for leaf in (operand.shape, *instruction.shape.leaves())):
            what = f"its operand {name}, or its result, is in the memory of the host"
            raise _refuse("exchange-with-host", instruction, what, _neighbours(module, instruction))
        if operand.shape.dynamic:
            what = f"its operand {name} has the dynamic shape {operand.shape}"
            raise _refuse("dynamic-shape", instruction, what, _neighbours(module, instruction))


def _classify_custom_call(work: Instruction, instruction: Instruction, modules: Sequence[str]) -> Classification:
    target = work.custom_call_target
    if is_mark(target):
        what = f"{target} only marks something"
        raise _refuse("launches-nothing", instruction, what, "extract what makes its operand, or what reads its result")
    if target.startswith("__cudnn$conv") and not _has_algorithm(work):
        what = "no algorithm is written in its backend_config, so that another one might run"
        hint = "dump the program after autotuning (xla_gpu_autotune_level above 0), and extract it from there"
        raise _refuse("convolution-without-algorithm", instruction, what, hint)
    found = _require_registration(target, instruction, modules)
    if found.module:
        return Classification(
            kind=ReplayKind.FOREIGN,
            registration=found,
            has_done=is_start(instruction),
            warnings=_foreign_warnings(found),
        )
    return Classification(
        kind=ReplayKind.LIBRARY,
        registration=found,
        has_done=is_start(instruction),
        warnings=_library_warnings(work),
    )


def _has_algorithm(call: Instruction) -> bool:
    settings = call.backend_config()
    inner = settings.get("cudnn_conv_backend_config", settings)
    return isinstance(inner, dict) and isinstance(inner.get("algorithm"), dict)


def _library_warnings(call: Instruction) -> tuple[str, ...]:
    found = []
    target = call.custom_call_target
    if target.startswith("__cublas$lt$") and '"selected_algorithm"' not in call.attributes.get("backend_config", ""):
        found.append(
            "no algorithm is selected in the program: the library runs its first one, as the job did unless "
            "it was autotuned; compare the name of the library's kernel (Cijk_...)"
        )
    elif target.startswith("__cublas$lt$"):
        found.append(
            "the algorithm is an index into what hipBLASLt proposes: it names the same kernel with the same hipBLASLt "
            "only; compare the name of the library's kernel (Cijk_...)"
        )
    if "groupedMatmul" in target:
        found.append("the sizes of the groups are data: a trained router's differ from the uniform ones made here")
    return tuple(found)


def _foreign_warnings(registration: Registration) -> tuple[str, ...]:
    if registration.target.startswith("te_"):
        return ("sequence lengths, offsets and seeds among its operands are data: captured ones give the job's time",)
    return ("operands that hold sizes or offsets are data: captured ones give the job's time",)


def _registration_inside(module: HloModule, instruction: Instruction, modules: Sequence[str]) -> Registration | None:
    """Of a fusion around a custom call (`__custom_fusion` and the like): the call's registration.

    Raises:
        CannotExtract: nobody is known who registers it, or it calls back into the job.
    """
    for name in instruction.called if instruction.opcode == "fusion" else ():
        computation = module.computations.get(name)
        for inner in computation.instructions if computation is not None else ():
            if inner.opcode == "custom-call" and not is_mark(inner.custom_call_target):
                return _require_registration(inner.custom_call_target, instruction, modules)
    return None


def _require_registration(target: str, instruction: Instruction, modules: Sequence[str]) -> Registration:
    if is_callback(target):
        what = f"{target} calls back into the Python of the job"
        raise _refuse("python-callback", instruction, what, "extract a kernel beside it; rocktools hlo list names them")
    found = find_registration(target, modules)
    if found is None:
        what = f"nobody is known who registers the custom call target {target!r}"
        raise _refuse("target-not-registered", instruction, what, "--import MODULE names the Python module that does")
    return found


def _data_warnings(module: HloModule, instruction: Instruction) -> tuple[str, ...]:
    text = f"{instruction.metadata.op_name} {instruction.name}".lower()
    opcodes = {
        inner.opcode
        for name in instruction.called
        if name in module.computations
        for inner in module.computations[name].instructions
    } | {instruction.opcode}
    found = []
    if opcodes & {"gather", "scatter", "sort", "ragged-dot"}:
        found.append("where its indices point decides how fast it is: a trained router's differ from the random ones")
    has_mask = bool(opcodes & {"compare", "select", "custom-call"})  # nothing else looks where a sequence ends
    if has_mask and any(word in text for word in ("attention", "attn", "segment", "seqlen")) and "while" not in opcodes:
        found.append("lengths of sequences in a mask are data: captured operands give the job's")
    return tuple(found)


def _is_plain_copy(module: HloModule, instruction: Instruction) -> bool:
    """Whether a fusion is a slice or a copy of contiguous memory, which XLA:GPU does without a kernel.

    XLA decides (`FusionEmitter` of memcpy fusions); names are no proof. So this says what is only a candidate: the
    thunk sequence knows.
    """
    if instruction.opcode != "fusion" or len(instruction.called) != 1:
        return False
    computation = module.computations.get(instruction.called[0])
    if computation is None:
        return False
    inner = {each.opcode for each in computation.instructions} - {"parameter", "bitcast", "constant", "tuple"}
    return bool(inner) and inner <= {"slice", "copy"}


def _wrapped(module: HloModule, instruction: Instruction) -> Instruction:
    """What an asynchronous start starts; the instruction itself elsewhere."""
    if instruction.opcode != "async-start":
        return instruction
    for name in instruction.called:
        computation = module.computations.get(name)
        if computation is not None and computation.root is not None:
            return computation.root
    return instruction


def _require_one_node(module: HloModule, work: Instruction, instruction: Instruction) -> int:
    """The devices that the program runs on.

    Raises:
        CannotExtract: they are more than one machine has.
    """
    partitions = _count(module, "num_partitions")
    count = partitions * _count(module, "replica_count")
    members = _members(work, count)
    devices = max([count, *(device + 1 for device in members)])
    if devices > DEVICES_OF_A_NODE:
        what = f"it joins {devices} devices, and one machine has {DEVICES_OF_A_NODE}"
        hint = "compile the job for one machine, with the same sizes per device, and extract it from there"
        raise _refuse("groups-of-several-nodes", instruction, what, hint)
    return devices


def _members(work: Instruction, count: int) -> tuple[int, ...]:
    try:
        if "source_target_pairs" in work.attributes:
            pairs = parse_source_target_pairs(work.attributes["source_target_pairs"])
            return tuple(device for pair in pairs for device in pair)
        groups = parse_replica_groups(work.attributes.get("replica_groups", "{}"), devices_count=count)
    except InputError as error:
        raise CannotExtract("groups-unreadable", f"{work.name}: {error.what}", hint=error.hint) from error
    return tuple(device for group in groups for device in group)


def _count(module: HloModule, name: str) -> int:
    text = module.attributes.get(name, "1")
    return int(text) if text.isdecimal() and len(text) < 10 else 1


def _start_of(module: HloModule, instruction: Instruction) -> str:
    """The start that a done or an update waits for; "" where it is missing."""
    seen: set[str] = set()
    current: Instruction | None = instruction
    while current is not None and current.operands and current.name not in seen:
        seen.add(current.name)
        current = module.instructions.get(current.operands[0])
        if current is not None and not current.opcode.endswith(("-done", "-update")):
            return current.name
    return ""


def _inside(module: HloModule, instruction: Instruction) -> str:
    """Kernels that a loop, a call or a branch launches."""
    launched = {each.name: each for each in find_launched(module)}
    names = [
        each.name
        for called in instruction.called
        if called in module.computations
        for each in module.computations[called].instructions
        if each.name in launched
    ]
    return _listed(names) or "extract an instruction inside of it; rocktools hlo list names them"


def _neighbours(module: HloModule, instruction: Instruction) -> str:
    """Kernels that make its operands, or read its result."""
    hopeless = _EXCHANGES | _STATEFUL
    launched = {each.name for each in find_launched(module) if each.opcode not in hopeless}
    names = [name for name in instruction.operands if name in launched]
    names += [user.name for user in module.users.get(instruction.name, ()) if user.name in launched]
    return _listed(names) or "extract a kernel beside it; rocktools hlo list names them"


def _listed(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"--instruction {', '.join(names[:_LISTED])}{', ...' if len(names) > _LISTED else ''}"
