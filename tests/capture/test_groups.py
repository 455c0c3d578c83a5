"""Groups that the tool confirms, splits or refuses, and tools that do not work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import rules

from rocktools.capture import groups as groups_module
from rocktools.capture.groups import confirm_groups
from rocktools.errors import CaptureError
from rocktools.findings import Severity
from rocktools.process import ToolOutput

GROUPS = (("SQ_WAVES", "SQ_BUSY_CYCLES", "TCC_HIT", "TCC_MISS"), ("GRBM_COUNT",))

# Accepts by rules of its own: at most MOST counters together, none of BAD, none of UNKNOWN. Writes down its calls.
SCRIPT = f"""#!{sys.executable}
import os, sys, time
at = sys.argv.index("pmc-check")
before, counters = sys.argv[1:at], sys.argv[at + 1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
calls_count = len(open(os.environ["CALLS"]).readlines())
behaviour = os.environ.get("BEHAVIOUR", "")
if behaviour and calls_count >= int(os.environ.get("FROM_CALL", "1")):
    if behaviour == "crash":
        os.abort()
    if behaviour == "hang":
        time.sleep(60)
    if behaviour == "traceback":
        sys.exit("Traceback (most recent call last):\\n  ...\\nOSError: librocprofv3-list-avail.so: cannot open")
    if behaviour == "usage":
        print("usage: rocprofv3-avail [-h]\\nrocprofv3-avail: error: unrecognized arguments", file=sys.stderr)
        sys.exit(2)
    if behaviour == "no-device":
        sys.exit("Fatal error: Invalid device id : 7")
    if behaviour == "silent":
        sys.exit(1)
if set(counters) & set(os.environ.get("UNKNOWN", "").split()):
    sys.exit("Fatal error: Invalid counter name")
if len(counters) > int(os.environ.get("MOST", "99")) or set(counters) & set(os.environ.get("BAD", "").split()):
    sys.exit("Fatal error: " + " ".join(counters) + " not collected on agent gfx950")
print("Following input counters can be collected together on GPU:0\\t" + "\\t".join(counters))
"""


@pytest.fixture
def avail(tmp_path) -> Path:
    path = tmp_path / "rocprofv3-avail"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


def environment_of(avail: Path, **variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "CALLS": str(avail.parent / "calls"), **variables}


def calls_of(avail: Path) -> list[str]:
    return (avail.parent / "calls").read_text().splitlines()


def test_without_a_tool_the_table_has_to_do():
    confirmed = confirm_groups([list(group) for group in GROUPS], avail=None, device=0, environment={})
    assert confirmed.groups == GROUPS
    assert confirmed.confirmed_by == "table"
    assert confirmed.findings == ()


def test_groups_that_are_accepted_stay_as_they_are_with_one_question_each(avail):
    confirmed = confirm_groups(GROUPS, avail=avail, device=3, environment=environment_of(avail))
    assert confirmed.groups == GROUPS
    assert confirmed.confirmed_by == "rocprofv3-avail pmc-check"
    assert confirmed.findings == ()
    assert calls_of(avail) == [f"-d 3 pmc-check {' '.join(group)}" for group in GROUPS]


def test_a_refused_group_is_halved_and_a_warning_says_so(avail):
    confirmed = confirm_groups(GROUPS, avail=avail, device=0, environment=environment_of(avail, MOST="2"))
    assert confirmed.groups == (("SQ_WAVES", "SQ_BUSY_CYCLES"), ("TCC_HIT", "TCC_MISS"), ("GRBM_COUNT",))
    assert confirmed.confirmed_by == "rocprofv3-avail pmc-check"
    [finding] = confirmed.findings
    assert (finding.rule, finding.severity) == ("group-refused-by-tool", Severity.WARNING)
    assert finding.numbers == {"passes_count": 2}
    assert "SQ_WAVES, SQ_BUSY_CYCLES, TCC_HIT, TCC_MISS" in finding.message


def test_a_counter_that_is_refused_alone_cannot_be_collected(avail):
    with pytest.raises(CaptureError, match="counter-refused-by-tool") as caught:
        confirm_groups(GROUPS, avail=avail, device=2, environment=environment_of(avail, BAD="TCC_MISS"))
    assert "TCC_MISS on device 2" in caught.value.what
    assert "--device" in (caught.value.hint or "")


def test_a_counter_that_is_not_known_is_found_by_halving(avail):
    with pytest.raises(CaptureError, match="counter-refused-by-tool") as caught:
        confirm_groups(GROUPS, avail=avail, device=0, environment=environment_of(avail, UNKNOWN="SQ_BUSY_CYCLES"))
    assert "SQ_BUSY_CYCLES" in caught.value.what


def test_a_counter_of_a_device_that_is_not_there_is_refused(avail):
    environment = environment_of(avail, BEHAVIOUR="no-device", FROM_CALL="1")
    with pytest.raises(CaptureError, match="counter-refused-by-tool"):
        confirm_groups([("SQ_WAVES:device=7",)], avail=avail, device=0, environment=environment)


BROKEN = (
    ("crash", "code 134"),
    ("traceback", "librocprofv3-list-avail.so: cannot open"),
    ("usage", "code 2"),
    ("no-device", "Invalid device id : 7"),
    ("silent", "code 1: without a word"),
)


@pytest.mark.parametrize(
    "behaviour, said, from_call",
    [*((*case, call) for case in BROKEN for call in ("1", "3")), ("hang", "gave no answer within 1 s", "1")],
)
def test_a_tool_that_does_not_work_leaves_the_table_and_a_warning(avail, monkeypatch, behaviour, said, from_call):
    """From the third call on it is in the midst of halving: that is no refusal of a counter."""
    if behaviour == "hang":
        monkeypatch.setattr(groups_module, "_CHECK_TIMEOUT_S", 1)
    environment = environment_of(avail, BEHAVIOUR=behaviour, FROM_CALL=from_call, MOST="1")
    confirmed = confirm_groups(GROUPS, avail=avail, device=0, environment=environment)
    assert confirmed.groups == GROUPS
    assert confirmed.confirmed_by == "table"
    [finding] = confirmed.findings
    assert (finding.rule, finding.severity) == ("pmc-check-unusable", Severity.WARNING)
    assert said in finding.message
    assert behaviour == "hang" or len(calls_of(avail)) == int(from_call)


@pytest.mark.parametrize("kind", ["missing", "no program", "a folder"])
def test_a_tool_that_cannot_be_started_leaves_the_table_and_a_warning(tmp_path, kind):
    avail = tmp_path / "rocprofv3-avail"
    if kind == "no program":
        avail.write_text("text")
    elif kind == "a folder":
        avail.mkdir()
    confirmed = confirm_groups(GROUPS, avail=avail, device=0, environment={"PATH": os.environ["PATH"]})
    assert confirmed.groups == GROUPS
    assert confirmed.confirmed_by == "table"
    assert rules(confirmed.findings) == ["pmc-check-unusable"]


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    most=st.integers(1, 9),
)
def test_every_counter_ends_in_one_accepted_group_in_the_old_order(sizes, most):
    """Without processes: a tool that accepts up to `most` counters together."""
    names = iter(f"C{number}" for number in range(40))
    groups = [tuple(next(names) for _ in range(size)) for size in sizes]

    def answer(argv, **_) -> ToolOutput:
        counters = argv[argv.index("pmc-check") + 1 :]
        is_refused = len(counters) > most
        text = "Fatal error: not collected on agent gfx950" if is_refused else ""
        return ToolOutput(argv=tuple(argv), exit_code=int(is_refused), stdout="", stderr=text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups_module, "read_output", answer)
        confirmed = confirm_groups(groups, avail=Path("avail"), device=0, environment={})
    assert [name for group in confirmed.groups for name in group] == [name for group in groups for name in group]
    assert all(1 <= len(group) <= most for group in confirmed.groups)
    assert [group for group in groups if len(group) <= most] == [group for group in confirmed.groups if group in groups]
    assert len(confirmed.findings) == sum(size > most for size in sizes)
