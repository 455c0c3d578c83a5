"""Model files: shipped ones give the published parameters and keep the schema; mistakes are named with their line."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from rocktools.analytic.model_file import SCHEMA_FILE, parse_model, read_model, shipped_models
from rocktools.errors import InputError, UnsupportedVersion, UsageError

FOLDER = SCHEMA_FILE.parent / "models"
# Published: parameters and the unit that they are rounded to; those active for one token and theirs.
PUBLISHED = {
    "llama-3-8b": (8_030_261_248, 1, 8_030_261_248, 1),
    "llama-3-70b": (70_553_706_496, 1, 70_553_706_496, 1),
    "mixtral-8x7b": (46_702_792_704, 1, 12_900_000_000, 100_000_000),
    "mixtral-8x22b": (140_630_071_296, 1, 39_000_000_000, 1_000_000_000),
    "deepseek-v3": (671_000_000_000, 1_000_000_000, 37_000_000_000, 1_000_000_000),
}
MINE = """schema: rocktools.model/1
model: mine
title: Mine
sources: [me]
layers: 4
width: 64
attention: {kind: grouped, heads: 4, kv_heads: 2, head_width: 16}
mlp: {width: 96, layers: 1}
experts: {count: 4, top_k: 2, width: 32}
vocabulary: 100
head: untied
"""


@pytest.mark.parametrize("name", PUBLISHED)
def test_shipped_models_have_the_published_parameters(name):
    model = read_model(name)
    count, unit, active, active_unit = PUBLISHED[name]
    assert abs(model.parameters_count - count) < unit
    assert abs(model.active_parameters_count - active) < active_unit  # some are cut, not rounded
    assert (model.name, bool(model.sources)) == (name, True)


def test_every_shipped_model_is_tested():
    assert set(shipped_models()) == set(PUBLISHED)
    assert read_model("LLAMA-3-8B") == read_model("llama-3-8b")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_files_keep_the_schema(path):
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)


MISTAKES = [
    ("schema: rocktools.model/1", "schema: other/1", UnsupportedVersion, "other/1"),
    ("layers: 4", "layers: 1000000000000", InputError, "parameters"),
    ("layers: 4", "layers: 0", InputError, "mine.yaml:5: layers"),
    ("width: 64\n", "width: wide\n", InputError, "mine.yaml:6: width"),
    ("kv_heads: 2", "kv_heads: 3", InputError, "3 heads of keys and values do not divide 4 heads"),
    ("kind: grouped", "kind: sliding", InputError, "'sliding' is not known here"),
    ("kind: grouped", "kind: latent", InputError, "unknown key 'kv_heads'"),
    ("attention: {kind: grouped, heads: 4, kv_heads: 2, head_width: 16}", "attention: 4", InputError, "mapping"),
    ("top_k: 2", "top_k: 5", InputError, "5 cannot be chosen from 4"),
    ("mlp: {width: 96, layers: 1}", "mlp: {width: 96}", InputError, "'layers' is missing"),
    ("mlp: {width: 96, layers: 1}", "mlp: {width: 96, layers: 4}", InputError, "must be fewer than the 4 layers"),
    ("experts: {count: 4, top_k: 2, width: 32}\n", "", InputError, "must be all of the 4 layers, but is 1"),
    ("mlp: {width: 96, layers: 1}\nexperts: {count: 4, top_k: 2, width: 32}\n", "", InputError, "no feed-forward part"),
    ("head: untied", "head: loose", InputError, "one of: tied, untied"),
    ("head: untied", "head: untied\ngated: 3", InputError, "must be true or false"),
    ("head: untied", "head: untied\nwindow: 3", InputError, "unknown key 'window'"),
    ("head: untied", "head: untied\nparameters: {count: 99999}", InputError, "the file says 99,999"),
]


@pytest.mark.parametrize("old, new, error, words", MISTAKES, ids=[words for *_, words in MISTAKES])
def test_mistakes_are_named(old, new, error, words):
    assert old in MINE
    with pytest.raises(error) as raised:
        parse_model(MINE.replace(old, new), source="mine.yaml")
    assert words in str(raised.value)


SCHEMA_KNOWS = [each for each in MISTAKES if each[3] not in
    {"3 heads of keys and values do not divide 4 heads", "5 cannot be chosen from 4", "'layers' is missing",
     "must be fewer than the 4 layers", "must be all of the 4 layers, but is 1", "the file says 99,999",
     "parameters"}]  # fmt: skip


@pytest.mark.parametrize("old, new, _error, words", SCHEMA_KNOWS, ids=[words for *_, words in SCHEMA_KNOWS])
def test_the_schema_refuses_what_the_reader_refuses(old, new, _error, words):
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(MINE), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(MINE.replace(old, new)), schema)


@pytest.mark.parametrize("count, unit, is_good", [(181_000, 1000, True), (180_000, 1000, False), (181_440, 1, True)])
def test_stated_parameters_may_be_rounded(count, unit, is_good):
    """Attention 4 x 12,288; mlp 18,432; experts 3 x (24,576 + 256); ends 12,800; norms 576: 155,456 in all."""
    total = 4 * 12_288 + 18_432 + 3 * (4 * 3 * 64 * 32 + 256) + 12_800 + 576
    shift = total - 181_440
    text = f"{MINE}parameters: {{count: {count + shift}, rounded_to: {unit}}}\n"
    if is_good:
        assert parse_model(text, source="mine.yaml").parameters_count == total
    else:
        with pytest.raises(InputError, match=f"{total:,}"):
            parse_model(text, source="mine.yaml")


def test_a_file_of_the_user_is_read_and_one_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(MINE, encoding="utf-8")
    assert read_model(str(path)).name == "mine"
    with pytest.raises(InputError, match="no such file"):
        read_model(str(tmp_path / "other.yaml"))
    with pytest.raises(UsageError, match="llama-3-8b"):
        read_model("llama-3-8")


def test_layers_without_experts_come_on_top():
    model = parse_model(MINE, source="mine.yaml")
    assert (model.dense_layers_count, model.expert_layers_count) == (1, 3)
    dense = parse_model(MINE.replace("experts: {count: 4, top_k: 2, width: 32}\n", "").replace(", layers: 1", ""),
                        source="mine.yaml")  # fmt: skip
    assert (dense.dense_layers_count, dense.expert_layers_count, dense.experts) == (4, 0, None)
