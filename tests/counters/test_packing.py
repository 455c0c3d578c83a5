"""Counters into passes: never too much, never more passes than needed, ratio groups whole."""

from __future__ import annotations

import csv
import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter as Count
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.counters.catalog import Block, Catalog, Counter, CounterKind, RatioGroup, load_catalog
from rocktools.counters.expansions import Slot
from rocktools.counters.packing import Packing, check_group, pack_counters
from rocktools.counters.pass_search import capacity_bound, find_passes
from rocktools.errors import UsageError
from rocktools.findings import Severity

CATALOGS = {name: load_catalog(name) for name in ("gfx942", "gfx950")}
GFX950 = CATALOGS["gfx950"]


def _made(
    limits: Mapping[str, int], slots: Mapping[str, Iterable[str] | None], groups: Sequence[Sequence[str]] = ()
) -> Catalog:
    """A catalogue of counters that take the named slots; a slot is in the block that its first letter names."""
    counters = {
        name: Counter(
            name=name,
            kind=CounterKind.DERIVED,
            base=name,
            slots=None if taken is None else frozenset(Slot(slot[0], slot) for slot in taken),
        )
        for name, taken in slots.items()
    }
    return Catalog(
        architecture="made",
        parts=(),
        counters=counters,
        blocks={
            name: Block(name=name, slots_count=count, prefixes=(name,), meaning="a block")
            for name, count in limits.items()
        },
        groups=tuple(RatioGroup(name=f"group{n}", counters=tuple(sorted(group))) for n, group in enumerate(groups)),
        elsewhere={},
    )


def _require_sound(catalog: Catalog, names: Iterable[str], packing: Packing, groups: Iterable[RatioGroup]) -> None:
    """What holds of every packing, seen from the catalogue: capacities, nothing lost or made up, groups whole."""
    asked = set(names)
    assert set().union(*(packed.counters for packed in packing.passes)) == asked
    for packed in packing.passes:
        assert packed.counters
        assert len(set(packed.counters)) == len(packed.counters)
        taken = frozenset().union(*(catalog.require(name).slots or () for name in packed.counters))
        used = Count(slot.block for slot in taken)
        assert {use.block: use.used_count for use in packed.slots} == used
        for use in packed.slots:
            assert use.used_count <= use.limit_count == catalog.blocks[use.block].slots_count
    for group in groups:
        members = {name for name in asked if catalog.require(name).base in group.counters}
        if {catalog.require(name).base for name in members} == set(group.counters):
            holding = [packed for packed in packing.passes if members <= set(packed.counters)]
            assert holding, group
            assert all(group.name in packed.groups for packed in holding)
    assert len(packing.passes) >= packing.least_passes_count


def _raw(block: str, catalog: Catalog = GFX950) -> list[str]:
    """Raw counters of a block that take one slot."""
    of_block = [counter for counter in catalog.counters.values() if counter.block == block]
    return [counter.name for counter in of_block if len(counter.slots or ()) == 1]


def _rules(packing: Packing) -> list[str]:
    return [finding.rule for finding in packing.findings]


# Capacities.


@pytest.mark.parametrize("architecture", list(CATALOGS))
@pytest.mark.parametrize(
    "block, capacity",
    [("SQ", 8), ("TCC", 4), ("TCP", 4), ("TA", 2), ("TD", 2), ("GRBM", 2), ("SPI", 6), ("CPC", 2), ("CPF", 2)],
)
def test_pass_holds_as_many_counters_of_a_block_as_it_has_slots(architecture, block, capacity):
    catalog = CATALOGS[architecture]
    names = _raw(block, catalog)
    full = pack_counters(catalog, names[:capacity], together=())
    assert len(full.passes) == full.least_passes_count == 1
    assert [str(use) for use in full.passes[0].slots] == [f"{block} {capacity}/{capacity}"]
    assert len(pack_counters(catalog, names[: capacity + 1], together=()).passes) == 2


def test_instruction_and_scalar_cache_share_the_slots_of_the_sequencer():
    names = [*[name for name in _raw("SQ") if name.startswith("SQC_")][:5], "SQ_WAVES", "SQ_INSTS", "SQ_ITEMS"]
    assert len(pack_counters(GFX950, names).passes) == 1
    assert len(pack_counters(GFX950, [*names, "SQ_INSTS_LDS"]).passes) == 2


def test_accumulate_takes_two_slots():
    names = ["SQ_LEVEL_WAVES_ACCUM", *_raw("SQ")[:6]]
    assert [str(use) for use in pack_counters(GFX950, names).passes[0].slots] == ["SQ 8/8"]
    assert len(pack_counters(GFX950, [*names, _raw("SQ")[6]]).passes) == 2


def test_sum_and_all_instances_of_a_counter_take_one_slot():
    names = ["TCC_HIT", "TCC_HIT_sum", *(f"TCC_HIT[{n}]" for n in range(128)), "TCC_HIT:device=0"]
    (packed,) = pack_counters(GFX950, names).passes
    assert [str(use) for use in packed.slots] == ["TCC 1/4"]
    assert len(packed.counters) == 131


def test_derived_counter_shares_slots_with_what_it_is_made_of():
    (packed,) = pack_counters(GFX950, ["MfmaUtil", "SQ_VALU_MFMA_BUSY_CYCLES", "VALUBusy", "GRBM_GUI_ACTIVE"]).passes
    assert [str(use) for use in packed.slots] == ["GRBM 1/2", "SQ 2/8"]


def test_derived_counter_is_never_spread_over_passes():
    names = ["FETCH_SIZE", "WRITE_SIZE", "TOTAL_16_OPS", "TOTAL_32_OPS", "TOTAL_64_OPS"]
    packing = pack_counters(GFX950, names)
    _require_sound(GFX950, names, packing, ())
    assert len(packing.passes) == 3  # 6, 6 and 5 slots of SQ: no two fit into 8
    assert packing.least_passes_count == 3


def test_names_given_twice_count_once():
    assert pack_counters(GFX950, ["SQ_WAVES", "SQ_WAVES"]).passes == pack_counters(GFX950, ["SQ_WAVES"]).passes


def test_nothing_asked_for_needs_no_pass():
    packing = pack_counters(GFX950, [])
    assert (packing.passes, packing.least_passes_count, packing.findings) == ((), 0, ())


def test_constants_ride_along():
    packing = pack_counters(GFX950, ["CU_NUM", "SQ_WAVES"])
    assert [packed.counters for packed in packing.passes] == [("CU_NUM", "SQ_WAVES")]


def test_constant_alone_needs_a_run():
    packing = pack_counters(GFX950, ["CU_NUM"])
    assert [(packed.counters, packed.slots) for packed in packing.passes] == [(("CU_NUM",), ())]
    assert packing.least_passes_count == 1


def test_unknown_counter_is_refused():
    with pytest.raises(UsageError, match="no counter 'SQ_WAVE'"):
        pack_counters(GFX950, ["SQ_WAVES", "SQ_WAVE"])


def test_counter_too_big_for_a_pass_is_refused_with_block_and_slots():
    catalog = _made({"A": 2}, {"big": ["A1", "A2", "A3"]})
    with pytest.raises(UsageError) as caught:
        pack_counters(catalog, ["big"])
    assert caught.value.reference == "counter-too-big"
    assert caught.value.what == "big needs 3 slots of A at once, and there are 2"
    assert caught.value.hint == "ask for its parts: A1, A2, A3"


def test_counter_of_unknown_expansion_gets_a_pass_of_its_own_and_a_finding():
    catalog = _made({"A": 2}, {"a": ["A1"], "what": None, "b": ["A2"]})
    packing = pack_counters(catalog, ["what", "a", "b"])
    assert [(packed.counters, packed.is_known) for packed in packing.passes] == [(("a", "b"), True), (("what",), False)]
    assert packing.least_passes_count == 2
    (finding,) = packing.findings
    assert (finding.rule, finding.severity) == ("slots-unknown", Severity.WARNING)
    assert "pmc-check" in finding.advice


# Ratio groups.


def test_hits_stay_with_misses():
    names = ["TCC_ATOMIC_sum", "TCC_BUSY_sum", "TCC_CC_REQ_sum", "TCC_HIT_sum", "TCC_MISS_sum", "TCC_NC_REQ_sum"]
    packing = pack_counters(GFX950, names)
    _require_sound(GFX950, names, packing, GFX950.groups)
    assert len(packing.passes) == 2
    assert [packed.groups for packed in packing.passes if "TCC_HIT_sum" in packed.counters] == [("l2-hit-rate",)]


def test_group_counts_only_if_all_of_it_was_asked_for():
    packing = pack_counters(GFX950, ["TCC_HIT", "SQ_WAVES"])
    assert [packed.groups for packed in packing.passes] == [()]


def test_cycles_are_read_in_every_pass_whose_shares_need_them():
    shares = [name for name in _raw("SQ") if name.startswith("SQ_ACTIVE_INST_")]
    names = [*shares, "SQ_BUSY_CU_CYCLES", "SQ_WAVE_CYCLES", "SQ_LDS_IDX_ACTIVE", "GRBM_GUI_ACTIVE"]
    packing = pack_counters(GFX950, names)
    _require_sound(GFX950, names, packing, GFX950.groups)
    assert len(packing.passes) == packing.least_passes_count == 2
    assert all("GRBM_GUI_ACTIVE" in packed.counters for packed in packing.passes)


def test_more_passes_for_a_ratio_group_are_explained():
    """Seven stalls beside TCC_BUSY: three a pass, so TCC_BUSY is read three times and 8 counters take 10 slots."""
    (stalls,) = [[g.counters for g in GFX950.groups if g.name.startswith("l2-stalls/")]]
    names = sorted({name for pair in stalls[:7] for name in pair})
    assert len(names) == 8
    packing = pack_counters(GFX950, names)
    _require_sound(GFX950, names, packing, GFX950.groups)
    assert (len(packing.passes), packing.least_passes_count, packing.is_least) == (3, 2, True)
    (finding,) = packing.findings
    assert (finding.rule, finding.severity) == ("more-passes-than-capacity", Severity.NOTE)
    assert finding.message == (
        "3 passes where the capacities alone would allow 2: ratio groups kept whole take 1 more "
        "(read in more than one pass: TCC_BUSY)"
    )
    assert finding.numbers == {"passes_count": 3, "least_passes_count": 2}
    assert len(pack_counters(GFX950, names, together=()).passes) == 2


def test_more_passes_for_counters_of_several_slots_are_explained():
    catalog = _made({"A": 3}, {"a": ["A1", "A2"], "b": ["A3", "A4"], "c": ["A5", "A6"]})
    packing = pack_counters(catalog, ["a", "b", "c"])
    assert (len(packing.passes), packing.least_passes_count) == (3, 2)
    (finding,) = packing.findings
    assert "counters that need several slots at once take 1 more" in finding.message


def test_ratio_group_too_big_for_a_pass_is_split_with_a_finding():
    catalog = _made({"A": 2}, {"a": ["A1"], "b": ["A2"], "c": ["A3"]}, [["a", "b", "c"]])
    packing = pack_counters(catalog, ["a", "b", "c"])
    assert len(packing.passes) == 2
    assert all(not packed.groups for packed in packing.passes)
    (finding,) = packing.findings
    assert (finding.rule, finding.severity) == ("ratio-group-split", Severity.WARNING)
    assert finding.numbers == {"need_count": 3, "have_count": 2}
    assert "(a, b, c) need 3 slots of A and one pass has 2" in finding.message


def test_groups_of_the_caller_replace_those_of_the_catalogue():
    wanted = RatioGroup(name="mine", counters=("SQ_INSTS", "SQ_WAVES"))
    names = [*_raw("SQ")[:7], "SQ_WAVES", "SQ_INSTS", "TCC_HIT", "TCC_MISS"]
    packing = pack_counters(GFX950, names, together=[wanted])
    assert {name for packed in packing.passes for name in packed.groups} == {"mine"}
    _require_sound(GFX950, names, packing, [wanted])


# Doubts.


def test_level_without_its_accumulation_is_warned_about():
    (finding,) = pack_counters(GFX950, ["SQ_LEVEL_WAVES"]).findings
    assert (finding.rule, finding.severity) == ("level-not-accumulated", Severity.WARNING)
    assert finding.advice == "ask for MeanOccupancyPerActiveCU or MeanOccupancyPerCU"
    assert _rules(pack_counters(GFX950, ["SQ_LEVEL_WAVES", "MeanOccupancyPerCU"])) == []


def test_accumulator_under_its_own_name_is_warned_about():
    assert "accumulator-by-hand" in _rules(pack_counters(GFX950, ["SQ_ACCUM_PREV_HIRES", "SQ_WAVES"]))


def test_counters_that_rocprofv3_does_not_list_are_warned_about():
    packing = pack_counters(GFX950, ["TCC_HIT[0]", "TCC_HIT[1]", "SQ_LEVEL_WAVES_ACCUM"])
    (finding,) = packing.findings
    assert finding.rule == "counter-not-built-in"
    assert "SQ_LEVEL_WAVES_ACCUM, TCC_HIT[0], TCC_HIT[1]" in finding.message
    assert finding.numbers == {"counters_count": 3}


# Groups of the user's own.


def test_pass_of_the_user_that_fits_has_no_findings():
    assert check_group(GFX950, [*_raw("TCC")[:4], *_raw("SPI")[:6], "TCC_ATOMIC_sum"]) == []


def test_pass_of_the_user_that_does_not_fit_is_a_fault_per_block():
    names = ["MeanOccupancyPerCU", *_raw("SQ")[:7], *_raw("TCC")[:5], "SQ_WAVES", "SQ_WAVES"]
    first, second = check_group(GFX950, names)
    assert {first.rule, second.rule} == {"pass-too-big"}
    assert {first.severity, second.severity} == {Severity.FAULT}
    assert (first.where, first.numbers) == ("gfx950 SQ", {"need_count": 10, "have_count": 8})
    assert (second.where, second.numbers) == ("gfx950 TCC", {"need_count": 5, "have_count": 4})
    assert first.message.startswith("SQ can count 8 events at once, this pass needs 10: MeanOccupancyPerCU, ")
    assert first.message.endswith(" and 3 more")


def test_pass_of_the_user_with_an_unknown_counter_is_refused():
    with pytest.raises(UsageError, match="no counter 'NOPE'"):
        check_group(GFX950, ["NOPE"])


def test_pass_of_the_user_with_an_unknown_expansion_is_warned_about():
    assert [finding.rule for finding in check_group(_made({"A": 1}, {"what": None}), ["what"])] == ["slots-unknown"]


@pytest.mark.parametrize("architecture", list(CATALOGS))
def test_packed_passes_stand_the_check_of_the_users_own(architecture):
    catalog = CATALOGS[architecture]
    for packed in pack_counters(catalog, catalog.counters).passes:
        assert "pass-too-big" not in [finding.rule for finding in check_group(catalog, packed.counters)]


# Properties.

_names_of_made = st.sets(st.sampled_from(["A1", "A2", "A3", "A4", "B1", "B2", "B3"]), min_size=1, max_size=4)


@st.composite
def _instances(draw: st.DrawFn) -> Catalog:
    """A small catalogue whose counters all fit; groups of any size."""
    limits = {"A": draw(st.integers(1, 3)), "B": draw(st.integers(1, 2))}
    taken = draw(st.lists(_names_of_made, min_size=1, max_size=5))
    fitting = [
        slots for slots in taken if all(sum(s[0] == block for s in slots) <= limit for block, limit in limits.items())
    ]
    slots = {f"c{number}": names for number, names in enumerate(fitting)}
    if len(slots) < 2:
        return _made(limits, slots)
    groups = st.lists(st.sets(st.sampled_from(sorted(slots)), min_size=2, max_size=3), max_size=3)
    return _made(limits, slots, [sorted(group) for group in draw(groups)])


def _fits(catalog: Catalog, slots: Iterable[Slot]) -> bool:
    used = Count(slot.block for slot in slots)
    return all(count <= catalog.blocks[block].slots_count for block, count in used.items())


def _whole(catalog: Catalog, group: RatioGroup) -> frozenset[Slot]:
    return frozenset().union(*(catalog.counters[name].slots or () for name in group.counters))


def _fewest_passes(catalog: Catalog, groups: Iterable[RatioGroup]) -> int:
    """By trying every way to share out counters and groups over passes."""
    needs = [
        *(counter.slots or frozenset() for counter in catalog.counters.values()),
        *(_whole(catalog, group) for group in groups),
    ]

    def best(passes: tuple[frozenset[Slot], ...], rest: Sequence[frozenset[Slot]]) -> int:
        if not rest:
            return len(passes)
        need, *others = rest
        counts = [best((*passes, need), others)]
        for number, taken in enumerate(passes):
            if _fits(catalog, taken | need):
                counts.append(best((*passes[:number], taken | need, *passes[number + 1 :]), others))
        return min(counts)

    return best((), needs)


@settings(max_examples=300)
@given(_instances())
def test_passes_are_as_few_as_brute_force_finds(catalog):
    packing = pack_counters(catalog, catalog.counters)
    fitting = [group for group in catalog.groups if _fits(catalog, _whole(catalog, group))]
    _require_sound(catalog, catalog.counters, packing, fitting)
    assert _rules(packing).count("ratio-group-split") == len(catalog.groups) - len(fitting)
    assert len(packing.passes) == _fewest_passes(catalog, fitting)
    assert packing.is_least


@settings(max_examples=100)
@given(st.sets(st.sampled_from(sorted({name for block in GFX950.blocks for name in _raw(block)})), max_size=80))
def test_without_groups_the_bound_of_the_capacities_is_reached(names):
    packing = pack_counters(GFX950, names, together=())
    _require_sound(GFX950, names, packing, ())
    slots = Count(GFX950.counters[name].block for name in names)
    bound = max((-(-count // GFX950.blocks[block].slots_count) for block, count in slots.items()), default=0)
    assert len(packing.passes) == packing.least_passes_count == bound
    assert all(len(set(packed.counters)) == len(packed.counters) for packed in packing.passes)
    assert sum(len(packed.counters) for packed in packing.passes) == len(names)  # none is read twice


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(CATALOGS)).flatmap(
        lambda name: st.tuples(st.just(name), st.sets(st.sampled_from(sorted(CATALOGS[name].counters)), max_size=120))
    )
)
def test_any_counters_are_packed_soundly_with_their_groups(case):
    architecture, names = case
    catalog = CATALOGS[architecture]
    _require_sound(catalog, names, pack_counters(catalog, names), catalog.groups)


@settings(max_examples=60)
@given(st.sets(st.sampled_from(sorted(GFX950.counters)), max_size=60), st.randoms(use_true_random=False))
def test_order_of_the_names_does_not_matter(names, chance):
    shuffled = sorted(names)
    chance.shuffle(shuffled)
    assert pack_counters(GFX950, shuffled) == pack_counters(GFX950, sorted(names))


def test_order_of_the_groups_does_not_matter():
    names = list(GFX950.counters)
    groups = list(GFX950.groups)
    random.Random(1).shuffle(groups)
    assert pack_counters(GFX950, names, together=groups) == pack_counters(GFX950, names)


def test_hash_seed_does_not_matter():
    script = (
        "from rocktools.counters.catalog import load_catalog\n"
        "from rocktools.counters.packing import pack_counters\n"
        "catalog = load_catalog('gfx950')\n"
        "print(pack_counters(catalog, set(catalog.counters)))\n"
    )
    answers = set()
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        answers.add(re.sub(r"frozenset\(.*?\)", "", ran.stdout))
    assert len(answers) == 1
    assert "PackedPass" in answers.pop()


def test_search_gives_up_after_its_steps_and_says_so():
    """All pairs of nine slots in passes of three: 12 triangles would do, and are not the first thing one tries."""
    needs = [frozenset({Slot("A", a), Slot("A", b)}) for a, b in itertools.combinations("123456789", 2)]
    plan = find_passes(needs, {"A": 3}, steps=1)
    assert not plan.is_least
    assert all(any(need <= taken for taken in plan.passes) for need in needs)
    assert all(len(taken) <= 3 for taken in plan.passes)
    assert len(plan.passes) > 12 > capacity_bound(needs, {"A": 3}) == 3


# Real pass files of rocprof-compute.

WORKLOADS = {
    "dispatch_0-MI300A": "gfx942",
    "vcopy-MI300X-rocpd": "gfx942",
    "ipblocks_TCC-MI300X": "gfx942",
    "vcopy-MI350": "gfx950",
}


def _pass_files(shared: Path, workload: str) -> list[list[str]]:
    """The counters of each pass that rocprof-compute planned; passes without counters left out."""
    passes = []
    for path in sorted((shared / "data/counters/workloads" / workload / "perfmon").glob("*.txt")):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("pmc:")]
        passes.append([name for line in lines for name in line.removeprefix("pmc:").split()])
    return [names for names in passes if names]


def _require_capacity_by_names(shared: Path, architecture: str, packing: Packing) -> None:
    """Capacities once more, from the vendor's list and the names alone."""
    limits = {"SQ": 8, "TCC": 4, "TCP": 4, "TA": 2, "TD": 2, "GRBM": 2, "SPI": 6, "CPC": 2, "CPF": 2}
    with (shared / "data/counters/counter_names.csv").open(encoding="utf-8", newline="") as stream:
        block_of = {row["counter"]: row["block"] for row in csv.DictReader(stream) if row["arch"] == architecture}
    for packed in packing.passes:
        stems = {re.sub(r"(_sum|_ACCUM)?(\[\d+\])?$", "", name) for name in packed.counters}
        used = Count(block_of[stem] for stem in stems)
        used["SQ"] += sum(bool(re.match(r"SQ_(LEVEL_WAVES|INST_LEVEL_|IFETCH_LEVEL)", stem)) for stem in stems)
        assert all(count <= limits[block] for block, count in used.items()), packed


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_real_passes_were_within_the_capacities(workload, shared):
    for names in _pass_files(shared, workload):
        findings = check_group(CATALOGS[WORKLOADS[workload]], names)
        assert "pass-too-big" not in [finding.rule for finding in findings], names


@pytest.mark.parametrize(
    "workload, used_count, together, passes_count",
    [
        ("dispatch_0-MI300A", 23, None, 14),
        ("dispatch_0-MI300A", 23, (), 14),
        ("vcopy-MI300X-rocpd", 12, None, 12),
        ("vcopy-MI300X-rocpd", 12, (), 12),
        ("vcopy-MI350", 13, None, 13),
        ("vcopy-MI350", 13, (), 13),
        ("ipblocks_TCC-MI300X", 9, (), 9),
        # 36 counters of TCC fill 9 passes to the last slot, and TCC_BUSY, RDREQ and WRREQ have to be read twice.
        ("ipblocks_TCC-MI300X", 9, None, 10),
    ],
)
def test_counters_of_a_real_workload_take_no_more_passes(workload, used_count, together, passes_count, shared):
    catalog = CATALOGS[WORKLOADS[workload]]
    files = _pass_files(shared, workload)
    assert len(files) == used_count
    names = {name for file in files for name in file}
    packing = pack_counters(catalog, names, together=together)
    _require_sound(catalog, names, packing, catalog.groups if together is None else together)
    _require_capacity_by_names(shared, catalog.architecture, packing)
    assert (len(packing.passes), packing.is_least) == (passes_count, True)
    assert packing.least_passes_count == len(pack_counters(catalog, names, together=()).passes)


@pytest.mark.parametrize("architecture", list(CATALOGS))
def test_counters_of_all_real_workloads_take_no_more_passes(architecture, shared):
    catalog = CATALOGS[architecture]
    files = [
        file
        for workload, theirs in WORKLOADS.items()
        if theirs == architecture
        for file in _pass_files(shared, workload)
    ]
    names = {name for file in files for name in file}
    packing = pack_counters(catalog, names)
    _require_sound(catalog, names, packing, catalog.groups)
    _require_capacity_by_names(shared, architecture, packing)
    assert len(packing.passes) == packing.least_passes_count <= len(files)
