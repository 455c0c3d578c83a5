"""Looking at a machine, on made trees; finding and asking the tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from machine_trees import (
    CAP_PERFMON,
    CAP_SYS_ADMIN,
    add_cpu,
    add_gpu,
    make_node,
    make_program,
    make_rocm,
    set_capabilities,
    set_performance_level,
    write_file,
)

from rocktools.capture import host as host_module
from rocktools.capture.host import (
    Access,
    HostFacts,
    ask_tool,
    find_rocm_roots,
    find_tool,
    probe_host,
)
from rocktools.capture.versions import SdkVersion
from rocktools.errors import CaptureError, ToolFailed, ToolNotFound


def probe(root: Path, **places: Path) -> HostFacts:
    return probe_host(places=places, rocm_roots=[], root=root)


def test_a_node_of_eight_mi355x(tmp_path):
    facts = probe(make_node(tmp_path))
    assert facts.kfd is Access.USABLE
    assert facts.driver_version == "6.16.13"
    assert [gpu.arch for gpu in facts.gpus] == ["gfx950"] * 8
    assert [gpu.index for gpu in facts.gpus] == list(range(8))
    assert facts.gpus[3].unique_id == "a000000000000003"
    assert (facts.gpus[0].xcc_count, facts.gpus[0].simd_count) == (8, 1024)
    assert facts.performance_levels == ("auto",) * 8
    assert facts.has_perfmon is True
    assert facts.perf_event_paranoid == 4


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a", "gfx1100", "gfx1201"])
def test_the_version_of_the_target_is_its_name(tmp_path, arch):
    add_gpu(tmp_path, 1, arch)
    [gpu] = probe(tmp_path).gpus
    assert gpu.arch == arch
    assert gpu.unique_id == ""


def test_nodes_are_counted_in_their_numeric_order(tmp_path):
    for node in (2, 10, 9):
        add_gpu(tmp_path, node, "gfx950", unique_id=node)
    assert [(gpu.index, gpu.unique_id) for gpu in probe(tmp_path).gpus] == [(0, "2"), (1, "9"), (2, "a")]


def test_a_gpu_that_a_container_may_not_see_is_not_counted(tmp_path):
    """The kernel refuses to read the properties of devices that the container was not given."""
    add_gpu(tmp_path, 1, "gfx950", unique_id=1)
    (tmp_path / "sys/class/kfd/kfd/topology/nodes/2").mkdir()
    (tmp_path / "sys/class/kfd/kfd/topology/nodes/3/properties").mkdir(parents=True)
    add_gpu(tmp_path, 4, "gfx950", unique_id=4)
    assert [(gpu.index, gpu.unique_id) for gpu in probe(tmp_path).gpus] == [(0, "1"), (1, "4")]


def test_a_node_of_cpus_has_no_gpus(tmp_path):
    add_cpu(tmp_path, 0)
    assert probe(tmp_path).gpus == ()


def test_a_machine_without_anything_of_it(tmp_path):
    facts = probe(tmp_path)
    assert facts.kfd is Access.MISSING
    assert facts.driver_version is None
    assert facts.gpus == ()
    assert facts.has_perfmon is None
    assert facts.perf_event_paranoid is None
    assert facts.performance_levels == ()
    assert facts.comgr_paths == ()
    assert facts.hostname
    assert facts.kernel_release


def test_a_device_node_that_may_not_be_used_is_forbidden(tmp_path, monkeypatch):
    write_file(tmp_path / "dev/kfd", "")
    monkeypatch.setattr(host_module.os, "access", lambda path, mode: False)  # root may do everything
    assert probe(tmp_path).kfd is Access.FORBIDDEN


@pytest.mark.parametrize(
    "effective, expected",
    [
        (0, False),
        (CAP_PERFMON, True),
        (CAP_SYS_ADMIN, True),
        (CAP_PERFMON - 1 - CAP_SYS_ADMIN, False),
        (1 << 39, False),
        (2**41 - 1, True),
    ],
)
def test_counters_may_be_read_with_perfmon_or_as_administrator(tmp_path, effective, expected):
    set_capabilities(tmp_path, effective)
    assert probe(tmp_path).has_perfmon is expected


@pytest.mark.parametrize("text, expected", [("1", 1), ("4\n", 4), ("-1\n", -1), ("", None), ("x", None), ("1.5", None)])
def test_the_paranoia_of_the_kernel_is_a_number_or_unknown(tmp_path, text, expected):
    write_file(tmp_path / "proc/sys/kernel/perf_event_paranoid", text)
    assert probe(tmp_path).perf_event_paranoid == expected


def test_performance_levels_are_those_of_cards_that_have_one(tmp_path):
    set_performance_level(tmp_path, 1, "manual")
    set_performance_level(tmp_path, 0, "auto")
    set_performance_level(tmp_path, 2, "")
    (tmp_path / "sys/class/drm/card3/device").mkdir(parents=True)
    assert probe(tmp_path).performance_levels == ("auto", "manual")


def test_free_space_is_that_of_the_place_or_of_where_it_would_be_made(tmp_path):
    facts = probe(tmp_path, here=tmp_path, later=tmp_path / "not" / "yet" / "there")
    assert set(facts.free_bytes) == {"here", "later"}
    assert all(free > 0 for free in facts.free_bytes.values())


def test_free_space_behind_a_folder_that_may_not_be_seen_is_that_before_it(tmp_path, monkeypatch):
    usage = host_module.shutil.disk_usage

    def guarded(path):
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return usage(path)

    monkeypatch.setattr(host_module.shutil, "disk_usage", guarded)
    assert probe(tmp_path, run=tmp_path / "closed" / "run").free_bytes["run"] > 0


def test_two_installations_have_a_comgr_each(tmp_path):
    system, wheel = make_rocm(tmp_path / "opt/rocm-7.14"), make_rocm(tmp_path / "wheel/_rocm_sdk_core", library="lib64")
    facts = probe_host(places={}, rocm_roots=[system, wheel, tmp_path / "nowhere"], root=tmp_path)
    assert facts.rocm_roots == (str(system), str(wheel))
    assert facts.comgr_paths == (
        str(system / "lib/libamd_comgr.so.3.0.71400"),
        str(wheel / "lib64/libamd_comgr.so.3.0.71400"),
    )


def test_one_installation_under_two_names_is_one(tmp_path):
    real = make_rocm(tmp_path / "opt/rocm-7.14")
    link = tmp_path / "opt/rocm"
    link.symlink_to(real)
    facts = probe_host(places={}, rocm_roots=[link, real], root=tmp_path)
    assert facts.rocm_roots == (str(real),)
    assert len(facts.comgr_paths) == 1


def test_a_comgr_that_is_a_link_into_the_other_installation_is_one_copy(tmp_path):
    core, devel = make_rocm(tmp_path / "core"), tmp_path / "devel"
    (devel / "lib").mkdir(parents=True)
    (devel / "lib/libamd_comgr.so").symlink_to(core / "lib/libamd_comgr.so.3")
    facts = probe_host(places={}, rocm_roots=[core, devel], root=tmp_path)
    assert len(facts.comgr_paths) == 1


@pytest.fixture
def standard_rocm(tmp_path, monkeypatch) -> Path:
    """Stands for /opt/rocm, which a machine that runs this may have."""
    place = tmp_path / "standard"
    monkeypatch.setattr(host_module, "_STANDARD_ROCM", str(place))
    return place


def test_rocm_is_looked_for_around_the_tool_in_variables_in_wheels_and_at_the_standard_place(tmp_path, standard_rocm):
    around = make_rocm(tmp_path / "around")
    tool = make_program(around / "bin/rocprofv3")
    named = [make_rocm(tmp_path / name) for name in ("path", "home", "hip")]
    prefix = tmp_path / "venv"
    wheels = [
        make_rocm(prefix / f"lib/python3.12/site-packages/{name}") for name in ("_rocm_sdk_core", "_rocm_sdk_devel")
    ]
    make_rocm(standard_rocm)
    variables = dict(zip(("ROCM_PATH", "ROCM_HOME", "HIP_PATH"), map(str, named), strict=True))
    found = find_rocm_roots(tool, prefix, variables)
    assert found == [around, *named, *wheels, standard_rocm]


@pytest.mark.parametrize("folder", ["lib/python3/dist-packages", "local/lib/python3.12/dist-packages"])
def test_rocm_wheels_are_found_in_the_package_folders_of_debian(tmp_path, standard_rocm, folder):
    wheel = make_rocm(tmp_path / f"usr/{folder}/_rocm_sdk_core")
    assert find_rocm_roots(None, tmp_path / "usr", {}) == [wheel]


def test_places_that_are_not_there_are_left_out(tmp_path, standard_rocm):
    variables = {"ROCM_PATH": str(tmp_path / "gone"), "HIP_PATH": ""}
    assert find_rocm_roots(None, tmp_path / "no venv", variables) == []


def test_the_tool_is_looked_for_in_path_then_in_rocm_path_then_at_the_standard_place(tmp_path, standard_rocm):
    in_path = make_program(tmp_path / "in path/rocprofv3")
    in_rocm = make_program(tmp_path / "rocm/bin/rocprofv3")
    standard = make_program(standard_rocm / "bin/rocprofv3")
    environment = {"PATH": f"{tmp_path}/other:{tmp_path}/in path", "ROCM_PATH": str(tmp_path / "rocm")}
    for expected in (in_path, in_rocm, standard):
        assert find_tool("rocprofv3", wanted=None, environment=environment) == expected
        expected.unlink()
    with pytest.raises(ToolNotFound, match="tool-not-found") as caught:
        find_tool("rocprofv3", wanted=None, environment=environment)
    assert "--rocprofv3 /path/to/rocprofv3" in (caught.value.hint or "")


@pytest.mark.parametrize("path", [None, "", ":", "/nowhere::"])
def test_the_working_directory_is_not_searched(tmp_path, standard_rocm, monkeypatch, path):
    make_program(tmp_path / "rocprofv3")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolNotFound):
        find_tool("rocprofv3", wanted=None, environment={} if path is None else {"PATH": path})


def test_a_tool_that_the_user_names_is_taken_by_path_or_by_name(tmp_path, monkeypatch):
    program = make_program(tmp_path / "bin/rocprofv3-next")
    monkeypatch.chdir(tmp_path)
    for wanted in (str(program), "bin/rocprofv3-next", "rocprofv3-next"):
        found = find_tool("rocprofv3", wanted=wanted, environment={"PATH": str(tmp_path / "bin")})
        assert found == program
        assert found.is_absolute()


@pytest.mark.parametrize("kind", ["missing", "not executable", "a folder"])
def test_a_tool_that_the_user_names_must_be_a_program(tmp_path, kind):
    wanted = tmp_path / "rocprofv3"
    if kind == "not executable":
        write_file(wanted, "")
    elif kind == "a folder":
        wanted.mkdir()
    make_program(tmp_path / "bin/rocprofv3")
    with pytest.raises(ToolNotFound) as caught:
        find_tool("rocprofv3", wanted=str(wanted), environment={"PATH": str(tmp_path / "bin")})
    assert str(wanted) in caught.value.what


ENVIRONMENT = {"PATH": os.environ["PATH"]}


def answering(path: Path, *, version: str, options: str = "--pmc --runtime-trace", help_code: int = 0) -> Path:
    """A tool that answers `--version` with a shell command and `--help` with options."""
    return make_program(
        path,
        f'#!/bin/sh\ncase "$1" in\n--version) {version};;\n--help) echo "usage: {options}"; exit {help_code};;\nesac\n',
    )


def test_a_tool_tells_its_version_and_its_options(tmp_path):
    tool = answering(tmp_path / "rocprofv3", version='printf "   version: 1.3.2\\nrocm_version: 7.14.0\\n"')
    asked = ask_tool(tool, ENVIRONMENT)
    assert asked.version == SdkVersion(1, 3, 2)
    assert asked.rocm_version == "7.14.0"
    assert asked.options == {"--pmc", "--runtime-trace"}
    assert asked.executable == str(tool)


def test_a_tool_without_help_leaves_its_options_open(tmp_path):
    tool = answering(tmp_path / "rocprofv3", version='echo "version: 1.3.2"', help_code=3)
    assert ask_tool(tool, ENVIRONMENT).options == frozenset()


def test_a_tool_before_version_existed_is_too_old_and_its_installation_is_named(tmp_path):
    make_rocm(tmp_path, version="6.3.0")
    tool = answering(tmp_path / "bin/rocprofv3", version="echo unrecognized arguments >&2; exit 2")
    with pytest.raises(CaptureError, match="tool-too-old") as caught:
        ask_tool(tool, ENVIRONMENT)
    assert "ROCm 6.3.0" in caught.value.what
    assert caught.value.where == str(tool)


def test_a_tool_that_fails_and_has_no_installation_says_with_what(tmp_path):
    tool = answering(tmp_path / "bin/rocprofv3", version="echo broken libraries >&2; exit 127")
    with pytest.raises(ToolFailed, match="tool-has-no-version") as caught:
        ask_tool(tool, ENVIRONMENT)
    assert "code 127: broken libraries" in caught.value.what


def test_a_tool_that_answers_something_else_is_a_named_failure(tmp_path):
    tool = answering(tmp_path / "bin/rocprofv3", version="echo hello")
    with pytest.raises(CaptureError, match="tool-version-unknown"):
        ask_tool(tool, ENVIRONMENT)


def test_a_tool_that_hangs_is_a_named_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(host_module, "_TOOL_TIMEOUT_S", 0.5)
    tool = answering(tmp_path / "bin/rocprofv3", version="sleep 60")
    with pytest.raises(ToolFailed, match="tool-timeout"):
        ask_tool(tool, ENVIRONMENT)
