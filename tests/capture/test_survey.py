"""Tool, machine and job looked at together; the Python of the job and its packages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from machine_trees import make_node, make_program, make_rocm, write_file
from rocpd_files import rules

from rocktools.capture import host as host_module
from rocktools.capture.preflight import Job
from rocktools.capture.survey import (
    Survey,
    find_packages,
    find_python_prefix,
    take_survey,
)
from rocktools.capture.versions import SdkVersion
from rocktools.errors import PreflightFailed

VERSION_SCRIPT = '#!/bin/sh\n[ "$1" = --version ] && echo "version: 1.3.2" || echo "--pmc --runtime-trace"\n'


@pytest.fixture(autouse=True)
def standard_rocm(tmp_path, monkeypatch) -> Path:
    """Stands for /opt/rocm, which a machine that runs this may have."""
    place = tmp_path / "standard"
    monkeypatch.setattr(host_module, "_STANDARD_ROCM", str(place))
    return place


@pytest.fixture
def rocm(tmp_path) -> Path:
    """An installation with a rocprofv3 that answers."""
    root = make_rocm(tmp_path / "rocm")
    make_program(root / "bin/rocprofv3", VERSION_SCRIPT)
    return root


def survey_of(
    tmp_path: Path, environment: Mapping[str, str], *, application: tuple[str, ...] = (), **options: object
) -> Survey:
    return take_survey(
        environment=environment,
        run=tmp_path / "run",
        job=Job(application=application),
        root=tmp_path / "machine",
        **options,  # type: ignore[arg-type]
    )


def environment_of(rocm: Path, **variables: str) -> dict[str, str]:
    return {"PATH": f"{rocm}/bin:/usr/bin:/bin", **variables}


def test_on_a_good_node_the_tool_may_be_started(tmp_path, rocm):
    make_node(tmp_path / "machine", gpus_count=4)
    survey = survey_of(tmp_path, environment_of(rocm))
    assert survey.findings == ()
    tool = survey.require_tool(ignores_faults=False)
    assert tool.version == SdkVersion(1, 3, 2)
    assert tool.executable == str(rocm / "bin/rocprofv3")


def test_a_program_that_is_not_there_is_a_fault(tmp_path, rocm):
    make_node(tmp_path / "machine", gpus_count=4)
    survey = survey_of(tmp_path, environment_of(rocm), application=("no-such-program", "x"))
    assert rules(survey.findings) == ["application-not-found"]
    assert survey.checks[-1].state == "fault"


def test_eight_gpus_are_a_warning_that_stops_nothing(tmp_path, rocm):
    make_node(tmp_path / "machine")
    survey = survey_of(tmp_path, environment_of(rocm))
    assert rules(survey.findings) == ["many-gpus-with-host-trace"]
    assert survey.require_tool(ignores_faults=False)


def test_a_fault_stops_it_unless_faults_are_ignored(tmp_path, rocm):
    survey = survey_of(tmp_path, environment_of(rocm))
    assert rules(survey.findings) == ["no-kfd"]
    with pytest.raises(PreflightFailed, match="preflight-failed") as caught:
        survey.require_tool(ignores_faults=False)
    assert "there is no AMD GPU driver here" in caught.value.what
    assert survey.require_tool(ignores_faults=True).version == SdkVersion(1, 3, 2)


def test_without_a_tool_nothing_starts_even_if_faults_are_ignored(tmp_path):
    make_node(tmp_path / "machine", gpus_count=1)
    survey = survey_of(tmp_path, {"PATH": str(tmp_path / "empty")})
    assert rules(survey.findings) == ["tool-not-found"]
    for ignores_faults in (False, True):
        with pytest.raises(PreflightFailed, match="rocprofv3 is not in PATH"):
            survey.require_tool(ignores_faults=ignores_faults)


def test_a_tool_that_does_not_answer_is_named(tmp_path):
    make_node(tmp_path / "machine", gpus_count=1)
    tool = make_program(tmp_path / "bad/rocprofv3", "#!/bin/sh\necho no libraries >&2\nexit 1\n")
    survey = survey_of(tmp_path, {"PATH": "/usr/bin:/bin"}, tool_path=str(tool))
    [finding] = survey.findings
    assert finding.rule == "tool-has-no-version"
    assert finding.where == str(tool)
    assert survey.tool is None


def test_for_a_dry_run_elsewhere_a_version_is_taken_as_given(tmp_path):
    survey = survey_of(tmp_path, {"PATH": ""}, assumed_version=SdkVersion(1, 4, 1), application=("python", "x.py"))
    tool = survey.require_tool(ignores_faults=False)
    assert (tool.executable, tool.version, tool.options) == ("rocprofv3", SdkVersion(1, 4, 1), frozenset())
    assert survey.avail is None
    assert survey.findings == ()


def test_a_dry_run_elsewhere_names_the_tool_that_it_was_given(tmp_path):
    survey = survey_of(tmp_path, {}, assumed_version=SdkVersion(1, 4, 1), tool_path="/opt/rocm/bin/rocprofv3")
    assert survey.tool is not None
    assert survey.tool.executable == "/opt/rocm/bin/rocprofv3"


def test_avail_is_that_of_the_same_installation(tmp_path, rocm):
    other = make_program(tmp_path / "other/rocprofv3-avail")
    environment = {"PATH": f"{other.parent}:{rocm}/bin:/usr/bin:/bin"}
    assert survey_of(tmp_path, environment).avail is None
    ours = make_program(rocm / "bin/rocprofv3-avail")
    assert survey_of(tmp_path, environment).avail == ours


def test_avail_is_found_behind_a_link_to_the_tool(tmp_path, rocm):
    ours = make_program(rocm / "bin/rocprofv3-avail")
    link = tmp_path / "links/rocprofv3"
    link.parent.mkdir()
    link.symlink_to(rocm / "bin/rocprofv3")
    survey = survey_of(tmp_path, {"PATH": "/usr/bin:/bin"}, tool_path=str(link))
    assert survey.avail == ours
    assert str(rocm) in survey.host.rocm_roots


def test_a_wheel_with_a_rocm_of_its_own_beside_that_of_the_tool_is_a_warning(tmp_path, rocm):
    make_node(tmp_path / "machine", gpus_count=1)
    python = make_program(tmp_path / "venv/bin/python3")
    make_rocm(tmp_path / "venv/lib/python3.12/site-packages/_rocm_sdk_core")
    survey = survey_of(tmp_path, environment_of(rocm), application=(str(python), "train.py"))
    assert rules(survey.findings) == ["two-rocms"]
    same = make_program(tmp_path / "venv/lib/python3.12/site-packages/_rocm_sdk_core/bin/rocprofv3", VERSION_SCRIPT)
    survey = survey_of(tmp_path, {"PATH": "/usr/bin:/bin"}, application=(str(python), "train.py"), tool_path=str(same))
    assert survey.findings == ()


def test_the_facts_for_the_manifest_are_plain_and_complete(tmp_path, rocm):
    make_node(tmp_path / "machine", gpus_count=2)
    environment = environment_of(rocm, XLA_FLAGS="--a=1", HOME="/root")
    facts = survey_of(tmp_path, environment).as_facts(environment, tmp_path)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["gpus"][1] == {"index": 1, "arch": "gfx950", "unique_id": "a000000000000001", "xcc_count": 8}
    assert facts["host"]["driver_version"] == "6.16.13"
    assert facts["host"]["has_perfmon"] is True
    assert facts["host"]["rocm_roots"] == [str(rocm)]
    assert facts["environment"] == {"XLA_FLAGS": "--a=1"}
    assert facts["working_directory"] == str(tmp_path)


def test_the_python_of_a_job_is_the_command_itself(tmp_path):
    for name in ("python", "python3", "python3.12"):
        python = make_program(tmp_path / f"venv/bin/{name}")
        assert find_python_prefix((str(python), "train.py"), {}) == tmp_path / "venv"
        assert find_python_prefix((name, "train.py"), {"PATH": str(python.parent)}) == tmp_path / "venv"


@pytest.mark.parametrize("blank", ["", " "])
def test_the_python_of_a_script_is_in_its_first_line(tmp_path, blank):
    make_program(tmp_path / "venv/bin/python3")
    script = make_program(tmp_path / "bin/maxtext", f"#!{blank}{tmp_path}/venv/bin/python3 -u\nprint()\n")
    assert find_python_prefix((str(script),), {}) == tmp_path / "venv"


@pytest.mark.parametrize("line", ["#!/usr/bin/env python3", "#! /usr/bin/env python3", "#!/usr/bin/env -S python3 -u"])
def test_the_python_of_a_script_may_be_that_of_the_path(tmp_path, line):
    make_program(tmp_path / "venv/bin/python3")
    script = make_program(tmp_path / "bin/train.py", f"{line}\n")
    assert find_python_prefix((str(script),), {"PATH": f"{tmp_path}/venv/bin"}) == tmp_path / "venv"
    assert find_python_prefix((str(script),), {"PATH": f"{tmp_path}/empty"}) is None


@pytest.mark.parametrize(
    "text", ["#!/bin/bash\npython x\n", "\x7fELF\0\0", "", "#!/usr/bin/python-config\n", "#!/usr/bin/env bash\n"]
)
def test_other_programs_have_no_python_that_could_be_told(tmp_path, text):
    program = make_program(tmp_path / "job", text)
    assert find_python_prefix((str(program),), {"PATH": "/usr/bin:/bin"}) is None


def test_no_job_and_a_missing_job_have_no_python(tmp_path):
    assert find_python_prefix((), {}) is None
    assert find_python_prefix((str(tmp_path / "gone"),), {}) is None


@pytest.mark.parametrize(
    "folder",
    ["lib/python3.12/site-packages", "lib64/python3.12/site-packages", "local/lib/python3.12/dist-packages"],
)
def test_versions_of_packages_are_read_from_the_names_of_their_metadata(tmp_path, folder):
    for name in ("jax-0.11.0", "jaxlib-0.11.0", "jax_rocm7_pjrt-0.11.0", "jaxtyping-0.3", "numpy-2.3.0"):
        write_file(tmp_path / f"{folder}/{name}.dist-info/METADATA", "")
    assert find_packages(tmp_path) == {"jax": "0.11.0", "jaxlib": "0.11.0", "jax_rocm7_pjrt": "0.11.0"}


def test_no_python_no_packages(tmp_path):
    assert find_packages(None) == {}
    assert find_packages(tmp_path) == {}
