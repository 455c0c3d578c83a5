"""What users type after --counters and --metrics."""

from __future__ import annotations

import pytest

from rocktools.counters.catalog import load_catalog
from rocktools.counters.requests import parse_counters, parse_request
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
    assert parse_request(catalog, counters=["SQ_WAVES"]) == ("SQ_WAVES",)


@pytest.mark.parametrize("counters", [[], ["SQ_WAVES"]])
def test_metrics_are_refused_until_there_are_formulas(counters, catalog):
    with pytest.raises(UsageError) as caught:
        parse_request(catalog, counters=counters, metrics=["fabric_bytes,total_flop"])
    assert caught.value.reference == "metrics-not-yet"
    assert caught.value.what.startswith("--metrics fabric_bytes,total_flop: this version has no formulas")
    assert "--counters A,B" in caught.value.hint
