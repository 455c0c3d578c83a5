"""The thunk sequence: what XLA:GPU launches, in order, with loops nested; from `*.thunk_sequence.txt` and its metadata.

A thunk is one step of the executable: a kernel launch, a library call, a copy, a collective, a loop. The sequence file
has order, kinds, kernel symbols and geometry; the metadata file has the HLO instruction of each thunk id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocktools.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Thunk:
    """One thunk.

    Attributes:
        thunk_id: unique within the program.
        kind: `kCustomKernel`, `kKernel`, `kWhile`, `kAllGather`, ..., as written.
        instruction: the HLO instruction it was made for; "" where the metadata has none.
        kernel: symbol of the kernel it launches; "" where the file does not say (library calls, copies).
        grid_workgroups: x, y, z; () where the file does not say. XLA's "blocks".
        workgroup_workitems: x, y, z; () where the file does not say. XLA's "threads".
        lds_bytes: shared memory; None where the file does not say.
        stream: `communication_stream[0]` or the like of an asynchronous start; "" for the main stream.
        async_id: what pairs an asynchronous start with its done; None elsewhere.
        condition: of a while.
        body: of a while, or what an asynchronous start or a sequence launches.
        branches: of a conditional.
    """

    thunk_id: int
    kind: str
    instruction: str = ""
    kernel: str = ""
    grid_workgroups: tuple[int, ...] = ()
    workgroup_workitems: tuple[int, ...] = ()
    lds_bytes: int | None = None
    stream: str = ""
    async_id: int | None = None
    condition: tuple[Thunk, ...] = ()
    body: tuple[Thunk, ...] = ()
    branches: tuple[tuple[Thunk, ...], ...] = ()

    def walk(self) -> Iterator[Thunk]:
        """Itself, then everything nested in it, in the order of the file."""
        yield self
        for thunk in (*self.condition, *self.body, *(inner for branch in self.branches for inner in branch)):
            yield from thunk.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThunkSequence:
    """The launches of one program, in order.

    Attributes:
        thunks: of the top level.
        source: the file, for messages.
        findings: lines that could not be read; thunks without an instruction.
    """

    thunks: tuple[Thunk, ...]
    source: str
    findings: tuple[Finding, ...] = ()

    def walk(self) -> Iterator[Thunk]:
        """Every thunk, nested ones too, in the order of the file."""
        for thunk in self.thunks:
            yield from thunk.walk()
