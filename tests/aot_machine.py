"""What tests need that compile for a GPU which is not here; skipped where the plugin or a C compiler is missing."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import pytest

from rocktools.replay.aot_environment import PreparedEnvironment, find_plugin, prepare_environment

aot = pytest.mark.aot

# Small, and of every kind that matters: a matrix product, a reduction, a transpose, an in-place update.
PROGRAM = """
import jax
import jax.numpy as jnp

def f(x, w, cache):
    y = jax.nn.silu(x @ w)
    cache = jax.lax.dynamic_update_slice(cache, (y.sum(-1, keepdims=True) * 2).astype(cache.dtype), (3, 0))
    return y.T.copy() + 1, cache

def step(devices):
    shapes = (jax.ShapeDtypeStruct((64, 512), jnp.bfloat16), jax.ShapeDtypeStruct((512, 256), jnp.bfloat16),
              jax.ShapeDtypeStruct((128, 1), jnp.float32))
    return jax.jit(f, donate_argnums=2), shapes

def number(devices):
    return 3

def raising(devices):
    raise ValueError("the user's own\\nmistake")
"""


# Of the plugin that compiled the real step (INDEX.md of the real files).
STEP_PLUGIN = "0.10."


def require_plugin_of_step() -> None:
    """Skips a test that needs the compiler of the real step: another one writes other machine code."""
    try:
        version = importlib.metadata.version("jax-rocm7-pjrt")
    except importlib.metadata.PackageNotFoundError:
        return  # not there at all, or not under this name: `prepare` says so
    if not version.startswith(STEP_PLUGIN):
        pytest.skip(f"the step was compiled by jax-rocm7-pjrt {STEP_PLUGIN}x, and {version} writes other machine code")


def prepare(cache: Path) -> PreparedEnvironment:
    """The environment to compile in, or a skipped test."""
    if find_plugin() is None:
        pytest.skip("the ROCm plugin of JAX is not installed: pip install 'rocktools[aot]'")
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        pytest.skip("there is no C compiler to make stand-ins for the libraries of ROCm")
    return prepare_environment(python=Path(sys.executable), cache=cache, env=dict(os.environ), each_deadline_s=240.0)
