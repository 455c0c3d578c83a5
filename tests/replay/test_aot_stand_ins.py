"""Stand-ins: which function goes where; and that a library which needs them can be loaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess

import pytest

from rocktools.errors import ToolFailed, ToolNotFound
from rocktools.replay.aot_stand_ins import find_linkage, prepare_stand_ins, render_stand_ins
from rocktools.replay.elf import NeededSymbol

MISSING = ("libone.so.1", "libtwo.so.2")


def needed(name: str, version: str = "", library: str = "", *, is_weak: bool = False) -> NeededSymbol:
    return NeededSymbol(name=name, version=version, library=library, is_weak=is_weak)


def test_versions_decide_the_library_and_others_go_to_the_first():
    made = render_stand_ins(
        [needed("alpha"), needed("beta", "TWO_2.0", "libtwo.so.2"), needed("malloc", "GLIBC_2.2.5", "libc.so.6")],
        frozenset(),
        MISSING,
    )
    assert list(made) == list(MISSING)
    (first, no_script), (second, script) = made.values()
    assert '"alpha"' in first
    assert no_script == ""
    assert '"beta"' in second
    assert script == "TWO_2.0 { global: beta; };\n"
    assert "malloc" not in first + second


def test_what_a_present_library_has_or_may_be_missing_is_left_alone():
    made = render_stand_ins([needed("there"), needed("maybe", is_weak=True)], frozenset({"there"}), MISSING)
    assert all("there" not in source and "maybe" not in source for source, _ in made.values())


def test_functions_that_promise_a_text_give_one():
    source, _ = render_stand_ins([needed("hipGetErrorString"), needed("hipInit")], frozenset(), MISSING)["libone.so.1"]
    assert 'const char *f0(void) __asm__("hipGetErrorString")' in source
    assert "long f1(void) { return 100; }" in source


@pytest.fixture
def needy(tmp_path):
    """A library that needs one which is not there any more; and its environment."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "absent.c").write_text("int absent_answer(void) { return 1; }\nint absent_plain(void) { return 1; }\n")
    (tmp_path / "absent.versions").write_text("ABSENT_1.0 { global: absent_answer; };\n")
    (tmp_path / "needy.c").write_text(
        "int absent_answer(void);\nint absent_plain(void);\n"
        "int ask(void) { return absent_answer() + absent_plain(); }\n"
    )
    absent = tmp_path / "libabsent.so.3"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", absent, f"-Wl,-soname,{absent.name}",
         f"-Wl,--version-script={tmp_path / 'absent.versions'}", tmp_path / "absent.c"], check=True)  # fmt: skip
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", tmp_path / "libneedy.so", tmp_path / "needy.c", absent], check=True
    )
    absent.unlink()
    return tmp_path / "libneedy.so", {"PATH": os.environ["PATH"]}


@pytest.mark.aot
def test_library_can_be_loaded_with_stand_ins_for_what_is_missing(needy, tmp_path):
    library, env = needy
    assert find_linkage(library, env=env).missing == ("libabsent.so.3",)
    made = prepare_stand_ins(library, tmp_path / "cache", env=env)
    assert made.libraries == ("libabsent.so.3",)
    assert made.folder is not None
    # The loader takes a library that is loaded already by its soname.
    ctypes.CDLL(str(made.folder / "libabsent.so.3"), mode=ctypes.RTLD_GLOBAL)
    assert ctypes.CDLL(str(library)).ask() == 200


@pytest.mark.aot
def test_stand_ins_are_made_once(needy, tmp_path):
    library, env = needy
    first = prepare_stand_ins(library, tmp_path / "cache", env=env)
    without_compiler = {"PATH": str(tmp_path)}
    assert prepare_stand_ins(library, tmp_path / "cache", env=without_compiler) == first


@pytest.mark.aot
def test_without_a_compiler_it_is_said_what_is_missing(needy, tmp_path):
    library, _ = needy
    with pytest.raises(ToolNotFound, match="no C compiler") as raised:
        prepare_stand_ins(library, tmp_path / "cache", env={"PATH": str(tmp_path)})
    assert "libabsent.so.3" in raised.value.what
    assert not (tmp_path / "cache").exists()


@pytest.mark.aot
def test_compiler_that_fails_is_quoted(needy, tmp_path):
    library, env = needy
    bad = tmp_path / "badcc"
    bad.write_text("#!/bin/sh\necho 'no space on device' >&2\nexit 4\n")
    bad.chmod(bad.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ToolFailed, match="no space on device"):
        prepare_stand_ins(library, tmp_path / "cache", env=env, compiler=str(bad))
    assert not list((tmp_path / "cache").glob("stand-ins-*"))


@pytest.mark.aot
def test_nothing_is_made_where_nothing_is_missing(needy, tmp_path):
    library, env = needy
    made = prepare_stand_ins(library, tmp_path / "cache", env=env)
    assert made.folder is not None
    again = prepare_stand_ins(library, tmp_path / "other", env={**env, "LD_LIBRARY_PATH": str(made.folder)})
    assert (again.folder, again.libraries) == (None, ())
