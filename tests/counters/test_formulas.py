"""The formula files: schema, sources, examples, units, names, and no two that are the same."""

from __future__ import annotations

import copy
import json
from collections import Counter as Count
from collections.abc import Iterator

import jsonschema
import numpy as np
import pytest
import yaml
from kernel_model import SHAPES

from rocktools.assets import find_asset_folder
from rocktools.counters.catalog import architectures, load_catalog
from rocktools.counters.expression import evaluate_expression, parse_expression, render
from rocktools.counters.formulas import (
    FACTS,
    Formula,
    Formulas,
    SamePass,
    build_formulas,
    formulas_with,
    load_formulas,
    merge_groups,
    read_formula_files,
)
from rocktools.counters.meanings import PASS_DURATION, read_meanings
from rocktools.errors import FormulaError, UsageError
from rocktools.evidence import Evidence

FOLDER = find_asset_folder("counters")
FILES = sorted((FOLDER / "formulas").glob("*.yaml"))


def _schema(name: str):
    return json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))


def _bodies() -> Iterator[tuple[str, dict]]:
    for document in read_formula_files():
        for quantity in document["quantities"]:
            for body in quantity["bodies"]:
                yield quantity["id"], body


@pytest.fixture(scope="module")
def every() -> dict[str, Formulas]:
    return {name: load_formulas(name) for name in architectures()}


def _formulas(every: dict[str, Formulas]) -> list[Formula]:
    return list({f.formula_id: f for formulas in every.values() for f in formulas.by_quantity.values()}.values())


# The files by themselves.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_keeps_its_schema(path):
    schema = _schema("formulas")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_meanings_keep_their_schema():
    schema = _schema("meanings")
    jsonschema.Draft202012Validator.check_schema(schema)
    document = yaml.safe_load((FOLDER / "meanings.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    names = [entry["name"] for entry in document["counters"]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda quantity: quantity.pop("source"),
        lambda quantity: quantity["source"].pop("document"),
        lambda quantity: quantity.pop("unit"),
        lambda quantity: quantity.update(unit=""),
        lambda quantity: quantity["bodies"][0].pop("example"),
        lambda quantity: quantity["bodies"][0]["example"].pop("result"),
        lambda quantity: quantity["bodies"][0]["example"].update(inputs={}),
        lambda quantity: quantity["bodies"].clear(),
        lambda quantity: quantity.update(bound="about"),
        lambda quantity: quantity.update(notes="extra"),
        lambda quantity: quantity["bodies"][0].update(same_pass=[{"counters": ["TCC_HIT"]}]),
    ],
)
def test_a_formula_without_source_unit_or_example_is_refused(mistake):
    document = copy.deepcopy(yaml.safe_load(FILES[0].read_text(encoding="utf-8")))
    mistake(document["quantities"][0])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(_schema("formulas")).validate(document)


def test_a_document_without_a_version_is_refused():
    document = yaml.safe_load(FILES[0].read_text(encoding="utf-8"))
    next(iter(document["documents"].values())).pop("version")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(_schema("formulas")).validate(document)


def test_every_document_is_used():
    for document in read_formula_files():
        used = {quantity["source"]["document"] for quantity in document["quantities"]}
        assert used == set(document["documents"])


def test_no_two_bodies_are_equal():
    bodies = Count(render(parse_expression(body["formula"])) for _, body in _bodies())
    assert [text for text, times in bodies.items() if times > 1] == []


def test_no_two_formulas_are_equal_when_quantities_are_put_in(every):
    for formulas in every.values():
        texts = Count(render(formula.expression) for formula in formulas.by_quantity.values())
        assert [text for text, times in texts.items() if times > 1] == []


def test_a_body_is_shared_where_the_architectures_agree():
    """Architectures that are named all together are the same as none named."""
    for quantity, body in _bodies():
        assert set(body.get("architectures", ())) != set(architectures()), quantity


# What they say.


def test_every_worked_example_gives_its_result(every):
    for formula in _formulas(every):
        inputs = {name: np.array([value]) for name, value in formula.example.inputs.items()}
        found = evaluate_expression(formula.body, inputs)
        assert np.allclose(found, formula.example.result, rtol=1e-12, atol=0), formula.formula_id
        assert formula.example.result != 0, f"{formula.formula_id}: an example that gives 0 shows nothing"


def test_an_example_has_an_input_for_each_name_and_no_other(every):
    for formula in _formulas(every):
        assert set(formula.example.inputs) == set(_names(formula)), formula.formula_id


def _names(formula: Formula) -> list:
    from rocktools.counters.expression import names_in

    return list(names_in(formula.body))


def test_counters_exist_on_the_architecture(every):
    for name, formulas in every.items():
        catalog = load_catalog(name)
        for formula in formulas.by_quantity.values():
            for counter in formula.counters:
                if counter.name != PASS_DURATION:
                    assert catalog.require(counter.name).block or counter.name.endswith("_ACCUM")


def test_what_belongs_together_is_kept_together_by_the_packer(every):
    """Each group lies in ratio groups of together.yaml that hang together, so that one pass reads them."""
    apart = []
    for name, formulas in every.items():
        ratio_groups = [set(group.counters) for group in load_catalog(name).groups]
        levels = {f"{level}_ACCUM": level for level in load_catalog(name).levels}
        for formula in formulas.by_quantity.values():
            for group in formula.groups:
                wanted = {levels.get(counter, counter) for counter in group.counters} - {PASS_DURATION}
                inside = [known & wanted for known in ratio_groups if len(known & wanted) > 1 and known <= wanted]
                covered = set().union(*inside) if inside else set()
                apart += [(name, formula.quantity)] if len(wanted) > 1 and covered != wanted else []
    assert apart == []


def test_groups_are_counters_of_their_formula(every):
    for formula in _formulas(every):
        for group in formula.groups:
            assert group.counters <= {name.name for name in formula.counters}, formula.formula_id


def test_shares_of_elapsed_cycles_need_one_pass(every):
    for formula in _formulas(every):
        cycles = {name.name for name in formula.counters if name.name.startswith(("SQ_ACTIVE", "SQ_BUSY", "TCC_BUSY"))}
        if "GRBM_GUI_ACTIVE" in {name.name for name in formula.counters} and cycles:
            assert any(group.is_required and cycles < group.counters for group in formula.groups), formula.formula_id


def test_only_diagnoses_use_the_time_of_a_pass(every):
    for formula in _formulas(every):
        uses_time = PASS_DURATION in {name.name for name in formula.counters}
        assert uses_time == formula.is_diagnostic, formula.formula_id
    rates = [formula.formula_id for formula in _formulas(every) if formula.unit.endswith("/s")]
    assert rates == []


def test_reads_on_gfx950_never_use_the_bubble(every):
    for formula in every["gfx950"].by_quantity.values():
        assert "TCC_BUBBLE" not in {name.name for name in formula.counters}, formula.quantity


def test_bounds_are_inferred_and_say_their_limits(every):
    for formula in _formulas(every):
        if formula.bound:
            assert formula.evidence is Evidence.INFERRED, formula.formula_id
            assert formula.limits, formula.formula_id


def test_a_quantity_is_as_weak_as_what_it_is_computed_from(every):
    assert every["gfx950"].require("vl1d_lookup_bytes").evidence is Evidence.INFERRED
    assert every["gfx950"].require("vl1d_intensity").evidence is Evidence.INFERRED
    assert every["gfx950"].require("l2_intensity").evidence is Evidence.COUNTER


def test_everything_that_was_asked_for_is_there(every):
    wanted = {
        *("valu_flop_f16", "valu_flop_f32", "valu_flop_f64", "mfma_flop_bf16", "mfma_flop_f8", "mfma_flop_f64"),
        *("mfma_flop", "valu_flop", "total_flop", "total_iop", "fabric_read_bytes", "fabric_write_bytes"),
        *("hbm_read_ratio", "l2_bytes", "l2_hit_ratio", "vl1d_lookup_bytes", "vl1d_hit_ratio", "lds_bytes"),
        *("lds_conflicts_per_access", "valu_instructions", "mfma_instructions", "occupancy", "valu_utilisation"),
        *("mfma_utilisation", "wave_cycles", "dependency_wait_ratio", "elapsed_cycles", "implied_clock"),
        *("fabric_intensity", "l2_intensity", "lds_intensity", "vl1d_intensity"),
    }
    for formulas in every.values():
        assert wanted <= set(formulas.by_quantity)
    assert "fabric_read_bytes_by_destination" in every["gfx950"].by_quantity
    assert every["gfx942"].elsewhere["fabric_read_bytes_by_destination"] == ("gfx950",)


# Operations of instructions, by their shape.

SHAPE_TABLE = [
    # architecture, instruction, FLOPs, units of 512
    ("gfx942", "v_mfma_f32_32x32x8_f16", 16_384, 32),
    ("gfx942", "v_mfma_f32_32x32x8_bf16", 16_384, 32),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", 8_192, 16),
    ("gfx942", "v_mfma_f64_16x16x4_f64", 2_048, 4),
    ("gfx942", "v_mfma_f32_16x16x4_f32", 2_048, 4),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 32_768, 64),
    ("gfx950", "v_mfma_f32_16x16x32_bf16", 16_384, 32),
    ("gfx950", "v_mfma_scale_f32_32x32x64_f8f6f4", 131_072, 256),
    ("gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4", 65_536, 128),
]


@pytest.mark.parametrize("architecture, instruction, flop, mops", SHAPE_TABLE)
def test_matrix_operations_are_those_of_the_shape(every, architecture, instruction, flop, mops):
    shape = SHAPES[architecture][instruction]
    assert shape.flop == flop == 512 * mops
    formula = every[architecture].require(f"mfma_flop_{shape.dtype.lower()}")
    (counter,) = formula.counters
    assert evaluate_expression(formula.expression, {counter: np.array([float(mops)])}).tolist() == [flop]


# Reading.


def _document(**changes):
    quantity = {
        "id": "q", "title": "t", "unit": "request", "level": "device", "source": {"document": "d", "place": "p"},
        "bodies": _body("TCC_HIT + TCC_MISS"),
        **changes,
    }  # fmt: skip
    return {"documents": {"d": {"document": "d", "version": "1", "date": "2026-01"}}, "quantities": [quantity]}


def _build(*documents, architecture="gfx950"):
    return build_formulas(documents, load_catalog(architecture), read_meanings())


def _body(formula, **more):
    return [{"formula": formula, "example": {"inputs": {"TCC_HIT": 1}, "result": 1}, **more}]


@pytest.mark.parametrize(
    "document, reference, complaint",
    [
        (_document(unit="B"), "unit-mismatch", "declared in B, and its formula gives request"),
        (_document(bodies=_body("TCC_HIT + SQ_WAVES")), "unit-mismatch", "cannot be added"),
        (_document(bodies=_body("TCC_HITS")), "unknown-name", "TCC_HITS is no counter"),
        (_document(bodies=_body("q + TCC_HIT")), "quantity-cycle", "q -> q"),
        (_document(bodies=_body("TCC_HIT +")), "formula-syntax", "the end"),
        (_document(bodies=_body("TCC_PROBE")), "counter-without-unit", "TCC_PROBE"),
        (_document(bodies=[*_body("TCC_HIT"), *_body("TCC_MISS")]), "two-bodies", "two formulas"),
    ],
)
def test_contradictions_are_refused(document, reference, complaint):
    with pytest.raises(FormulaError) as raised:
        _build(document)
    assert raised.value.reference == reference
    assert complaint in raised.value.what


def test_a_quantity_may_be_defined_once():
    with pytest.raises(FormulaError, match="defined twice"):
        _build(_document(), _document())


def test_quantities_are_put_in_for_their_names_with_what_belongs_together():
    whole = _document()["quantities"][0]
    whole["bodies"][0]["same_pass"] = [{"counters": ["TCC_HIT", "TCC_MISS"]}]
    share = {**_document(bodies=_body("TCC_HIT / q"))["quantities"][0], "id": "s", "unit": "ratio"}
    formulas = _build({**_document(), "quantities": [share, whole]})
    formula = formulas.require("s")
    assert render(formula.expression) == "TCC_HIT / (TCC_HIT + TCC_MISS)"
    assert formula.groups == (SamePass(counters=frozenset({"TCC_HIT", "TCC_MISS"}), is_required=True),)


def test_groups_that_share_a_counter_are_one_group():
    first = SamePass(counters=frozenset("AB"), is_required=False)
    second = SamePass(counters=frozenset("BC"), is_required=True)
    third = SamePass(counters=frozenset("XY"), is_required=False)
    whole = SamePass(counters=frozenset("ABC"), is_required=True)
    assert merge_groups([first, third, second]) == merge_groups([second, first, third]) == (whole, third)


def test_a_body_of_another_architecture_is_none():
    formulas = _build(_document(bodies=_body("TCC_HIT", architectures=["gfx942"])))
    assert formulas.by_quantity == {}
    with pytest.raises(UsageError, match="gfx942 has it"):
        formulas.require("q")


def test_a_reduced_counter_has_no_dies_in_its_unit():
    document = _document(unit="cycle", bodies=_body("max(GRBM_GUI_ACTIVE)"))
    assert _build(document).require("q").unit == "cycle"
    with pytest.raises(FormulaError, match="gives cycle"):
        _build(_document(unit="xcd*cycle", bodies=_body("max(GRBM_GUI_ACTIVE)")))


# What somebody types.


def test_a_typed_expression_has_the_unit_of_its_terms():
    formulas = load_formulas("gfx950")
    assert formulas_with(formulas, "x", "128[B/request] * TCC_REQ / elapsed_cycles").require("x").unit == "B/cycle"
    assert formulas_with(formulas, "x", "TCC_PROBE_sum / TCC_REQ_sum").require("x").unit == "1/request"


def test_a_typed_ratio_of_counters_that_belong_together_needs_one_pass():
    formula = formulas_with(load_formulas("gfx950"), "x", "TCC_HIT / (TCC_HIT + TCC_MISS)").require("x")
    assert formula.groups == (SamePass(counters=frozenset({"TCC_HIT", "TCC_MISS"}), is_required=True),)


def test_a_typed_name_that_means_nothing_is_told_with_the_nearest():
    with pytest.raises(UsageError) as raised:
        formulas_with(load_formulas("gfx950"), "x", "SQ_WAVEZ + 1")
    assert "SQ_WAVES" in raised.value.hint


def test_facts_are_those_of_the_agents_frame():
    from rocktools.frames import AGENTS

    assert set(FACTS) <= set(AGENTS.names)
