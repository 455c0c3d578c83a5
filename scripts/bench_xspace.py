"""The section of scripts/bench about JAX profiles: 100 MB against jax.profiler.ProfileData, and the memory for 1 GB.

The profiles are those of rocktools.demo.xspace_bulk: eight GPUs, a host call for each dispatch, seven statistics each.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from bench_rocpd import PROFILE_DATA, Bench, Target, run_method, say

NUMPY = "rocktools, numpy"
COMPILED = "rocktools, numba"
FRAMES_NUMPY = "frames, numpy"
FRAMES_COMPILED = "frames, numba"

_BYTES_PER_DISPATCH = 126
_MEGABYTES = 100
_QUICK_MEGABYTES = 10
_LARGE_MEGABYTES = 1000
_BUDGET_BYTES = 6_000_000_000


def bench_xspace(bench: Bench, *, is_quick: bool) -> list[Target]:
    """Measure, and say what was promised."""
    has_numba = importlib.util.find_spec("numba") is not None
    has_jax = importlib.util.find_spec("jaxlib") is not None
    megabytes = _QUICK_MEGABYTES if is_quick else _MEGABYTES
    path = _write(bench, megabytes)
    for is_devices_only in (False, True):
        subject = _subject(megabytes, is_devices_only)
        task = {"files": [str(path)], "is_devices_only": is_devices_only}
        if has_jax:
            bench.measure("xspace", subject, "profile data", PROFILE_DATA, task)
        bench.measure("xspace", subject, "rocktools profile", NUMPY, {**task, "accelerate": False})
        if has_numba:
            bench.measure("xspace", subject, "rocktools profile", COMPILED, {**task, "accelerate": True})
    path.unlink()
    if not is_quick:
        large = _write(bench, _LARGE_MEGABYTES)
        for label, accelerate in ((FRAMES_NUMPY, False), (FRAMES_COMPILED, True)):
            if has_numba or not accelerate:
                task = {"files": [str(large)], "accelerate": accelerate}
                bench.measure("xspace", _large_subject(), "rocktools profile frames", label, task, repeats=1)
        large.unlink()
    everything, remark = _subject(megabytes, False), "promised for 100 MB" if is_quick else ""
    return [
        Target("profile, numpy", everything, remark, NUMPY, PROFILE_DATA, 2.5),
        Target("profile, numba", everything, remark, COMPILED, PROFILE_DATA, 15.0),
        *(
            Target("profile in 6 GB", _large_subject(), "", label, "", 1.0, is_memory=True, budget_bytes=_BUDGET_BYTES)
            for label in (FRAMES_NUMPY, FRAMES_COMPILED)
        ),
    ]


def _write(bench: Bench, megabytes: int) -> Path:
    path = bench.folder / f"profile-{megabytes}.xplane.pb"
    say(f"writing {path.name}")
    shape = {"dispatches_count": megabytes * 1_000_000 // _BYTES_PER_DISPATCH}
    if run_method("write_profile", {"files": [str(path)], "shape": shape}) is None:
        raise SystemExit(f"bench: could not write {path.name}")
    return path


def _subject(megabytes: int, is_devices_only: bool) -> str:
    return f"profile of {megabytes} MB, {'devices, no statistics' if is_devices_only else 'everything'}"


def _large_subject() -> str:
    return f"profile of {_LARGE_MEGABYTES} MB, two frames"
