"""What is read of the description of a replay must be what extraction writes there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_replays import write_fake_replay

from rocktools.errors import DamagedFile
from rocktools.replay.prove_bundle import read_replay

LAUNCH = {"kind": "kKernel", "kernel": "k", "grid_workgroups": [4, 1, 1], "workgroup_workitems": [256]}


def _with(folder: Path, **changes: Any) -> Path:
    replay = write_fake_replay(folder, "fusion.1")
    spec = json.loads((replay / "spec.json").read_text(encoding="utf-8"))
    (replay / "spec.json").write_text(json.dumps({**spec, **changes}), encoding="utf-8")
    return replay


def test_a_whole_spec_is_read(tmp_path: Path) -> None:
    read = read_replay(_with(tmp_path, launches=[LAUNCH], kernel=None, origin=None))
    assert (read.kernel_name, read.devices_count, read.launches[0].grid) == ("", 1, (4, 1, 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"devices_count": "text"},
        {"devices_count": True},
        {"devices_count": None},
        {"instruction": 3},
        {"kernel": ["k"]},
        {"origin": "here"},
        {"program": []},
        {"program": {"file": 1, "sha256": "0"}},
        {"program": {"file": "\0", "sha256": "0"}},
        {"launches": {}},
        {"launches": [3]},
        {"launches": [{**LAUNCH, "grid_workgroups": ["many"]}]},
        {"launches": [{**LAUNCH, "workgroup_workitems": 5}]},
        {"launches": [{**LAUNCH, "kind": []}]},
        {"launches": [{**LAUNCH, "kernel": 1.5}]},
    ],
)
def test_an_entry_of_another_type_is_damage(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="replay-spec"):
        read_replay(_with(tmp_path, **changes))
