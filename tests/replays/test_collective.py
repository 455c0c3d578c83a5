"""Collectives over four devices of the CPU backend, against numpy. They need a process that was started for them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from replay_scripts import FOLDER, build_work, cpu_environment, load_script, run_script

DEVICES, ELEMENTS = 4, 8
FLAGS = f"--xla_force_host_platform_device_count={DEVICES}"
# Of each collective, inputs and results of all devices, one after the other.
_COMPUTE = """
import sys
import jax, numpy
import collective, measure
made = {}
for name in collective.COLLECTIVES:
    given = ["--collective", name, "--devices", sys.argv[2], "--elements", sys.argv[3], "--dtype", "f32"]
    work = collective.build(measure.make_parser(collective.SCRIPT).parse_args(given))
    made[f"{name}-input"] = measure.make_arrays(work)[0]
    made[f"{name}-result"] = numpy.asarray(measure.compute(work, jax.devices()))
numpy.savez(sys.argv[1], **made)
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("computed") / "made.npz"
    command = [sys.executable, "-c", _COMPUTE, str(path), str(DEVICES), str(ELEMENTS)]
    ran = subprocess.run(command, env=cpu_environment(FLAGS), cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with np.load(path) as made:
        return dict(made)


EXPECTED = {
    "all-reduce": lambda parts: np.tile(parts.sum(0), (DEVICES, 1)),
    "all-gather": lambda parts: np.tile(parts.reshape(-1), (DEVICES, 1)),
    "reduce-scatter": lambda parts: parts.sum(0).reshape(DEVICES, -1),
    "all-to-all": lambda parts: parts.reshape(DEVICES, DEVICES, -1).swapaxes(0, 1).reshape(DEVICES, -1),
    "collective-permute": lambda parts: np.roll(parts, 1, axis=0),
}


@pytest.mark.parametrize("collective", EXPECTED)
def test_each_device_gets_what_it_must(computed, collective):
    parts = computed[f"{collective}-input"].reshape(DEVICES, -1)
    found = computed[f"{collective}-result"].reshape(DEVICES, -1)
    np.testing.assert_allclose(found, EXPECTED[collective](parts), rtol=1e-6, atol=1e-6)


# Elements of one device: read, written, sent; a ring passes 3 of 4 parts of two elements on, twice for a whole sum.
@pytest.mark.parametrize(
    "collective, read, written, sent, flop",
    [
        ("all-reduce", 8, 8, 12, 6),
        ("all-gather", 2, 8, 6, 0),
        ("reduce-scatter", 8, 2, 6, 6),
        ("all-to-all", 8, 8, 6, 0),
        ("collective-permute", 8, 8, 8, 0),
    ],
)
def test_figures_are_those_of_one_device(collective, read, written, sent, flop):
    pytest.importorskip("jax")
    work = build_work("collective", "--collective", collective, "--devices", 4, "--elements", 8, "--dtype", "bf16")
    assert (work.read_bytes, work.written_bytes, work.further["sent_bytes"]) == (2 * read, 2 * written, 2 * sent)
    assert work.flop == flop


def test_script_runs_on_as_many_devices_as_asked_for():
    pytest.importorskip("jax")
    ran = run_script("collective", "--devices", 4, "--elements", 8, "--iterations", 2, xla_flags=FLAGS)
    assert ran.returncode == 0, ran.stderr
    line = json.loads(ran.stdout)
    assert (line["devices_count"], line["sizes"]["collective"], len(line["host_times_ns"])) == (4, "all-reduce", 2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--devices", "1"], "--devices must be at least 2: one device has nobody to talk to"),
        (["--devices", "3", "--elements", "8"], "--elements must be a multiple of --devices, but 8 is none of 3"),
        (["--device", "90"], "devices 90 to 97 are needed, but JAX sees "),
    ],
)
def test_devices_that_cannot_be_had_are_told(capsys, arguments, message):
    pytest.importorskip("jax")
    with pytest.raises(SystemExit) as raised:
        load_script("collective").main(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith(f"collective.py: {message}")
