"""What users get: a wheel that runs without the checkout, with its data folders; an editable install; the scripts."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from rocktools import __version__
from rocktools.assets import ASSET_FOLDERS, find_asset_folder
from rocktools.errors import ContractError, UsageError

REPOSITORY = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env={**inherited, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def _installed(wheel: Path, folder: Path) -> Path:
    """The scripts folder of a new environment with this wheel; what it depends on is borrowed from ours."""
    venv.create(folder, with_pip=False, symlinks=True)
    scripts = folder / "bin"
    _run(
        sys.executable, "-m", "pip", "--python", scripts / "python", "--disable-pip-version-check",
        "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder,
    )  # fmt: skip
    # Only the folders themselves: the .pth files in them, one of which leads to the checkout, are not read.
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return scripts


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A copy of the checkout, since building writes into it."""
    copy = tmp_path_factory.mktemp("source") / "rocktools"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "quickstart-results", "bench-results", "build", "dist")
    shutil.copytree(REPOSITORY, copy, ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    return _installed(wheel, tmp_path_factory.mktemp("installed"))


def test_wheel_has_the_package_its_data_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"rocktools", f"rocktools-{__version__}.dist-info"}
    assert "rocktools/render/table.schema.json" in names
    for folder in ASSET_FOLDERS:
        assert f"rocktools/shipped/{folder}/README.md" in names
    assert not [name for name in names if re.search(r"__pycache__|\.pyc$|/tests?/", name)]


def test_wheel_has_every_module_of_the_checkout(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "rocktools").rglob("*.py")}
    assert modules <= names


def test_wheel_runs_without_the_checkout(installed, tmp_path):
    assert _run(installed / "rocktools", "--version", cwd=tmp_path).startswith(f"rocktools {__version__}\n")
    assert "Usage: rocktools" in _run(installed / "rocktools", "--help", cwd=tmp_path)


@pytest.mark.parametrize("folder", ASSET_FOLDERS)
def test_wheel_finds_its_own_data_folders(installed, folder, tmp_path):
    script = f"from rocktools.assets import find_asset_folder; print(find_asset_folder({folder!r}))"
    found = Path(_run(installed / "python", "-c", script, cwd=tmp_path).strip())
    assert found.is_relative_to(installed.parent)
    assert (found / "README.md").read_bytes() == (REPOSITORY / folder / "README.md").read_bytes()


def test_editable_install_finds_the_folders_of_its_checkout(source, tmp_path):
    built = _run(
        sys.executable, "-c", f"import hatchling.build; print(hatchling.build.build_editable({str(tmp_path)!r}))",
        cwd=source,
    )  # fmt: skip
    scripts = _installed(tmp_path / built.split()[-1], tmp_path / "editable")
    assert _run(scripts / "rocktools", "--version", cwd=tmp_path).startswith(f"rocktools {__version__}\n")
    for folder in ASSET_FOLDERS:
        script = f"from rocktools.assets import find_asset_folder; print(find_asset_folder({folder!r}))"
        assert Path(_run(scripts / "python", "-c", script, cwd=tmp_path).strip()) == source / folder


def test_unknown_data_folder_lists_the_known_ones():
    with pytest.raises(UsageError, match="there is no data folder 'counter'") as caught:
        find_asset_folder("counter")
    assert caught.value.hint == "one of: counters"


def test_neighbours_of_an_installed_package_are_not_taken_for_its_data(tmp_path, monkeypatch):
    (tmp_path / "site-packages/rocktools").mkdir(parents=True)
    (tmp_path / "site-packages/counters").mkdir()
    monkeypatch.setattr("rocktools.assets._PACKAGE", tmp_path / "site-packages/rocktools")
    with pytest.raises(ContractError, match="lacks its data folder 'counters'"):
        find_asset_folder("counters")


@pytest.mark.parametrize("script", ["scripts/test", "scripts/quickstart", ".ci/run"])
def test_scripts_may_be_run_and_are_bash(script):
    path = REPOSITORY / script
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    _run("bash", "-n", path, cwd=REPOSITORY)


@pytest.mark.parametrize("script", ["scripts/test", "scripts/quickstart"])
def test_scripts_say_plainly_that_the_python_is_too_old(script, tmp_path):
    for name in ("pyproject.toml", "scripts/environment.sh", script):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    environment = {**os.environ, "PYTHON": "/bin/false"}
    ran = subprocess.run([tmp_path / script], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == f"{script}: PYTHON=/bin/false is not a Python of 3.10 or newer\n"
    assert not (tmp_path / ".venv").exists()
