"""`rocktools publish` and `summarize --artifact`: what goes to W&B comes back; errors there are said plainly."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine
from scoped_run import write_scoped_run
from tiny_run import tiny_trace, write_tiny_profile

from rocktools.cli.main import main

FAKE = Path(__file__).resolve().parents[1] / "fake_wandb"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("publish")
    write_scoped_run(folder / "run", devices_count=2)
    assert main(["summarize", str(folder / "run"), "--no-time", "-o", str(folder / "mine.json")]) == 0
    return folder / "mine.json"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in for the client on the path, and an empty server."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setenv("FAKE_WANDB_SERVER", str(tmp_path / "server"))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    yield tmp_path / "server"
    sys.modules.pop("wandb", None)


@pytest.fixture
def no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it fails, whatever is installed


def test_dry_run_prints_what_would_go_without_the_client(
    run: CommandLine, summary: Path, no_client: None, tmp_path: Path
) -> None:
    report = tmp_path / "r.md"
    report.write_text("# report\n")
    ran = run("publish", summary, "--report", report, "-p", "kernels", "--alias", "best", "--dry-run")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    document = json.loads(summary.read_text())
    assert plan["schema"] == "rocktools.publish/1"
    assert (plan["type"], plan["project"], plan["name"], plan["entity"]) == ("profile_summary", "kernels", "run", None)
    assert plan["aliases"] == ["best"]
    assert [(each["name"], each["size_bytes"]) for each in plan["files"]] == [
        ("summary.json", summary.stat().st_size),
        ("report.md", 9),
    ]
    metadata = plan["metadata"]
    assert metadata["profiled_step_median_ns"] == document["steps"]["statistics"]["median_ns"]
    mean = document["overlap"]["mean"]
    assert metadata["idle_ratio"] == pytest.approx(mean["idle_ns"] / mean["span_ns"])
    assert metadata["inputs_sha256"] == document["provenance"]["inputs_sha256"]
    assert metadata["devices_count"] == 2
    assert metadata["is_simulated"] is True
    assert metadata["unprofiled_step_median_ns"] is None  # no log: not 0
    assert metadata["model_name"] is None


def test_what_is_uploaded_is_what_the_dry_run_printed(run: CommandLine, summary: Path, server: Path) -> None:
    options = (summary, "-p", "kernels", "--entity", "team", "--name", "base", "--alias", "latest", "--alias", "best")
    plan = json.loads(run("publish", *options, "--dry-run").out)
    assert not server.exists()
    ran = run("publish", *options)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("team/kernels/base:v0: SIMULATED: run: 3 steps on 2 devices")
    place = server / "team/kernels/base/v0"
    facts = json.loads((place / "facts.json").read_text())
    assert facts == {"type": "profile_summary", "metadata": plan["metadata"], "description": plan["description"]}
    assert (place / "files/summary.json").read_bytes() == summary.read_bytes()
    assert {path.name for path in place.parent.glob("alias.*")} == {"alias.latest", "alias.best"}


def test_summary_comes_back_as_it_went(run: CommandLine, summary: Path, server: Path, tmp_path: Path) -> None:
    assert run("publish", summary, "-p", "kernels", "--entity", "team", "--name", "base").code == 0
    for reference in ("team/kernels/base:latest", "team/kernels/base", "team/kernels/base:v0"):
        ran = run("summarize", "--artifact", reference)
        assert ran.code == 0, ran.err
        assert ran.out.encode() == summary.read_bytes()
    target = tmp_path / "marin.json"
    assert run("summarize", "--artifact", "team/kernels/base", "--schema", "marin", "-o", target).code == 0
    assert json.loads(target.read_text())["schema_version"] == "profile_summary.v1"


def test_profile_in_an_artifact_is_summarized(run: CommandLine, server: Path, tmp_path: Path) -> None:
    profile = write_tiny_profile(tmp_path / "vm.xplane.pb", tiny_trace())
    place = server / "team/jobs/profile/v0/files/plugins"
    place.mkdir(parents=True)
    (place / "vm.xplane.pb").write_bytes(profile.read_bytes())
    ran = run("summarize", "--artifact", "team/jobs/profile:v0", "--no-time")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert document["metadata"]["runs"] == ["profile"]
    assert document["metadata"]["source_formats"] == ["xspace"]


def test_client_that_is_not_installed_is_named(run: CommandLine, summary: Path, no_client: None) -> None:
    for arguments in (("publish", summary, "-p", "x"), ("summarize", "--artifact", "a/b/c:d")):
        ran = run(*arguments)
        assert ran.code == 1
        assert "needs wandb" in ran.err
        assert "pip install 'rocktools[wandb]'" in ran.err


def test_server_that_cannot_be_reached_is_one_plain_message(
    run: CommandLine, summary: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAKE_WANDB_SERVER")
    for arguments in (("publish", summary, "-p", "x"), ("summarize", "--artifact", "a/b/c:d")):
        ran = run(*arguments)
        assert (ran.code, ran.out) == (1, "")
        first = "artifact-server: W&B cannot do this: Network error (ConnectionError), entering retry loop."
        assert ran.err.startswith(f"rocktools: error: {first}\n  where: ")
        assert "more lines" not in ran.err


def test_login_and_names_that_are_missing_are_told(
    run: CommandLine, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "artifact membership 'a/b/c:d' not found" in run("summarize", "--artifact", "a/b/c:d").err
    monkeypatch.setenv("FAKE_WANDB_KEY", "")
    assert "No API key configured" in run("summarize", "--artifact", "a/b/c:d").err


def test_client_that_is_offline_or_off_says_so(
    run: CommandLine, summary: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    ran = run("publish", summary, "-p", "x")
    assert (ran.code, "`wandb sync` uploads it" in ran.out) == (0, True)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    ran = run("publish", summary, "-p", "x")
    assert (ran.code, "artifact-disabled" in ran.err) == (1, True)
    assert not server.exists()


def test_what_means_nothing_is_refused(run: CommandLine, summary: Path, server: Path, tmp_path: Path) -> None:
    assert "artifact-name" in run("publish", summary, "-p", "a b").err
    assert "artifact-name" in run("publish", summary, "-p", "x", "--alias", "").err
    assert "cannot-read" in run("publish", summary, "-p", "x", "--report", tmp_path / "none.md").err
    assert "artifact-reference" in run("summarize", "--artifact", "a/b/c/d:e").err
    ran = run("summarize", "--artifact", "a/b/c:d", summary)
    assert (ran.code, "artifact-and-paths" in ran.err) == (2, True)
    assert "output-exists" in run("summarize", "--artifact", "a/b/c:d", "-o", summary).err
    (server / "a/b/c/v0/files").mkdir(parents=True)
    assert "empty-artifact" in run("summarize", "--artifact", "a/b/c:v0").err
