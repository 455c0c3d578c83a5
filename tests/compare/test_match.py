"""Operations find each other although the compiler renumbered them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from summary_documents import any_record

from rocktools.compare.match import match_operations
from rocktools.summary.document import Operation


def _operation(name: str, **given_: Any) -> Operation:
    fields = {
        "name": name,
        "instruction": name,
        "fingerprint": None,
        "scope": "mlp/wi_0",
        "phase": "forward",
        "opcode": "fusion",
        "shape": "bf16[8]",
        "activity": "compute",
        "component": "mlp",
    }
    return any_record(Operation, Random(0), **{**fields, **given_})


def _pairs(before: list[Operation], after: list[Operation]) -> set[tuple[str | None, str | None, str]]:
    return {
        (pair.before and pair.before.name, pair.after and pair.after.name, pair.method)
        for pair in match_operations(before, after)
    }


def test_renumbered_fusions_match_by_what_they_compute():
    before = [_operation("fusion.1", fingerprint="aa"), _operation("fusion.2", fingerprint="bb")]
    after = [_operation("fusion.1", fingerprint="bb"), _operation("fusion.9", fingerprint="aa")]
    assert _pairs(before, after) == {("fusion.1", "fusion.9", "fingerprint"), ("fusion.2", "fusion.1", "fingerprint")}


def test_a_changed_computation_in_the_same_place_matches_by_place():
    before, after = [_operation("fusion.1", fingerprint="aa")], [_operation("fusion.7", fingerprint="cc")]
    assert _pairs(before, after) == {("fusion.1", "fusion.7", "scope")}


def test_unrolled_layers_pair_up_in_order_and_an_odd_number_does_not():
    layers = [_operation(f"fusion.{n}", fingerprint="aa") for n in range(3)]
    others = [_operation(f"fusion.{n}", fingerprint="aa") for n in range(10, 13)]
    assert _pairs(layers, others) == {(f"fusion.{n}", f"fusion.{n + 10}", "fingerprint") for n in range(3)}
    found = _pairs(layers, others[:2])
    assert ("fusion.0", "fusion.10", "fingerprint") not in found


def test_a_name_alone_does_not_join_components():
    before = [_operation("fusion.3", fingerprint="aa", scope="mlp", opcode="fusion", component="mlp")]
    after = [_operation("fusion.3", fingerprint="bb", scope="attention", opcode="fusion", component="attention")]
    assert _pairs(before, after) == {("fusion.3", None, ""), (None, "fusion.3", "")}
    moved = [_operation("fusion.3", fingerprint="bb", scope="mlp/new", opcode="fusion", component="mlp")]
    assert _pairs(before, moved) == {("fusion.3", "fusion.3", "name")}


def test_kernels_without_an_instruction_match_by_name():
    one = _operation("Cijk_gemm", instruction=None, scope=None, opcode=None)
    assert _pairs([one], [one]) == {("Cijk_gemm", "Cijk_gemm", "kernel")}


def test_what_is_nowhere_else_stands_alone():
    before = [_operation("a", fingerprint="1", scope="x", opcode="dot")]
    after = [_operation("b", fingerprint="2", scope="y", opcode="copy")]
    assert _pairs(before, after) == {("a", None, ""), (None, "b", "")}


_SOME = st.builds(
    lambda name, fingerprint, scope: _operation(name, fingerprint=fingerprint, scope=scope),
    st.sampled_from(["f.1", "f.2", "f.3"]),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["s", "t", None]),
)


@given(st.lists(_SOME, max_size=6), st.lists(_SOME, max_size=6))
def test_every_operation_is_in_exactly_one_pair(before, after):
    pairs = match_operations(before, after)
    assert sorted(id(pair.before) for pair in pairs if pair.before) == sorted(map(id, before))
    assert sorted(id(pair.after) for pair in pairs if pair.after) == sorted(map(id, after))
    assert all((pair.method == "") == (pair.before is None or pair.after is None) for pair in pairs)
