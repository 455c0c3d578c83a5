"""A path -> an open profile of JAX (XSpace): its planes, hosts and HLO protos.

Opening reads the outline only: names and places of planes and lines. Names of events are parsed when a plane's events
are asked for, and events line by line, so that what nobody asks for costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType

from rocktools.extras import require_extra
from rocktools.sources.xspace.content import ProfileContent, open_content
from rocktools.sources.xspace.event_block import Decoder
from rocktools.sources.xspace.event_decoder import NumpyDecoder
from rocktools.sources.xspace.event_decoder_numba import compile_decoder
from rocktools.sources.xspace.hlo_protos import read_hlo_protos
from rocktools.sources.xspace.messages import (
    SPACE_ERRORS,
    SPACE_HOSTNAMES,
    SPACE_PLANES,
    SPACE_WARNINGS,
    decode_text,
)
from rocktools.sources.xspace.plane import Plane, Span
from rocktools.sources.xspace.wire import WireError, walk_fields

ENVIRONMENT_PLANE = "Task Environment"
# What rocktools.demo writes into the plane of the environment.
SIMULATED_STAT = "rocktools_simulated"
# numba takes one second to load, and two more to compile where its cache is empty; numpy reads this much meanwhile.
_WORTH_COMPILING_BYTES = 48 << 20


class XSpaceFile:
    """An open profile; use it as a context, or close it.

    Attributes:
        path: the file.
        planes: in the order of the file.
        hostnames: of the machines it was recorded on, mostly one.
        errors, warnings: what the profiler wrote into the file.
    """

    def __init__(self, source: ProfileContent, decoder: Decoder) -> None:
        self._source = source
        self.path = source.path
        texts: dict[int, list[str]] = {SPACE_ERRORS: [], SPACE_WARNINGS: [], SPACE_HOSTNAMES: []}
        spans = []
        try:
            for found in walk_fields(source.content, 0, source.end):
                if found.is_message(SPACE_PLANES):
                    spans.append(Span(start=found.start, end=found.end))
                elif found.number in texts and found.is_message(found.number):
                    texts[found.number].append(decode_text(source.content[found.start : found.end]))
        except WireError as error:
            raise source.damaged(error) from error
        self.planes = tuple(Plane(source, span, decoder) for span in spans)
        self.errors = tuple(texts[SPACE_ERRORS])
        self.warnings = tuple(texts[SPACE_WARNINGS])
        self.hostnames = tuple(texts[SPACE_HOSTNAMES])

    @property
    def size_bytes(self) -> int:
        """Bytes of the profile, unpacked."""
        return self._source.end

    @property
    def host(self) -> str:
        """What rows are labelled with: the name of the host, `host` without one, all names where there are several."""
        return "+".join(filter(None, self.hostnames)) or "host"

    @cached_property
    def profile_start_ns(self) -> int | None:
        """When the clock of the profile was 0, in nanoseconds since the epoch; None where it is not recorded."""
        return self._environment_integer("profile_start_time")

    @cached_property
    def profile_end_ns(self) -> int | None:
        """When the profile was stopped, in nanoseconds since the epoch; None where it is not recorded."""
        return self._environment_integer("profile_stop_time")

    @cached_property
    def is_simulated(self) -> bool:
        """Whether the file says that no hardware produced it."""
        return self._environment_integer(SIMULATED_STAT) == 1

    def hlo_protos(self) -> Mapping[str, bytes]:
        """Program id in decimal -> serialised HloProto.

        Raises:
            DamagedFile: the plane that holds them is damaged.
        """
        return read_hlo_protos(self.planes)

    def close(self) -> None:
        """Let the file go. Frames and columns stay; texts and events cannot be read any more."""
        self._source.close()

    def __enter__(self) -> XSpaceFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _environment_integer(self, name: str) -> int | None:
        for plane in self.planes:
            if plane.name == ENVIRONMENT_PLANE and isinstance(value := plane.stats.get(name), int):
                return value
        return None


def open_xspace(path: Path, *, accelerate: bool | None = None) -> XSpaceFile:
    """Open a profile, `*.xplane.pb` or a .gz of one.

    Args:
        accelerate: False for numpy alone, True for the compiled decoder, None for that where numba is installed and the
            file is large enough to make up for loading it.

    Raises:
        InputError: it cannot be read, or is no file.
        DamagedFile: it is empty, cut off or damaged.
        MissingExtra: `accelerate` is True, and numba is not installed.
    """
    source = open_content(path)
    try:
        return XSpaceFile(source, _choose_decoder(source, accelerate))
    except BaseException:
        source.close()
        raise


def _choose_decoder(source: ProfileContent, accelerate: bool | None) -> Decoder:
    if accelerate:
        require_extra("numba", "fast", "the compiled decoder of profiles")
        return compile_decoder()
    if accelerate is None and source.end >= _WORTH_COMPILING_BYTES:
        try:
            return compile_decoder()
        except ImportError:
            return NumpyDecoder()
    return NumpyDecoder()
