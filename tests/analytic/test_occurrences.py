"""Expected counts: 56 layers x 2 microsteps are 112 on each device; one less fails."""

from __future__ import annotations

import pytest
from timeline_rows import make_attributed

from rocktools.analytic.occurrences import check_occurrences, count_occurrences, parse_workload, read_workload
from rocktools.errors import InputError, UnsupportedVersion

HEAD = """
schema: rocktools.workload/1
name: mixtral-8x22b
layers: 56
microsteps: 2
devices: 8
steps: 1
"""
WI_0 = HEAD + "expectations:\n  - {title: wi_0, phase: forward, scope: wi_0}\n"


def _rows(count, devices=8, **fields):
    given = {"phase": "forward", "scope": "decoder/layers/wi_0/EBCM,EMH -> EBCH"} | fields
    return [
        {"device": f"gpu{device}", "start": i, "end": i + 1} | given for device in range(devices) for i in range(count)
    ]


def _count(text, rows, **given):
    workload = parse_workload(text, source="w.yaml")
    occurrences = count_occurrences(make_attributed(rows), workload, **given)
    return occurrences, check_occurrences(occurrences, workload)


def test_112_on_each_gpu_pass():
    (found,), findings = _count(WI_0, _rows(112))
    assert (found.expected_per_device_count, found.expected_count, found.found_count) == (112, 896, 896)
    assert found.is_met
    assert findings == []


def test_111_on_one_gpu_fail_and_the_gpu_is_named():
    rows = _rows(112)
    rows.pop()
    (found,), (finding,) = _count(WI_0, rows)
    assert not found.is_met
    assert finding.rule == "occurrence-mismatch"
    assert "112 are expected on each device, but gpu7 has 111" in finding.message
    assert finding.numbers == {"expected_count": 896, "found_count": 895, "wrong_devices_count": 1}


def test_111_on_every_gpu_fail():
    (found,), (finding,) = _count(WI_0, _rows(111))
    assert not found.is_met
    assert finding.numbers["wrong_devices_count"] == 8
    assert "and 4 more" in finding.message


def test_a_missing_device_fails_even_if_all_others_are_right():
    (found,), (finding,) = _count(WI_0, _rows(112, devices=7))
    assert not found.is_met
    assert "there are 7 devices, and the workload has 8" in finding.message


def test_one_too_many_on_one_and_one_too_few_on_another_do_not_cancel():
    rows = _rows(112)
    rows[-1]["device"] = "gpu0"
    (found,), _ = _count(WI_0, rows)
    assert found.found_count == found.expected_count
    assert not found.is_met


@pytest.mark.parametrize(
    "selects, expected, is_met",
    [
        ("{title: t, phase: forward, kernel: '^gemm'}", 112, True),
        ("{title: t, component: expert_mlp}", 112, False),
        ("{title: t, scope: wi_1}", 112, False),
        ("{title: t, scope: wi}", 112, False),
        ("{title: t, collective: all-gather}", 112, False),
        ("{title: t, activity: compute, each: 2}", 224, False),
        ("{title: t, activity: compute, times: [microsteps], each: 56}", 112, True),
        ("{title: t, activity: compute, times: []}", 1, False),
    ],
)
def test_what_is_counted_and_by_what_it_is_multiplied(selects, expected, is_met):
    (found,), _ = _count(f"{HEAD}expectations:\n  - {selects}\n", _rows(112, name="gemm_fusion_dot_1"))
    assert (found.expected_per_device_count, found.is_met) == (expected, is_met)


def test_steps_are_those_of_the_workload_or_those_found():
    open_steps = WI_0.replace("steps: 1\n", "")
    (found,), _ = _count(open_steps, _rows(224), steps_count=2)
    assert (found.expected_per_device_count, found.is_met) == (224, True)
    (found,), _ = _count(WI_0, _rows(112), steps_count=2)
    assert found.is_met
    by_step = [row | {"step_index": row["start"] % 2} for row in _rows(224)]
    (found,), _ = _count(open_steps, by_step)
    assert (found.expected_per_device_count, found.is_met) == (224, True)


def test_a_step_of_each_of_many_runs_is_one_step_of_each_device():
    rows = [row | {"run": f"rank{row['device']}", "step_index": 3} for row in _rows(112)]
    (found,), _ = _count(WI_0.replace("steps: 1\n", ""), rows)
    assert (found.expected_per_device_count, found.is_met) == (112, True)


@pytest.mark.parametrize(
    "text, what, where",
    [
        ("name: x\n", "first entry must be", "w.yaml:1"),
        ("schema: rocktools.workload/1\nname: x\nlayers: 0\ndevices: 1\n", "at least 1, but is 0", "w.yaml:3: layers"),
        ("schema: rocktools.workload/1\nname: x\nlayers: 2\n", "'devices' is missing", "w.yaml:1"),
        (HEAD + "expectations:\n  - {title: t}\n", "it counts nothing", "w.yaml:9: expectations[0]"),
        (HEAD + "expectations:\n  - {title: t, kernel: '('}\n", "no regular expression", "expectations[0].kernel"),
        (HEAD + "expectations:\n  - {title: t, phase: f, times: [heads]}\n", "'heads' is not known", "times[0]"),
        (HEAD + "expectations:\n  - {title: t, phases: f}\n", "unknown key 'phases'", "expectations[0].phases"),
    ],
)
def test_mistakes_are_named_with_their_line(text, what, where):
    with pytest.raises(InputError) as caught:
        parse_workload(text, source="w.yaml")
    assert what in caught.value.what
    assert where in (caught.value.where or "")


def test_more_than_any_job_has_is_refused_before_it_overflows():
    text = "schema: rocktools.workload/1\nname: a\nlayers: 1000000000\nmicrosteps: 1000000000\ndevices: 8\n"
    with pytest.raises(InputError, match="more than 1,000,000,000,000,000 kernels are expected"):
        parse_workload(text, source="w.yaml")


def test_a_file_of_another_version_is_refused(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text(WI_0.replace("workload/1", "workload/2"), encoding="utf-8")
    with pytest.raises(UnsupportedVersion):
        read_workload(path)
    path.write_text(WI_0, encoding="utf-8")
    assert read_workload(path).layers == 56
