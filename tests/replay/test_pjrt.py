"""The C interface of a plugin: what is no plugin, what XLA refuses; a module that it takes is in test_aot_program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from aot_machine import prepare

from rocktools.errors import ReplayError, UnsupportedVersion
from rocktools.replay.aot_compile import CompileOutcome, ModuleToCompile, compile_modules
from rocktools.replay.aot_target import read_target
from rocktools.replay.pjrt import PjrtPlugin


def build_library(folder: Path, text: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "plugin.c").write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "plugin.so", folder / "plugin.c"], check=True)
    return folder / "plugin.so"


def test_what_is_no_library_is_told(tmp_path):
    (tmp_path / "plugin.so").write_text("text")
    with pytest.raises(ReplayError, match="cannot be loaded"):
        PjrtPlugin(tmp_path / "plugin.so")


@pytest.mark.aot
def test_library_without_the_interface_is_told(tmp_path):
    with pytest.raises(ReplayError, match="GetPjrtApi"):
        PjrtPlugin(build_library(tmp_path, "int other(void) { return 1; }\n"))


@pytest.mark.aot
@pytest.mark.parametrize("size, major", [(40 + 8 * 50, 0), (4000, 1)])
def test_interface_that_is_too_old_or_another_one_is_refused(tmp_path, size, major):
    # Size, extensions, then the version: size, extensions, major, minor.
    text = (
        "#include <stddef.h>\n"
        "static struct { size_t size; void *extensions; size_t v; void *e; int major, minor; void *f[500]; } api ="
        f" {{{size}, 0, 24, 0, {major}, 77}};\n"
        "const void *GetPjrtApi(void) { return &api; }\n"
    )
    with pytest.raises(UnsupportedVersion, match=rf"{major}\.77"):
        PjrtPlugin(build_library(tmp_path, text))


@pytest.mark.aot
def test_xla_says_why_it_refuses_a_module_and_goes_on(tmp_path):
    environment = prepare(tmp_path / "cache").environment
    asked = [ModuleToCompile(name=name, module=b"\x0a\x03abc", options=b"") for name in ("one", "two")]
    made = compile_modules(asked, read_target("mi355x"), environment)
    assert [each.outcome for each in made] == [CompileOutcome.REFUSED] * 2
    assert "host_program_shape" in made[0].reason


@pytest.mark.aot
def test_topology_that_the_plugin_does_not_know_is_told(tmp_path):
    environment = prepare(tmp_path / "cache").environment
    (tmp_path / "wrong.pbtxt").write_text('gpu_device_info { no_such_field: 1 gcn_arch_name: "gfx950" }')
    with pytest.raises(ReplayError, match="cannot be used"):
        compile_modules(
            [ModuleToCompile(name="one", module=b"", options=b"")],
            read_target(str(tmp_path / "wrong.pbtxt")),
            environment,
        )
