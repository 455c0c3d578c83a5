"""Replays on disk: what may be profiled, and the reason where it may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_replays import write_fake_proof, write_fake_replay

from rocktools.batch.bundles import Refused, find_bundles, judge_bundle, read_bundle
from rocktools.replay.prove import Level


def judged(folder: Path, *, kernel: str | None = None, allows_unproven: bool = False) -> str | None:
    bundle = read_bundle(folder)
    refusal = judge_bundle(bundle, bundle.kernel if kernel is None else kernel, allows_unproven=allows_unproven)
    return None if refusal is None else refusal.reason


@pytest.mark.parametrize("level", [Level.IDENTICAL, Level.EQUIVALENT, Level.SIMILAR])
def test_what_is_proven_is_profiled(tmp_path, level):
    assert judged(write_fake_replay(tmp_path, "fusion.1", level=level)) is None


@pytest.mark.parametrize(
    "facts, reason",
    [
        ({"kind": "collective", "devices_count": 8}, Refused.COLLECTIVE),
        ({"kind": "kernel", "devices_count": 2}, Refused.COLLECTIVE),
        ({"kind": "copy"}, Refused.COPY),
        ({"kernel": None}, Refused.NO_KERNEL_NAME),
        ({"level": Level.NOT_A_STAND_IN}, Refused.NOT_A_STAND_IN),
        ({"level": Level.UNPROVEN}, Refused.UNPROVEN),
        ({"level": None}, Refused.UNPROVEN),
    ],
)
def test_what_may_not_be_profiled_has_its_reason(tmp_path, facts, reason):
    folder = write_fake_replay(tmp_path, "fusion.1", **facts)
    assert judged(folder) == reason.value
    allowed = judged(folder, allows_unproven=True)
    assert allowed == (None if reason is Refused.UNPROVEN else reason.value)


def test_what_its_proof_left_undecided_is_sent_for_a_better_one(tmp_path):
    hints = {}
    for name, level in (("undecided", Level.UNPROVEN), ("bare", None)):
        bundle = read_bundle(write_fake_replay(tmp_path, name, level=level))
        refusal = judge_bundle(bundle, bundle.kernel, allows_unproven=False)
        assert refusal is not None
        hints[name] = refusal.hint
    assert "--job-executable" in hints["undecided"]
    assert hints["bare"].startswith("rocktools replay prove")


def test_a_library_s_kernel_is_named_by_the_trace(tmp_path):
    folder = write_fake_replay(tmp_path, "custom-call.1", kernel=None, kind="library")
    assert judged(folder, kernel="Cijk_x") is None


def test_a_proof_of_another_program_proves_nothing_and_is_named(tmp_path):
    folder = write_fake_replay(tmp_path, "fusion.1", level=None)
    write_fake_proof(folder, Level.IDENTICAL, "f" * 64)
    bundle = read_bundle(folder)
    assert bundle.level is Level.UNPROVEN
    assert [finding.rule for finding in bundle.findings] == ["proof-of-another-program"]


def test_damaged_bundles_are_named_and_the_others_found(tmp_path):
    write_fake_replay(tmp_path, "b")
    write_fake_replay(tmp_path, "a")
    (write_fake_replay(tmp_path, "changed") / "replay.hlo.pb").write_bytes(b"another program")
    (write_fake_replay(tmp_path, "cut") / "spec.json").write_text("{")
    (tmp_path / "mine").mkdir()
    (tmp_path / "note.txt").write_text("mine")
    kind = write_fake_replay(tmp_path, "odd") / "spec.json"
    kind.write_text(json.dumps({**json.loads(kind.read_text()), "kind": "quantum"}))
    bundles, findings = find_bundles(tmp_path)
    assert [bundle.instruction for bundle in bundles] == ["a", "b"]
    assert [(finding.rule, Path(finding.where).relative_to(tmp_path).parts[0]) for finding in findings] == [
        ("bundle-unreadable", name) for name in ("changed", "cut", "odd")
    ]


def test_no_folder_has_no_bundles(tmp_path):
    assert find_bundles(tmp_path / "gone") == ([], [])
