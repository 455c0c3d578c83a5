"""Many modules through workers that die, hang or refuse: a worker of the tests' own plays the compiler."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from rocktools.errors import ReplayError
from rocktools.replay.aot_compile import (
    CompileEnvironment,
    CompileOutcome,
    ModuleToCompile,
    compile_modules,
)
from rocktools.replay.aot_target import read_target
from rocktools.replay.compile_job import ModuleFiles, read_job

# Does what the module says: `compile`, `refuse`, `crash`, `hang`.
WORKER = """#!{python}
import os, pathlib, sys, time
from rocktools.replay.compile_job import ModuleFiles, read_job, write_answer
folder = pathlib.Path(sys.argv[-1])
for number in range(read_job(folder).modules_count):
    files = ModuleFiles(folder, number)
    if not files.is_untouched:
        continue
    files.started.touch()
    wanted = files.module.read_text()
    if wanted == "crash":
        print("F1129 00:00:00.1 1 emitter.cc:7] Check failed: shape.has_layout()", file=sys.stderr, flush=True)
        os.abort()
    if wanted == "hang":
        time.sleep(60)
    if wanted == "refuse":
        write_answer(files.refused, b"PJRT_Compile: unsupported")
    else:
        write_answer(files.executable, wanted.encode() + b" done")
"""


def environment_of(tmp_path: Path, text: str, *, each_deadline_s: float = 30.0) -> CompileEnvironment:
    worker = tmp_path / "worker"
    worker.write_text(text.replace("{python}", sys.executable))
    worker.chmod(worker.stat().st_mode | stat.S_IXUSR)
    return CompileEnvironment(
        python=worker, plugin=Path("plugin.so"), stand_ins=None, env=dict(os.environ), each_deadline_s=each_deadline_s
    )


def modules(*wanted: str) -> list[ModuleToCompile]:
    return [
        ModuleToCompile(name=f"{number}-{what}", module=what.encode(), options=b"")
        for number, what in enumerate(wanted)
    ]


def test_worker_that_dies_costs_its_module_only(tmp_path):
    asked = modules("compile", "crash", "refuse", "crash", "compile")
    made = compile_modules(asked, read_target("mi355x"), environment_of(tmp_path, WORKER))
    assert [(each.name, each.outcome) for each in made] == [
        ("0-compile", CompileOutcome.COMPILED),
        ("1-crash", CompileOutcome.CRASHED),
        ("2-refuse", CompileOutcome.REFUSED),
        ("3-crash", CompileOutcome.CRASHED),
        ("4-compile", CompileOutcome.COMPILED),
    ]
    assert made[0].executable == b"compile done"
    assert "Check failed: shape.has_layout()" in made[1].reason
    assert made[2].reason == "PJRT_Compile: unsupported"


def test_module_that_takes_too_long_is_ended_and_the_others_go_on(tmp_path):
    asked = modules("compile", "hang", "compile")
    made = compile_modules(asked, read_target("mi355x"), environment_of(tmp_path, WORKER, each_deadline_s=0.6))
    assert [each.outcome for each in made] == [
        CompileOutcome.COMPILED,
        CompileOutcome.TIMED_OUT,
        CompileOutcome.COMPILED,
    ]
    assert made[1].reason == "not compiled within 0.6 s"


def test_plugin_that_cannot_be_used_is_told_once(tmp_path):
    text = "#!{python}\nraise SystemExit('libamdhip64.so.7: cannot open shared object file')\n"
    with pytest.raises(ReplayError, match="cannot be used"):
        compile_modules(modules("compile"), read_target("mi355x"), environment_of(tmp_path, text))


def test_nothing_to_compile_starts_nothing(tmp_path):
    assert compile_modules([], read_target("mi355x"), environment_of(tmp_path, "#!/nonexistent\n")) == []


def test_worker_gets_topology_target_and_stand_ins(tmp_path):
    text = (
        "#!{python}\nimport os, pathlib, sys\nfrom rocktools.replay.compile_job import *\n"
        "folder = pathlib.Path(sys.argv[-1])\njob = read_job(folder)\nfiles = ModuleFiles(folder, 0)\n"
        "files.started.touch()\n"
        "write_answer(files.executable, repr((job.topology, os.environ['LD_LIBRARY_PATH'])).encode())\n"
    )
    plain = environment_of(tmp_path, text)
    environment = CompileEnvironment(
        python=plain.python,
        plugin=plain.plugin,
        stand_ins=Path("/stand-ins"),
        env={**plain.env, "LD_LIBRARY_PATH": "/mine"},
    )
    [made] = compile_modules(modules("compile"), read_target("mi355x"), environment, devices_count=8)
    assert made.executable == b"('1x1x8', '/stand-ins:/mine')"


def test_job_comes_back_from_its_file(tmp_path):
    from rocktools.replay.compile_job import CompileJob, write_job

    job = CompileJob(plugin="p.so", topology="1x1x2", target_configuration='a: "b"\n', modules_count=3)
    write_job(tmp_path, job)
    assert read_job(tmp_path) == job
    assert ModuleFiles(tmp_path, 7).module.name == "00007.module"
