"""`rocktools trace` and `pmc`: what is wrong with the command line is said before the machine is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine


@pytest.mark.parametrize(
    "arguments, reference",
    [
        (("trace",), "no-application"),
        (("trace", "-o", "taken", "--", "x"), "run-directory-exists"),
        (("trace", "-o", "taken", "--dry-run", "--sdk-version", "1.3.2", "--", "x"), "run-directory-exists"),
        (("trace", "-o", "none", "--resume", "--", "x"), "nothing-to-resume"),
        (("trace", "--resume", "--", "x"), "resume-without-run"),
        (("trace", "--sdk-version", "1.3.2", "--", "x"), "assumed-version"),
        (("trace", "--dry-run", "--sdk-version", "1.²", "--", "x"), "bad-version"),
        (("trace", "--env", "NAME", "--", "x"), "bad-variable"),
        (("trace", "--jax-profile", "maxtext", "--", "x"), "flags-only"),
        (("pmc", "--kernel", "a", "--", "x"), "no-counters"),
        (("pmc", "--kernel", "a", "--metrics", "totl_flop", "--", "x"), "unknown-quantity"),
        (("pmc", "--kernel", "a", "--arch", "gfx942", "--metrics", "l2_sector_bytes", "--", "x"), "unknown-quantity"),
        (("pmc", "--kernel", "a", "--arch", "gfx950", "--metrics", "lds_latency", "--", "x"), "quantity-not-collected"),
        (("pmc", "--counters", "SQ_WAVES", "--", "x"), "which-kernels"),
        (("pmc", "--kernel", "a", "--regex", "b", "--counters", "SQ_WAVES", "--", "x"), "which-kernels"),
    ],
)
def test_a_wrong_command_line_is_refused_first(tmp_path, monkeypatch, run: CommandLine, arguments, reference) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").write_text("mine")
    ran = run(*arguments)
    assert ran.code == 2, ran.err
    assert f"error: {reference}:" in ran.err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["note", "taken"]


def test_flags_of_a_framework_name_a_folder_that_holds_wherever_the_job_runs(tmp_path, monkeypatch, run) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("trace", "--jax-profile", "levanter", "-o", "profile")
    assert ran.code == 0
    assert str(Path(tmp_path) / "profile" / "xspace") in ran.out
    assert not (tmp_path / "profile").exists()
