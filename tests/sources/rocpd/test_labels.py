"""Names of kernels, devices and ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.sources.rocpd.labels import choose_kernel_name, clean_kernel_name, device_label, rank_in_path


@pytest.mark.parametrize(
    "raw, clean",
    [
        ("gemm", "gemm"),
        ("gemm.kd", "gemm"),
        ("gemm [clone .kd]", "gemm"),
        ("gemm.kd [clone .kd]", "gemm"),
        ("gemm(float*) [clone .kd] ", "gemm(float*)"),
        ("x.kdx", "x.kdx"),
        ("a.kd.b", "a.kd.b"),
        (".kd", ""),
        (" [clone .kd]", ""),
        ("", ""),
    ],
)
def test_marks_of_the_descriptor_symbol_are_no_part_of_the_name(raw: str, clean: str) -> None:
    assert clean_kernel_name(raw) == clean


def test_first_candidate_with_something_in_it_is_chosen_as_it_is() -> None:
    assert choose_kernel_name(None, "", ".kd", 7, b"x", "gemm.kd", "other") == "gemm.kd"
    assert choose_kernel_name(None, "") is None
    assert choose_kernel_name() is None


@pytest.mark.parametrize(
    "facts, label",
    [
        (("host0", 5, "GPU", 3, 9), "host0:gpu3"),
        ((None, 5, "GPU", 3, 9), "node5:gpu3"),
        ((None, None, "CPU", 0, 9), "node:cpu0"),
        (("host0", 5, None, 3, 9), "host0:agent3"),
        (("host0", 5, "GPU", None, 9), "host0:agent9"),
    ],
)
def test_device_is_named_by_host_kind_and_index(
    facts: tuple[str | None, int | None, str | None, int | None, int], label: str
) -> None:
    assert device_label(*facts) == label


@pytest.mark.parametrize(
    "path, rank",
    [
        ("out/rank_3/123_results.db", 3),
        ("out/rank12/trace.db", 12),
        ("trace.rank7.db", 7),
        ("Rank-004.db", 4),
        ("rank_1/x/rank_2/t.db", 2),
        ("rank_1/rank_2.db", 2),
        ("crank5/t.db", None),
        ("frank_5.db", None),
        ("ranking/t.db", None),
        ("rank/t.db", None),
        ("123_results.db", None),
    ],
)
def test_rank_is_the_innermost_that_the_path_names(path: str, rank: int | None) -> None:
    assert rank_in_path(Path(path)) == rank


def test_rank_may_be_in_the_folder_that_one_works_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank_6").mkdir()
    monkeypatch.chdir(tmp_path / "rank_6")
    assert rank_in_path(Path("t.db")) == 6
