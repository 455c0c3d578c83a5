"""Made trees of /sys, /proc and /dev, as the kernel of a node with AMD GPUs shows them."""

from __future__ import annotations

from pathlib import Path

CAP_PERFMON = 1 << 38
CAP_SYS_ADMIN = 1 << 21

# gfx_target_version, XCDs, SIMD units: as in the topology of the kernel.
GPU_PROPERTIES = {
    "gfx950": (90500, 8, 1024),
    "gfx942": (90402, 8, 1216),
    "gfx90a": (90010, 1, 440),
    "gfx1100": (110000, 1, 192),
    "gfx1201": (120001, 1, 128),
}


def write_file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def add_cpu(root: Path, node: int) -> None:
    """A node of the topology that is a CPU."""
    properties = "cpu_cores_count 96\nsimd_count 0\nmem_banks_count 1\nnum_xcc 0\ngfx_target_version 0\nunique_id 0\n"
    write_file(_node(root, node) / "properties", properties)


def add_gpu(root: Path, node: int, arch: str, *, unique_id: int = 0) -> None:
    """A node of the topology that is a GPU."""
    version, xcc_count, simd_count = GPU_PROPERTIES[arch]
    properties = f"cpu_cores_count 0\nsimd_count {simd_count}\nnum_xcc {xcc_count}\ngfx_target_version {version}\n"
    write_file(_node(root, node) / "properties", f"{properties}unique_id {unique_id}\nmax_engine_clk_fcompute 2400\n")


def _node(root: Path, node: int) -> Path:
    return root / "sys/class/kfd/kfd/topology/nodes" / str(node)


def set_performance_level(root: Path, card: int, level: str) -> None:
    write_file(root / f"sys/class/drm/card{card}/device/power_dpm_force_performance_level", f"{level}\n")


def set_capabilities(root: Path, effective: int) -> None:
    text = f"Name:\tpython\nCapInh:\t{0:016x}\nCapPrm:\t{effective:016x}\nCapEff:\t{effective:016x}\n"
    write_file(root / "proc/self/status", text)


def make_node(root: Path, arch: str = "gfx950", *, gpus_count: int = 8) -> Path:
    """A node that nothing is wrong with: two CPUs, GPUs, a usable driver, CAP_PERFMON."""
    add_cpu(root, 0)
    add_cpu(root, 1)
    for number in range(gpus_count):
        add_gpu(root, 2 + number, arch, unique_id=0xA000000000000000 + number)
        set_performance_level(root, number, "auto")
    write_file(root / "dev/kfd", "")
    write_file(root / "sys/module/amdgpu/version", "6.16.13\n")
    write_file(root / "proc/sys/kernel/perf_event_paranoid", "4\n")
    set_capabilities(root, CAP_PERFMON)
    return root


def make_rocm(root: Path, *, version: str = "7.14.0", library: str = "lib") -> Path:
    """An installation: comgr with its usual links, and the version file."""
    real = write_file(root / library / "libamd_comgr.so.3.0.71400", "")
    for name in ("libamd_comgr.so.3", "libamd_comgr.so"):
        (root / library / name).symlink_to(real.name)
    write_file(root / ".info/version", f"{version}\n")
    (root / "bin").mkdir(exist_ok=True)
    return root


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    write_file(path, text).chmod(0o755)
    return path
