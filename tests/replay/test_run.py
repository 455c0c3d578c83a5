"""Running a replay: its command line, and scripts of the tests' own that end in every way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocktools.errors import InputError, ReplayError
from rocktools.replay.bundled_replay import parse_options
from rocktools.replay.run import ReplayRunOptions, replay_run_argv, run_replay

GOOD = (
    "import json, sys\nprint('warming up')\n"
    "print(json.dumps({'schema': 'rocktools.replay-run/1', 'arguments': sys.argv[1:]}))\nprint('{\"other\": 1}')\n"
)


def script(folder: Path, text: str) -> Path:
    (folder / "replay.py").write_text(text)
    return folder


def run(folder: Path, options: ReplayRunOptions | None = None, *, deadline_s: float = 30.0):
    return run_replay(
        folder, options or ReplayRunOptions(), python=Path(sys.executable), env=dict(os.environ), deadline_s=deadline_s
    )


def test_bundles_understand_the_command_line():
    options = ReplayRunOptions(
        iterations_count=7, warmups_count=2, device=3, inputs="zeros", outputs=Path("out"), is_cache_flushed=True,
        plugin=Path("p.so"),
    )  # fmt: skip
    parsed = parse_options(replay_run_argv(Path("python"), Path("replay"), options)[2:], "a replay")
    assert (parsed.iterations, parsed.warm_up, parsed.device, parsed.inputs) == (7, 2, 3, "zeros")
    assert (parsed.flush_cache, parsed.plugin) == (True, "p.so")
    assert Path(parsed.outputs) == Path.cwd() / "out"


def test_what_the_script_says_is_returned(tmp_path):
    document = run(script(tmp_path, GOOD), ReplayRunOptions(iterations_count=5))
    assert document["arguments"][:2] == ["--iterations", "5"]


@pytest.mark.parametrize(
    "text, reference, words",
    [
        ("import sys\nsys.exit('replay.py: no device')\n", "replay-failed", "exit code 1: replay.py: no device"),
        ("import os\nos.abort()\n", "replay-failed", "signal 6"),
        ("print('{}')\n", "replay-silent", "said nothing"),
    ],
)
def test_bad_ends_are_told(tmp_path, text, reference, words):
    with pytest.raises(ReplayError) as raised:
        run(script(tmp_path, text))
    assert raised.value.reference == reference
    assert words in raised.value.what


def test_replay_that_takes_too_long_is_stopped(tmp_path):
    with pytest.raises(ReplayError, match="stopped after"):
        run(script(tmp_path, "import time\ntime.sleep(60)\n"), deadline_s=0.5)


def test_other_folder_is_no_replay(tmp_path):
    with pytest.raises(InputError, match=r"has no replay\.py"):
        run(tmp_path)
