"""What would spoil a capture: every finding once where it must be made and once where it must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rocpd_files import rules

from rocktools.capture.frameworks import framework_flags, framework_off_flags
from rocktools.capture.host import Access, GpuFact, HostFacts
from rocktools.capture.preflight import (
    Check,
    Job,
    all_findings,
    check_all,
    check_application,
    check_devices,
    check_disk,
    check_inherited,
    check_jax,
    check_performance_level,
    check_permissions,
    check_rocm,
    check_tool,
)
from rocktools.capture.versions import ProfilerTool, SdkVersion
from rocktools.findings import Finding, Severity

JOB = Job(application=("python", "train.py"))
COUNTING = replace(JOB, counts=True)


def gpus(arch: str = "gfx950", count: int = 1) -> tuple[GpuFact, ...]:
    return tuple(
        GpuFact(index=number, arch=arch, unique_id="", xcc_count=8, simd_count=1024) for number in range(count)
    )


GOOD = HostFacts(
    hostname="node1",
    kernel_release="6.8.0",
    driver_version="6.16.13",
    kfd=Access.USABLE,
    gpus=gpus(),
    has_perfmon=True,
    perf_event_paranoid=4,
    free_bytes={"run directory": 10**12},
    rocm_roots=("/opt/rocm",),
    comgr_paths=("/opt/rocm/lib/libamd_comgr.so.3",),
    performance_levels=("auto",),
)


def tool_of(major: int, minor: int, patch: int = 0) -> ProfilerTool:
    return ProfilerTool(
        executable="/opt/rocm/bin/rocprofv3", version=SdkVersion(major, minor, patch), rocm_version="7.14.0"
    )


TOOL = tool_of(1, 3, 2)
ATTRIBUTABLE = {
    "XLA_FLAGS": "--xla_gpu_enable_command_buffer= --xla_dump_to=/run/hlo",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
}


def only(check: Check, rule: str, severity: Severity) -> Finding:
    """The one finding of a check; its state is that finding's severity."""
    assert rules(check.findings) == [rule]
    [finding] = check.findings
    assert finding.severity is severity
    assert check.state == str(severity)
    assert finding.message
    return finding


def test_a_good_machine_passes_every_check():
    checks = check_all(GOOD, TOOL, None, ATTRIBUTABLE, replace(JOB, wants_attribution=True))
    assert [check.state for check in checks] == ["good"] * 9
    assert all_findings(checks) == ()
    assert [check.name for check in checks] == [
        "rocprofv3",
        "devices",
        "counter permissions",
        "performance level",
        "disk",
        "ROCm",
        "inherited variables",
        "JAX and XLA",
        "application",
    ]
    assert all(check.detail for check in checks)


@pytest.mark.parametrize(
    "severities, state",
    [
        ((), "good"),
        ((Severity.NOTE,), "note"),
        ((Severity.NOTE, Severity.WARNING), "warning"),
        ((Severity.FAULT, Severity.NOTE, Severity.WARNING), "fault"),
    ],
)
def test_the_state_of_a_check_is_its_heaviest_finding(severities, state):
    findings = tuple(Finding(rule="x", severity=severity, where="y", message="z") for severity in severities)
    assert Check(name="n", detail="d", findings=findings).state == state


def test_findings_of_all_checks_are_in_their_order():
    host = replace(GOOD, kfd=Access.MISSING, free_bytes={"run directory": 0}, has_perfmon=False)
    found = all_findings(check_all(host, None, None, {"ROCPROF_X": "1"}, COUNTING))
    assert rules(found) == ["no-kfd", "no-perfmon", "little-disk", "inherited-profiler-variables"]


def test_a_tool_is_named_with_its_versions():
    check = check_tool(TOOL, None)
    assert check.detail == "/opt/rocm/bin/rocprofv3, SDK 1.3.2, ROCm 7.14.0"
    assert check.state == "good"


def test_a_missing_tool_is_what_the_search_said():
    problem = Finding(rule="tool-not-found", severity=Severity.FAULT, where="rocprofv3", message="it is not in PATH")
    assert only(check_tool(None, problem), "tool-not-found", Severity.FAULT) is problem
    assert check_tool(None, None).findings == ()


@pytest.mark.parametrize("tool", [tool_of(0, 5), tool_of(0, 6, 9)])
def test_a_tool_without_databases_is_a_fault(tool):
    assert str(tool.version) in only(check_tool(tool, None), "tool-writes-no-rocpd", Severity.FAULT).message


@pytest.mark.parametrize(
    "host, rule",
    [
        (replace(GOOD, kfd=Access.MISSING), "no-kfd"),
        (replace(GOOD, kfd=Access.MISSING, gpus=()), "no-kfd"),
        (replace(GOOD, kfd=Access.FORBIDDEN), "kfd-forbidden"),
        (replace(GOOD, gpus=()), "no-gpus"),
    ],
)
def test_without_a_usable_gpu_nothing_can_be_captured(host, rule):
    only(check_devices(host, JOB), rule, Severity.FAULT)


@pytest.mark.parametrize(
    "count, job, is_warned",
    [
        (4, JOB, False),
        (5, JOB, True),
        (8, JOB, True),
        (8, replace(JOB, traces_host=False), False),
        (8, COUNTING, False),
    ],
)
def test_many_gpus_in_one_process_are_a_warning_where_host_calls_are_traced(count, job, is_warned):
    check = check_devices(replace(GOOD, gpus=gpus(count=count)), job)
    if is_warned:
        assert only(check, "many-gpus-with-host-trace", Severity.WARNING).numbers == {"gpus_count": count}
    else:
        assert check.findings == ()


def test_the_devices_are_told():
    host = replace(GOOD, gpus=(*gpus("gfx950", 2), *gpus("gfx1100")), driver_version=None)
    assert check_devices(host, JOB).detail == "/dev/kfd usable, 3 GPUs (gfx1100, gfx950), the kernel's own driver"


@pytest.mark.parametrize(
    "has_perfmon, paranoid, rule",
    [
        (True, 4, None),
        (True, None, None),
        (False, 1, "no-device-lock"),
        (False, 2, "no-device-lock"),
        (False, -1, "no-device-lock"),
        (False, 3, "no-perfmon"),
        (False, 4, "no-perfmon"),
        (False, None, "no-perfmon"),
        (None, 4, "no-perfmon"),
        (None, 2, "no-device-lock"),
        (None, None, None),
    ],
)
def test_counters_need_a_capability_or_a_permissive_kernel(has_perfmon, paranoid, rule):
    host = replace(GOOD, has_perfmon=has_perfmon, perf_event_paranoid=paranoid)
    check = check_permissions(host, COUNTING)
    if rule is None:
        assert check.findings == ()
    else:
        only(check, rule, Severity.WARNING if rule == "no-perfmon" else Severity.NOTE)


@pytest.mark.parametrize(
    "job, severity", [(COUNTING, Severity.WARNING), (Job(), Severity.WARNING), (JOB, Severity.NOTE)]
)
def test_missing_permissions_weigh_less_for_a_trace(job, severity):
    only(check_permissions(replace(GOOD, has_perfmon=False), job), "no-perfmon", severity)


@pytest.mark.parametrize(
    "arch, level, job, is_warned",
    [
        ("gfx1100", "auto", COUNTING, True),
        ("gfx1201", "auto", COUNTING, True),
        ("gfx1030", "auto", COUNTING, True),
        ("gfx1100", "auto", JOB, False),
        ("gfx1100", "stable_std", COUNTING, False),
        ("gfx950", "auto", COUNTING, False),
        ("gfx942", "auto", COUNTING, False),
        ("gfx90a", "auto", COUNTING, False),
    ],
)
def test_only_rdna_devices_lose_counters_in_the_automatic_level(arch, level, job, is_warned):
    check = check_performance_level(replace(GOOD, gpus=gpus(arch), performance_levels=(level,)), job)
    if is_warned:
        only(check, "automatic-performance-level", Severity.WARNING)
    else:
        assert check.findings == ()
    assert check.detail == level


def test_little_space_is_told_for_each_place_that_has_too_little():
    check = check_disk(replace(GOOD, free_bytes={"run directory": 1_999_999_999, "spill": 2_000_000_000}))
    finding = only(check, "little-disk", Severity.WARNING)
    assert finding.where == "run directory"
    assert finding.numbers == {"free_bytes": 1_999_999_999}
    assert "spill" in check.detail


def test_no_place_no_finding():
    assert check_disk(replace(GOOD, free_bytes={})).findings == ()


@pytest.mark.parametrize(
    "paths, copies_count",
    [
        ((), 0),
        (("/opt/rocm/lib/libamd_comgr.so.3",), 0),
        (("/opt/rocm/lib/libamd_comgr.so.3", "/opt/rocm/lib/libamd_comgr.so.2"), 0),
        (("/opt/rocm/lib/libamd_comgr.so.3", "/venv/_rocm_sdk_core/lib/libamd_comgr.so.3"), 2),
    ],
)
def test_two_copies_of_comgr_are_a_warning(paths, copies_count):
    check = check_rocm(replace(GOOD, comgr_paths=paths))
    if copies_count:
        assert only(check, "two-rocms", Severity.WARNING).numbers == {"copies_count": copies_count}
    else:
        assert check.findings == ()


def test_inherited_variables_of_profilers_are_named_without_their_values():
    check = check_inherited({"ROCPROF_OUTPUT_PATH": "/somewhere", "ROCP_TOOL_LIBRARIES": "x.so", "PATH": "/bin"}, JOB)
    finding = only(check, "inherited-profiler-variables", Severity.NOTE)
    assert "ROCPROF_OUTPUT_PATH" in finding.message
    assert "ROCP_TOOL_LIBRARIES" in finding.message
    assert "somewhere" not in str(finding)
    assert check_inherited({"PATH": "/bin", "HSA_X": "1"}, JOB).findings == ()


def test_a_variable_that_the_user_gave_is_not_said_to_be_taken_out():
    job = replace(JOB, given_variables=("ROCPROF_X",))
    only(check_inherited({"ROCPROF_X": "1"}, job), "variables-steer-the-profiler", Severity.WARNING)
    assert check_inherited({"MY_X": "1"}, replace(JOB, given_variables=("MY_X",))).findings == ()


@pytest.mark.parametrize("library", ["librocprofiler-sdk-tool.so", "libroctracer64.so.4", "/o/librocsys-dl.so"])
def test_a_profiler_that_is_preloaded_already_is_a_fault(library):
    only(
        check_inherited({"LD_PRELOAD": f"/usr/lib/libjemalloc.so:{library}"}, JOB), "profiler-preloaded", Severity.FAULT
    )


def test_other_preloaded_libraries_are_fine():
    assert check_inherited({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}, JOB).findings == ()


SWITCHED_ON = (
    ("profiler=xplane",),
    ('profiler="xplane"',),
    ("--profiler=xplane",),
    ("profiler.enabled=true",),
    ("--trainer.profiler.enabled=true",),
    ("--trainer.profiler.enabled", "true"),
    ("--trainer.profiler", "True"),
    ("--profiler",),
    ("--profiler", "--steps=3"),
)
SWITCHED_OFF = (
    ('profiler=""',),
    ("profiler=''",),
    ("profiler=",),
    ("profiler=none",),
    ("profiler=False",),
    ("--profiler=false",),
    ("--trainer.profiler.enabled=false",),
    ("--trainer.profiler.enabled", "false"),
    ("--profiler", "none"),
    ("profiler", "notes.txt"),
    ("profiler_steps=3",),
    ("--trainer.profiler.num_steps", "3"),
    ("skip_first_n_steps_for_profiler=10",),
    ("my_profiler=1",),
    ("config.yml",),
)


@pytest.mark.parametrize("words", SWITCHED_ON)
def test_the_profiler_of_jax_inside_a_capture_is_a_fault(words):
    job = replace(JOB, application=("python", "train.py", *words, "--"))
    finding = only(check_jax({}, job), "jax-profiler-inside", Severity.FAULT)
    assert finding.where.startswith(words[0])


@pytest.mark.parametrize("words", SWITCHED_OFF)
def test_a_profiler_that_is_off_is_fine(words):
    assert check_jax({}, replace(JOB, application=("python", "train.py", *words))).findings == ()


@pytest.mark.parametrize("framework", ["maxtext", "levanter"])
def test_the_flags_that_we_print_are_recognised(framework):
    on = [word for flag in framework_flags(framework, first=10, last=12, log_dir="/x") for word in flag.argv]
    off = [word for flag in framework_off_flags(framework) for word in flag.argv]
    assert rules(check_jax({}, replace(JOB, application=("python", *on))).findings) == ["jax-profiler-inside"]
    assert check_jax({}, replace(JOB, application=("python", *off))).findings == ()


def test_attribution_needs_command_buffers_off():
    wanting = replace(JOB, wants_attribution=True)
    assert check_jax(ATTRIBUTABLE, wanting).findings == ()
    assert "xla-command-buffers-on" in rules(check_jax({}, wanting).findings)
    assert check_jax({}, JOB).findings == ()


def test_command_buffers_that_the_user_keeps_are_a_warning():
    graphs = {**ATTRIBUTABLE, "XLA_FLAGS": "--xla_dump_to=/run/hlo"}
    job = replace(JOB, wants_attribution=True, keeps_command_buffers=True)
    only(check_jax(graphs, job), "xla-command-buffers-on", Severity.WARNING)


@pytest.mark.parametrize(
    "value, is_fault", [(None, True), ("true", True), ("", True), ("false", False), ("False", False)]
)
def test_kernel_replay_with_preallocated_memory_is_a_fault(value, is_fault):
    environment = {**ATTRIBUTABLE} if value is None else {**ATTRIBUTABLE, "XLA_PYTHON_CLIENT_PREALLOCATE": value}
    check = check_jax(environment, replace(COUNTING, replays_kernels=True))
    if is_fault:
        only(check, "replay-with-preallocation", Severity.FAULT)
    else:
        assert check.findings == ()
    assert check_jax(environment, COUNTING).findings == ()


def test_kernel_replay_of_graphs_is_a_fault():
    replaying = replace(COUNTING, replays_kernels=True)
    graphs = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer=FUSION", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    only(check_jax(graphs, replaying), "replay-with-command-buffers", Severity.FAULT)
    assert check_jax(graphs, COUNTING).findings == ()


@pytest.mark.parametrize(
    "application",
    [
        ("torchrun", "x"),
        ("/usr/bin/mpirun", "-n", "4", "x"),
        ("env", "FOO=1", "srun", "x"),
        ("bash", "-lc", "cd /job && torchrun x.py"),
        ("python", "-m", "torch.distributed.run", "x.py"),
    ],
)
def test_a_launcher_inside_is_a_warning_and_for_kernel_replay_a_fault(application):
    only(check_application(replace(JOB, application=application), TOOL), "launcher-inside", Severity.WARNING)
    replaying = replace(COUNTING, application=application, replays_kernels=True)
    only(check_application(replaying, TOOL), "replay-under-launcher", Severity.FAULT)


@pytest.mark.parametrize(
    "application", [("python", "x.py", "mpirun"), ("bash", "run.sh"), ("bash", "-c", "python x.py torchrun")]
)
def test_the_name_of_a_launcher_elsewhere_is_none(application):
    assert check_application(replace(JOB, application=application), TOOL).findings == ()


def test_replaying_collectives_is_a_fault():
    replaying = replace(COUNTING, replays_kernels=True, excludes_collectives=False)
    only(check_application(replaying, TOOL), "collectives-replayed", Severity.FAULT)


def test_regions_while_counting_have_their_traps():
    job = replace(COUNTING, selects_regions=True)
    only(check_application(job, tool_of(1, 3, 2)), "pause-may-hang", Severity.WARNING)
    assert check_application(job, tool_of(1, 4)).findings == ()
    both = replace(job, chooses_iterations=True)
    only(check_application(both, tool_of(1, 4)), "iterations-outside-regions", Severity.WARNING)


def test_counting_collectives_is_a_warning():
    job = replace(COUNTING, excludes_collectives=False)
    only(check_application(job, TOOL), "collectives-counted", Severity.WARNING)
    assert check_application(COUNTING, TOOL).findings == ()
    assert check_application(replace(job, counts=False), TOOL).findings == ()


@pytest.mark.parametrize(
    "tool, job, is_fault",
    [
        (tool_of(1, 2), replace(COUNTING, selects_regions=True), True),
        (tool_of(1, 0), replace(COUNTING, selects_regions=True), True),
        (tool_of(1, 4), replace(COUNTING, selects_regions=True), False),
        (tool_of(1, 2), replace(JOB, selects_regions=True), False),
        (tool_of(1, 2), COUNTING, False),
        (None, replace(COUNTING, selects_regions=True), False),
    ],
)
def test_regions_that_do_not_gate_counters_are_a_fault(tool, job, is_fault):
    check = check_application(job, tool)
    if is_fault:
        only(check, "regions-do-not-gate-counters", Severity.FAULT)
    else:
        assert check.findings == ()


def test_without_an_application_nothing_is_said_of_it():
    check = check_application(Job(counts=True, excludes_collectives=False), TOOL)
    assert (check.detail, check.findings) == ("none given", ())
