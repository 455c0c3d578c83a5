"""What users type after --counters and --metrics."""

from __future__ import annotations

import pytest

from rocktools.counters.catalog import load_catalog
from rocktools.counters.formulas import FACTS, load_formulas
from rocktools.counters.packing import pack_counters
from rocktools.counters.requests import parse_counters, parse_request, require_known_quantities
from rocktools.errors import UsageError


@pytest.fixture(scope="module")
def catalog():
    return load_catalog("gfx950")


@pytest.mark.parametrize(
    "texts, names",
    [
        (["SQ_WAVES"], ("SQ_WAVES",)),
        (["SQ_WAVES,TCC_HIT_sum"], ("SQ_WAVES", "TCC_HIT_sum")),
        (["SQ_WAVES", "TCC_HIT_sum GRBM_COUNT"], ("SQ_WAVES", "TCC_HIT_sum", "GRBM_COUNT")),
        (["TCC_HIT_sum, SQ_WAVES,\tGRBM_COUNT\n"], ("TCC_HIT_sum", "SQ_WAVES", "GRBM_COUNT")),
        ([",SQ_WAVES,,", " "], ("SQ_WAVES",)),
        (["SQ_WAVES", "SQ_WAVES,SQ_WAVES"], ("SQ_WAVES",)),
        (["TCC_HIT[3],TCC_HIT:device=1"], ("TCC_HIT[3]", "TCC_HIT:device=1")),
    ],
)
def test_names_are_separated_by_commas_and_blanks_and_kept_once(texts, names, catalog):
    assert parse_counters(catalog, texts) == names


@pytest.mark.parametrize("texts", [[], [""], [" , "]])
def test_no_name_at_all_is_refused(texts, catalog):
    with pytest.raises(UsageError, match="no counter is named") as caught:
        parse_counters(catalog, texts)
    assert caught.value.reference == "no-counters"


def test_one_unknown_name_is_refused_as_the_catalogue_does(catalog):
    with pytest.raises(UsageError) as caught:
        parse_counters(catalog, ["SQ_WAVES,SQ_WAVE"])
    assert caught.value.what == "gfx950 has no counter 'SQ_WAVE'"
    assert caught.value.hint.startswith("SQ_WAVES")


def test_all_unknown_names_are_listed(catalog):
    with pytest.raises(UsageError) as caught:
        parse_counters(catalog, ["SQ_WAVE,SQ_WAVES", "TCC_HITS"])
    assert caught.value.reference == "unknown-counter"
    assert caught.value.what == "gfx950 has no counter 'SQ_WAVE'; gfx950 has no counter 'TCC_HITS'"
    assert "for SQ_WAVE: SQ_WAVES" in caught.value.hint
    assert "for TCC_HITS: TCC_HIT" in caught.value.hint


def test_counters_may_be_asked_for_without_metrics(catalog):
    asked = parse_request(catalog, counters=["SQ_WAVES"])
    assert (asked.names, asked.groups) == (("SQ_WAVES",), ())


READS = {
    "gfx950": {"TCC_EA0_RDREQ_128B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_32B_sum"},
    "gfx942": {"TCC_BUBBLE_sum", "TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum"},
}


@pytest.mark.parametrize("architecture", sorted(READS))
def test_a_quantity_asks_for_the_counters_of_its_architecture(architecture):
    asked = parse_request(load_catalog(architecture), counters=[], metrics=["fabric_read_bytes"])
    assert set(asked.names) == READS[architecture]
    [group] = asked.groups
    assert {f"{name}_sum" for name in group.counters} == READS[architecture]


def test_quantities_and_counters_are_merged_and_kept_once(catalog):
    asked = parse_request(
        catalog, counters=["SQ_WAVES,TCC_EA0_RDREQ_32B_sum"], metrics=["fabric_read_bytes", "fabric_bytes"]
    )
    assert asked.names[:2] == ("SQ_WAVES", "TCC_EA0_RDREQ_32B_sum")
    assert set(asked.names[2:]) == (READS["gfx950"] - {"TCC_EA0_RDREQ_32B_sum"}) | {
        "TCC_EA0_WRREQ_sum",
        "TCC_EA0_WRREQ_64B_sum",
    }
    assert len(asked.names) == len(set(asked.names))


def test_a_counter_with_its_instances_is_not_summed_a_second_time(catalog):
    asked = parse_request(catalog, counters=["TCC_HIT"], metrics=["l2_hit_ratio"])
    assert "TCC_HIT" in asked.names
    assert "TCC_HIT_sum" not in asked.names


def test_the_largest_instance_needs_all_instances(catalog):
    assert "GRBM_GUI_ACTIVE" in parse_request(catalog, counters=[], metrics=["elapsed_cycles_longest"]).names


def test_the_time_of_a_pass_is_no_counter_to_ask_for(catalog):
    asked = parse_request(catalog, counters=[], metrics=["implied_clock"])
    assert asked.names == ("GRBM_GUI_ACTIVE",)
    assert asked.groups == ()


@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
def test_what_every_formula_has_to_read_in_one_pass_is_packed_into_one(architecture):
    catalog, formulas = load_catalog(architecture), load_formulas(architecture)
    required = [
        formula
        for formula in formulas.by_quantity.values()
        if any(group.is_required for group in formula.groups)
        and not any(name.name.endswith("_ACCUM") for name in formula.counters)
    ]
    assert len(required) > 10
    for formula in required[::5]:
        asked = parse_request(catalog, counters=[], metrics=[formula.quantity])
        packing = pack_counters(catalog, asked.names, together=(*catalog.groups, *asked.groups))
        passes = [{name.removesuffix("_sum") for name in each.counters} for each in packing.passes]
        assert set().union(*passes) == {name.name for name in formula.counters} - {*FACTS, "PASS_DURATION"}
        for group in formula.groups:
            if group.is_required:
                assert any(group.counters - {"PASS_DURATION"} <= each for each in passes), formula.quantity


def test_groups_without_common_counters_are_kept_where_no_counter_may_be_read_twice(catalog):
    asked = parse_request(catalog, counters=[], metrics=["occupancy,valu_utilisation,fabric_bytes"])
    kept = asked.disjoint_groups()
    names = [name for group in kept for name in group.counters]
    assert len(names) == len(set(names))
    assert kept[0].name == "occupancy"
    packing = pack_counters(catalog, asked.names, together=kept)
    collected = [name for each in packing.passes for name in each.counters]
    assert len(collected) == len(set(collected))


def test_an_unknown_quantity_is_refused_with_near_names(catalog):
    with pytest.raises(UsageError) as caught:
        parse_request(catalog, counters=["SQ_WAVES"], metrics=["fabric_read_byte"])
    assert caught.value.reference == "unknown-quantity"
    assert caught.value.hint.startswith("fabric_read_bytes")


def test_all_unknown_quantities_are_listed(catalog):
    with pytest.raises(UsageError, match=r"'totl_flop'; gfx950 has no quantity 'ocupancy'") as caught:
        parse_request(catalog, counters=[], metrics=["totl_flop,ocupancy"])
    assert "for ocupancy: occupancy" in caught.value.hint


def test_a_quantity_of_another_architecture_only_is_refused():
    with pytest.raises(UsageError, match="gfx942 has no quantity 'l2_sector_bytes'; gfx950 has it"):
        parse_request(load_catalog("gfx942"), counters=[], metrics=["l2_sector_bytes"])


def test_before_the_gpu_is_known_a_quantity_of_any_architecture_is_known():
    formulas = load_formulas("gfx950")
    require_known_quantities(formulas, ["fabric_reads_64b_requests,total_flop"])  # the first of gfx942 only
    with pytest.raises(UsageError, match="no quantity 'totl_flop'"):
        require_known_quantities(formulas, ["fabric_reads_64b_requests,totl_flop"])


def test_a_quantity_that_needs_what_rocprofv3_does_not_know_is_refused(catalog):
    with pytest.raises(UsageError, match="lds_latency needs SQ_INST_LEVEL_LDS_ACCUM") as caught:
        parse_request(catalog, counters=[], metrics=["lds_latency"])
    assert caught.value.reference == "quantity-not-collected"
    assert "--counters LdsLatency" in caught.value.hint
