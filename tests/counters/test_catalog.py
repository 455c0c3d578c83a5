"""The catalogue: data files against their schemas, each other and the vendor's list; names as users write them."""

from __future__ import annotations

import csv
import json
from collections import Counter as Count
from pathlib import Path

import jsonschema
import pytest
import yaml

from rocktools.assets import find_asset_folder
from rocktools.counters.catalog import Catalog, CounterKind, architectures, load_catalog
from rocktools.errors import UsageError

FOLDER = find_asset_folder("counters")
YAMLS = ("blocks", "expansions", "together")


def _facts(name: str):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module", params=["gfx942", "gfx950"])
def catalog(request) -> Catalog:
    return load_catalog(request.param)


@pytest.fixture(scope="module")
def gfx950() -> Catalog:
    return load_catalog("gfx950")


# The files.


@pytest.mark.parametrize("name", YAMLS)
def test_file_keeps_its_schema(name):
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(_facts(name))


@pytest.mark.parametrize(
    "name, mistake",
    [
        ("blocks", lambda facts: facts["blocks"][0].pop("slots")),
        ("blocks", lambda facts: facts["blocks"][0].update(slots=0)),
        ("blocks", lambda facts: facts["sources"].clear()),
        ("expansions", lambda facts: facts["derived"][0].update(counter=["SQ_WAVES"])),
        ("expansions", lambda facts: facts["derived"][0].update(own_slots={})),
        ("together", lambda facts: facts["groups"][0].pop("reason")),
        ("together", lambda facts: facts["groups"][0].update(counters=["TCC_HIT"])),
    ],
)
def test_schema_refuses_a_mistake(name, mistake):
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    facts = _facts(name)
    mistake(facts)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(facts)


def test_names_are_sorted_and_given_once_per_architecture():
    rows = _rows(FOLDER / "catalog.csv")
    assert rows == sorted(rows, key=lambda row: (row["counter"], row["architectures"]))
    uses = Count((row["counter"], name) for row in rows for name in row["architectures"].split())
    assert max(uses.values()) == 1
    assert {name for _, name in uses} == set(architectures())


def test_equal_lines_of_two_architectures_are_one_line():
    bodies = [(row["counter"], row["kind"], row["block"], row["event"]) for row in _rows(FOLDER / "catalog.csv")]
    assert len(set(bodies)) == len(bodies)


def test_raw_counters_have_a_known_block_and_an_event_and_derived_ones_have_neither(catalog):
    for counter in catalog.counters.values():
        if counter.kind is CounterKind.RAW:
            block = catalog.blocks[counter.block]
            assert counter.name.split("_")[0] in block.prefixes
            assert counter.event is not None
        else:
            assert (counter.block, counter.event) == ("", None)


def test_every_block_has_counters(catalog):
    assert {counter.block for counter in catalog.counters.values()} - {""} == set(catalog.blocks)


def test_every_derived_counter_has_a_known_expansion_that_fits_into_a_pass(catalog):
    for counter in catalog.counters.values():
        assert counter.slots is not None, counter.name
        blocks = Count(slot.block for slot in counter.slots)
        assert all(count <= catalog.blocks[block].slots_count for block, count in blocks.items()), counter.name


def test_expansions_name_counters_that_exist_and_need_to_be_listed(catalog):
    raw = {counter.name for counter in catalog.counters.values() if counter.kind is CounterKind.RAW}
    facts = _facts("expansions")
    assert set(facts["levels"]["counters"]) <= raw
    assert set(facts["accumulators"]) <= raw
    listed: Count[str] = Count()
    for entry in facts["derived"]:
        if catalog.architecture not in entry.get("architectures", [catalog.architecture]):
            continue
        listed.update(entry["names"])
        behind = {*entry["counters"], *entry.get("accumulates", []), *entry.get("accumulates_low", [])}
        assert behind <= raw, entry["names"]
        assert set(entry.get("own_slots", {})) <= set(catalog.blocks)
        for name in entry["names"]:
            assert catalog.counters[name].kind is CounterKind.DERIVED
            assert name[:-4] not in raw, f"{name} follows from its name"
    assert max(listed.values()) == 1


def test_every_level_has_a_derived_counter_that_accumulates_it(catalog):
    assert all(catalog.accumulated_by(level) for level in catalog.levels)


def test_ratio_groups_name_raw_counters_fit_into_a_pass_and_have_different_names(catalog):
    assert len({group.name for group in catalog.groups}) == len(catalog.groups)
    for group in catalog.groups:
        assert len(group.counters) >= 2
        assert group.reason
        members = [catalog.counters[name] for name in group.counters]
        assert {counter.kind for counter in members} == {CounterKind.RAW}
        blocks = Count(slot.block for slot in frozenset().union(*(counter.slots or () for counter in members)))
        assert all(count <= catalog.blocks[block].slots_count for block, count in blocks.items()), group.name


def test_no_two_ratio_groups_are_the_same(catalog):
    assert len({group.counters for group in catalog.groups}) == len(catalog.groups)


def test_members_of_each_exist_on_some_architecture():
    known = set().union(*(load_catalog(name).counters for name in architectures()))
    for entry in _facts("together")["groups"]:
        assert set(entry.get("each", [])) <= known


CAPACITIES = {
    "SQ": 8, "TCC": 4, "TCP": 4, "TA": 2, "TD": 2, "GRBM": 2, "SPI": 6, "CPC": 2, "CPF": 2, "TCA": 4,
}  # fmt: skip


def test_capacities_are_those_of_the_hardware_description(catalog):
    assert {block.name: block.slots_count for block in catalog.blocks.values()} == CAPACITIES


def test_names_blocks_and_events_are_those_of_the_vendor(catalog, shared):
    rows = _rows(shared / "data/counters/counter_names.csv")
    theirs = {
        row["counter"]: (row["kind"], row["block"], row["event"]) for row in rows if row["arch"] == catalog.architecture
    }
    ours = {
        counter.name: (str(counter.kind), counter.block, "" if counter.event is None else str(counter.event))
        for counter in catalog.counters.values()
    }
    assert ours == theirs


# Names.


@pytest.mark.parametrize(
    "name, kind, base, instance, device",
    [
        ("TCC_HIT", CounterKind.RAW, "TCC_HIT", None, None),
        ("TCC_HIT_sum", CounterKind.DERIVED, "TCC_HIT", None, None),
        ("TCC_HIT[3]", CounterKind.DEFINED, "TCC_HIT", 3, None),
        ("TCC_HIT[127]", CounterKind.DEFINED, "TCC_HIT", 127, None),
        ("TCC_HIT:device=0", CounterKind.RAW, "TCC_HIT", None, 0),
        ("TCC_HIT[3]:device=12", CounterKind.DEFINED, "TCC_HIT", 3, 12),
        ("TCC_HIT_sum:device=1", CounterKind.DERIVED, "TCC_HIT", None, 1),
        ("TCC_BUSY_avr", CounterKind.DERIVED, "TCC_BUSY", None, None),
        ("TA_BUSY_max", CounterKind.DERIVED, "TA_TA_BUSY", None, None),
        ("TCC_WRREQ_STALL_max", CounterKind.DERIVED, "TCC_EA0_WRREQ_STALL", None, None),
        ("VALUBusy", CounterKind.DERIVED, "", None, None),
        ("SQ_LEVEL_WAVES_ACCUM", CounterKind.DEFINED, "SQ_LEVEL_WAVES", None, None),
        ("SQ_LEVEL_WAVES_ACCUM:device=2", CounterKind.DEFINED, "SQ_LEVEL_WAVES", None, 2),
    ],
)
def test_name_in_every_form(name, kind, base, instance, device, catalog):
    counter = catalog.require(name)
    assert (counter.name, counter.kind, counter.base) == (name, kind, base)
    assert (counter.instance, counter.device) == (instance, device)


@pytest.mark.parametrize("name", ["TCC_HIT_sum", "TCC_HIT[0]", "TCC_HIT[5]", "TCC_HIT:device=3"])
def test_forms_of_one_counter_share_its_slot(name, catalog):
    assert catalog.require(name).slots == catalog.require("TCC_HIT").slots
    assert len(catalog.require(name).slots) == 1


@pytest.mark.parametrize(
    "name, blocks",
    [
        ("SQ_WAVES", {"SQ": 1}),
        ("SQC_DCACHE_REQ", {"SQ": 1}),
        ("TCC_EA0_RDREQ_LEVEL", {"TCC": 1}),  # a level of TCC counts by itself
        ("SQ_LEVEL_WAVES", {"SQ": 2}),
        ("SQ_LEVEL_WAVES_ACCUM", {"SQ": 2}),
        ("SQ_INST_LEVEL_LDS_ACCUM", {"SQ": 2}),
        ("MeanOccupancyPerCU", {"SQ": 2, "GRBM": 1}),
        ("MeanOccupancyPerActiveCU", {"SQ": 3}),
        ("InstrFetchLatency", {"SQ": 3}),
        ("OccupancyPercent", {"SQ": 1, "GRBM": 1}),
        ("FETCH_SIZE", {"TCC": 3}),
        ("FetchSize", {"TCC": 3}),
        ("WRITE_SIZE", {"TCC": 2}),
        ("BANDWIDTH_EA", {"TCC": 4, "GRBM": 1}),
        ("TOTAL_16_OPS", {"SQ": 6}),
        ("RDC_OPS_64_PER_SIMDCYCLE", {"SQ": 5, "GRBM": 1}),
        ("VFetchInsts", {"SQ": 2, "TA": 1}),
        ("CU_NUM", {}),
    ],
)
def test_slots_that_a_counter_takes(name, blocks, catalog):
    assert Count(slot.block for slot in catalog.require(name).slots) == blocks


def test_two_accumulations_of_one_level_do_not_share_its_register(catalog):
    """Each accumulator adds up the register before it: with HIGH_RES and LOW_RES the level is programmed twice."""
    both = catalog.require("MeanOccupancyPerCU").slots | catalog.require("MeanOccupancyPerActiveCU").slots
    assert Count(slot.block for slot in both)["SQ"] == 5  # two levels, two accumulators, SQ_BUSY_CU_CYCLES


def test_level_and_its_accumulation_share_both_registers(catalog):
    assert catalog.require("SQ_LEVEL_WAVES").slots == catalog.require("SQ_LEVEL_WAVES_ACCUM").slots


def test_event_number_is_that_of_the_architecture():
    assert load_catalog("gfx942").require("SQ_ACCUM_PREV_HIRES").event == 184
    assert load_catalog("gfx950").require("SQ_ACCUM_PREV_HIRES").event == 200


@pytest.mark.parametrize(
    "name, near",
    [("SQ_WAVE", "SQ_WAVES"), ("tcc_hit_SUM", "TCC_HIT_sum"), ("TCC_HITS[3]", "TCC_HIT"), ("TCC_HIT_avr", "TCC_HIT")],
)
def test_unknown_name_lists_near_ones(name, near, gfx950):
    with pytest.raises(UsageError) as caught:
        gfx950.require(name)
    assert caught.value.reference == "unknown-counter"
    assert caught.value.what == f"gfx950 has no counter {name!r}"
    assert near in caught.value.hint.split(", ")


@pytest.mark.parametrize("name", ["", " ", "TCC_HIT[", "TCC_HIT[-1]", "TCC_HIT[a]", "TCC_HIT:device=", "SQ WAVES", "é"])
def test_name_of_no_form_is_unknown(name, gfx950):
    with pytest.raises(UsageError, match="gfx950 has no counter"):
        gfx950.require(name)


def test_name_of_nothing_near_says_where_the_list_is(gfx950):
    with pytest.raises(UsageError) as caught:
        gfx950.require("%%%")
    assert caught.value.hint == "rocktools counters list --arch gfx950"


def test_counter_of_the_other_architecture_is_named_as_such():
    with pytest.raises(UsageError, match="gfx942 has no counter 'TCC_EA0_RDREQ_128B_sum'; gfx950 has it"):
        load_catalog("gfx942").require("TCC_EA0_RDREQ_128B_sum")
    with pytest.raises(UsageError, match="gfx950 has no counter 'ValuPipeIssueUtil'; gfx942 has it"):
        load_catalog("gfx950").require("ValuPipeIssueUtil")


def test_instance_of_a_sum_is_refused_with_what_was_meant(gfx950):
    with pytest.raises(UsageError) as caught:
        gfx950.require("TCC_HIT_sum[3]")
    assert caught.value.reference == "counter-instance"
    assert caught.value.hint == "TCC_HIT[3]"


def test_accumulated_form_is_for_levels_only(gfx950):
    with pytest.raises(UsageError, match="no counter 'SQ_WAVES_ACCUM'"):
        gfx950.require("SQ_WAVES_ACCUM")


def test_unknown_architecture_lists_the_known_ones():
    with pytest.raises(UsageError) as caught:
        load_catalog("gfx90a")
    assert caught.value.reference == "unknown-architecture"
    assert caught.value.hint == "known: gfx942 (MI300A, MI300X, MI325X), gfx950 (MI350X, MI355X)"


def test_counters_that_both_architectures_have_are_not_elsewhere(catalog):
    assert not set(catalog.elsewhere) & set(catalog.counters)
