"""`python -m rocktools.replay.compile_worker FOLDER`: compile the modules of a job that nobody has begun with.

A process of its own, because a failed check of XLA ends the process. It imports neither numpy nor jax.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rocktools.replay.compile_job import ModuleFiles, read_job, write_answer
from rocktools.replay.pjrt import PjrtPlugin, PjrtRefusal


def compile_job(folder: Path) -> None:
    """Compile every module that is untouched; each answer is a file.

    Raises:
        CaptureError: the plugin cannot be loaded, or knows no such topology.
    """
    job = read_job(folder)
    plugin = PjrtPlugin(Path(job.plugin))
    topology = plugin.create_topology({"topology": job.topology, "target_config": job.target_configuration})
    for number in range(job.modules_count):
        files = ModuleFiles(folder, number)
        if not files.is_untouched:
            continue
        files.started.touch()
        try:
            executable = plugin.compile_module(topology, files.module.read_bytes(), files.options.read_bytes())
        except PjrtRefusal as refusal:
            write_answer(files.refused, refusal.what.encode("utf-8"))
        else:
            write_answer(files.executable, executable)


if __name__ == "__main__":
    compile_job(Path(sys.argv[1]))
