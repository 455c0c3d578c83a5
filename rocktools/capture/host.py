"""What this machine is, as far as a capture depends on it. Looking only; what it means is decided in preflight.

Every place that is looked at is below a root that a caller can replace, so that the looking can be tried on made trees.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.capture.versions import ProfilerTool, parse_help_options, parse_version_text
from rocktools.errors import CaptureError, ToolFailed, ToolNotFound
from rocktools.process import find_executable, read_output

_CAP_PERFMON_BIT = 38
_CAP_SYS_ADMIN_BIT = 21
_COMGR_PATTERN = "libamd_comgr.so*"
_STANDARD_ROCM = "/opt/rocm"
_WHEEL_PACKAGES = ("_rocm_sdk_core", "_rocm_sdk_devel")
_TOOL_TIMEOUT_S = 60.0


class Access(str, Enum):
    """Whether something can be used."""

    USABLE = "usable"
    FORBIDDEN = "forbidden"
    MISSING = "missing"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFact:
    """One GPU in the kernel's topology.

    Attributes:
        index: among the GPUs, from 0.
        arch: as `gfx950`.
        unique_id: of the device, hexadecimal; "" where it has none.
        xcc_count: accelerator dies in this partition.
        simd_count: SIMD units.
    """

    index: int
    arch: str
    unique_id: str
    xcc_count: int
    simd_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What was found.

    Attributes:
        hostname, kernel_release: of the operating system.
        driver_version: of amdgpu; None where it does not say (the driver of the kernel itself has none).
        kfd: the compute device node.
        gpus: as the kernel lists them.
        has_perfmon: whether this process may use performance counters by capability; None where that is not told.
        perf_event_paranoid: of the kernel; None where there is none.
        free_bytes: place -> free space there.
        rocm_roots: installations of ROCm that a profiled job may load libraries from.
        comgr_paths: copies of libamd_comgr in them, links resolved.
        performance_levels: of the GPUs, as amdgpu names them.
    """

    hostname: str
    kernel_release: str
    driver_version: str | None
    kfd: Access
    gpus: tuple[GpuFact, ...]
    has_perfmon: bool | None
    perf_event_paranoid: int | None
    free_bytes: Mapping[str, int]
    rocm_roots: tuple[str, ...]
    comgr_paths: tuple[str, ...]
    performance_levels: tuple[str, ...]


def probe_host(*, places: Mapping[str, Path], rocm_roots: Sequence[Path], root: Path = Path("/")) -> HostFacts:
    """Look at the machine.

    Args:
        places: name -> folder whose free space matters.
        rocm_roots: installations of ROCm to look for libraries in.
        root: what `/sys`, `/proc` and `/dev` are below.
    """
    existing = tuple(dict.fromkeys(path.resolve() for path in rocm_roots if _is_folder(path)))
    return HostFacts(
        hostname=platform.node(),
        kernel_release=platform.release(),
        driver_version=_read_text(root / "sys/module/amdgpu/version"),
        kfd=_access(root / "dev/kfd"),
        gpus=_read_gpus(root / "sys/class/kfd/kfd/topology/nodes"),
        has_perfmon=_has_perfmon(root / "proc/self/status"),
        perf_event_paranoid=_read_int(root / "proc/sys/kernel/perf_event_paranoid"),
        free_bytes={name: _free_bytes(path) for name, path in places.items()},
        rocm_roots=tuple(str(path) for path in existing),
        comgr_paths=_find_comgr(existing),
        performance_levels=_performance_levels(root / "sys/class/drm"),
    )


def find_rocm_roots(tool: Path | None, python_prefix: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Where ROCm may be: around the tool, in the job's Python packages, where variables say, at the standard place."""
    candidates = []
    if tool is not None:
        candidates.append(tool.resolve().parent.parent)
    for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if environment.get(name):
            candidates.append(Path(environment[name]))
    if python_prefix is not None:
        for package in _WHEEL_PACKAGES:
            candidates += find_in_packages(python_prefix, package)
    candidates.append(Path(_STANDARD_ROCM))
    return [path for path in dict.fromkeys(candidates) if _is_folder(path)]


def find_in_packages(python_prefix: Path, pattern: str) -> list[Path]:
    """What matches a pattern in the folders where a Python keeps its packages; Debian has two of its own."""
    folders = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "local/lib/python3*/dist-packages")
    return [path for folder in folders for path in sorted(python_prefix.glob(f"{folder}/{pattern}"))]


def find_tool(name: str, *, wanted: str | None, environment: Mapping[str, str]) -> Path:
    """The executable of a ROCm tool.

    Args:
        wanted: path that the user named; None to search PATH, then $ROCM_PATH/bin and /opt/rocm/bin.

    Raises:
        ToolNotFound: it is nowhere, or what the user named is no executable.
    """
    if wanted is not None:
        found = find_executable(wanted, path=environment.get("PATH", ""))
        if found is None:
            raise ToolNotFound("tool-not-found", f"{wanted} is no executable file", hint="give the path of the tool")
        return found
    folders = [environment.get("PATH", "")]
    if environment.get("ROCM_PATH"):
        folders.append(str(Path(environment["ROCM_PATH"]) / "bin"))
    # An empty part would mean the working directory.
    searched = [part for folder in [*folders, f"{_STANDARD_ROCM}/bin"] for part in folder.split(os.pathsep) if part]
    found = find_executable(name, path=os.pathsep.join(searched))
    if found is None:
        raise ToolNotFound(
            "tool-not-found",
            f"{name} is not in PATH, nor in $ROCM_PATH/bin or {_STANDARD_ROCM}/bin",
            hint=f"run inside a ROCm container, or name it: --{name} /path/to/{name}",
        )
    return found


def ask_tool(executable: Path, environment: Mapping[str, str]) -> ProfilerTool:
    """A rocprofv3's version and options, as it tells them itself.

    Raises:
        ToolFailed: it does not answer.
        CaptureError: its answer has no version.
    """
    version = read_output((str(executable), "--version"), env=environment, timeout_s=_TOOL_TIMEOUT_S)
    text = version.stdout if version.exit_code == 0 else ""
    if not text.strip():  # before ROCm 7.0 there was no --version; the installation beside it has one
        text = _read_text(executable.resolve().parent.parent / ".info/version") or ""
        if not text:
            raise ToolFailed(
                "tool-has-no-version",
                f"`rocprofv3 --version` ended with code {version.exit_code}: {version.stderr.strip()[:200]}",
                where=str(executable),
                hint="run it by hand; a ROCm before 6.3 is too old",
            )
        raise CaptureError(
            "tool-too-old",
            f"a rocprofv3 that does not tell its version (of ROCm {text}) cannot write rocpd databases",
            where=str(executable),
            hint="use ROCm 7.0 or later",
        )
    tool = parse_version_text(str(executable), text)
    helped = read_output((str(executable), "--help"), env=environment, timeout_s=_TOOL_TIMEOUT_S)
    return ProfilerTool(
        executable=tool.executable,
        version=tool.version,
        rocm_version=tool.rocm_version,
        options=parse_help_options(helped.stdout) if helped.exit_code == 0 else frozenset(),
        facts=tool.facts,
    )


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _read_int(path: Path) -> int | None:
    text = _read_text(path)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _access(device: Path) -> Access:
    if not device.exists():
        return Access.MISSING
    # Asked, not opened: opening it would make this process a client of the driver.
    return Access.USABLE if os.access(device, os.R_OK | os.W_OK) else Access.FORBIDDEN


def _read_gpus(nodes: Path) -> tuple[GpuFact, ...]:
    found: list[GpuFact] = []
    for node in sorted(nodes.glob("*"), key=lambda path: int(path.name) if path.name.isdigit() else -1):
        text = _read_text(node / "properties") or ""
        facts = {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        version = facts.get("gfx_target_version", 0)
        if version == 0:
            continue  # a CPU
        found.append(
            GpuFact(
                index=len(found),
                arch=f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}",
                unique_id=f"{facts.get('unique_id', 0):x}" if facts.get("unique_id") else "",
                xcc_count=facts.get("num_xcc", 0),
                simd_count=facts.get("simd_count", 0),
            )
        )
    return tuple(found)


def _has_perfmon(status: Path) -> bool | None:
    text = _read_text(status)
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", text or "", re.MULTILINE)
    if match is None:
        return None
    effective = int(match.group(1), 16)
    return bool(effective >> _CAP_PERFMON_BIT & 1 or effective >> _CAP_SYS_ADMIN_BIT & 1)


def _free_bytes(path: Path) -> int:
    """Free space of the file system that `path` is on, or would be made on."""
    for existing in (path.absolute(), *path.absolute().parents):
        with contextlib.suppress(OSError):  # not there, or not for us to see
            return shutil.disk_usage(existing).free
    return 0


def _is_folder(path: Path) -> bool:
    """Whether it is a folder that we may look into."""
    return os.access(path, os.R_OK | os.X_OK) and path.is_dir()


def _find_comgr(roots: Sequence[Path]) -> tuple[str, ...]:
    found = [path.resolve() for root in roots for path in sorted(root.glob(f"lib*/{_COMGR_PATTERN}"))]
    return tuple(str(path) for path in dict.fromkeys(found))


def _performance_levels(drm: Path) -> tuple[str, ...]:
    levels = [_read_text(path) for path in sorted(drm.glob("card*/device/power_dpm_force_performance_level"))]
    return tuple(level for level in levels if level)
