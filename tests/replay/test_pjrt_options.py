"""Options of a compilation, read back by jaxlib."""

from __future__ import annotations

import pytest

from rocktools.errors import DamagedFile
from rocktools.protos import Field, build_messages
from rocktools.replay.pjrt_options import build_compile_options


def module(parameters: int = 2) -> bytes:
    """An HloModuleProto with the shapes of its entry: f32[8] each."""
    shape = bytes([0x10, 11, 0x1A, 1, 8])
    messages = build_messages(
        "made", {"Module": [Field("shape", 4, "Shape")],
                 "Shape": [Field("parameters", 1, "bytes", is_repeated=True), Field("result", 2, "bytes")]},
    )  # fmt: skip
    inner = messages["Shape"](parameters=[shape] * parameters, result=shape)
    return messages["Module"](shape=inner).SerializeToString()


def read_back(options: bytes):
    pytest.importorskip("jaxlib")
    from jaxlib import xla_client

    return xla_client.CompileOptions.ParseFromString(options)


def test_layouts_and_devices_are_those_of_the_module():
    options = read_back(build_compile_options(module(), devices_count=8))
    assert [str(shape) for shape in options.argument_layouts] == ["f32[8]"] * 2
    assert (options.num_partitions, options.num_replicas) == (8, 1)
    assert str(options.executable_build_options.result_layout) == "f32[8]"


def test_passes_are_left_out():
    # Field 11 of the build options: run_backend_only.
    assert bytes([11 << 3, 1]) in build_compile_options(module())


@pytest.mark.parametrize("content", [b"", b"\x0a\x03abc", b"\xff\xff"])
def test_what_is_no_module_is_told(content):
    with pytest.raises(DamagedFile):
        build_compile_options(content)
