"""Component maps as files: the shipped ones, and what is said about one with a mistake."""

from __future__ import annotations

import pytest

from rocktools.attribution.component_map_file import (
    SCHEMA,
    parse_component_map,
    read_component_map,
    read_shipped_map,
    shipped_maps,
)
from rocktools.attribution.phases import BookedPhase
from rocktools.errors import InputError, UnsupportedVersion, UsageError

HEAD = f"""schema: {SCHEMA}
name: small
components:
  attention: {{title: Attention}}
  optimizer: {{title: Optimizer, outside: optimizer}}
"""
GOOD = HEAD + "rules:\n  - {component: attention, segments: [attn]}\n"


def test_maxtext_plain_jax_and_a_template_are_shipped():
    assert set(shipped_maps()) == {"maxtext", "plain_jax", "template"}


@pytest.mark.parametrize("name", shipped_maps())
def test_shipped_maps_are_read_and_every_component_is_used(name):
    component_map = read_shipped_map(name)
    used = {rule.component for rule in (*component_map.rules, *component_map.fallbacks)}
    assert used == set(component_map.components)
    assert component_map.name == name


@pytest.mark.parametrize("name", ["maxtext", "plain_jax"])
def test_shipped_maps_know_what_is_outside_of_differentiation(name):
    outside = {component.outside for component in read_shipped_map(name).components.values()} - {None}
    assert outside == {BookedPhase.LOSS, BookedPhase.ACCUMULATION, BookedPhase.OPTIMIZER, BookedPhase.INPUT}


def test_groups_are_components_themselves_where_the_map_gives_none():
    component_map = parse_component_map(GOOD, source="m.yaml")
    assert component_map.components["attention"].group == "attention"
    assert component_map.title_of("attention") == "Attention"
    assert component_map.title_of("of another map") == "of another map"


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UsageError) as caught:
        read_shipped_map("maxtxt")
    assert "maxtext" in (caught.value.hint or "")


MISTAKES = [
    ("name: x\n", "must be `schema: rocktools.components/1`", "m.yaml:1: top"),
    (f"schema: {SCHEMA}\nname: x\ncomponents: {{}}\nrules: []\n", "at least one component", "m.yaml:3: components"),
    (HEAD.replace("title: Attention", "titel: Attention") + "rules: []\n", "unknown key 'titel'", "m.yaml:4"),
    (HEAD.replace("outside: optimizer", "outside: forward") + "rules: []\n", "'forward' is not known here", "m.yaml:5"),
    (HEAD + "rules:\n  - {component: atention, segments: [a]}\n", "no component of this map", "rules[0].component"),
    (HEAD + "rules:\n  - {component: attention}\n", "needs `segments` or `pattern`", "m.yaml:7: rules[0]"),
    (HEAD + "rules:\n  - {component: attention, pattern: '['}\n", "no regular expression", "rules[0].pattern"),
    (HEAD + "rules:\n  - {component: attention, segments: attn}\n", "must be a list of texts", "rules[0].segments"),
    (HEAD + "rules:\n  - {component: attention, segments: [3]}\n", "must be a text, but is 3", "rules[0].segments[0]"),
    (GOOD + "fallbacks:\n  - {component: attention}\n", "at least one of", "m.yaml:9: fallbacks[0]"),
    (GOOD + "fallbacks:\n  - {component: attention, loop: around}\n", "'around' is not known", "fallbacks[0].loop"),
    (GOOD + "fallbacks:\n  - {component: attention, scopeless: 1}\n", "true or false", "fallbacks[0].scopeless"),
    (GOOD + "fallbacks:\n  - {component: attention, phases: [fwd]}\n", "'fwd' is not known", "fallbacks[0].phases[0]"),
    (GOOD + "tables:\n  loss: []\n", "unknown key 'loss'", "m.yaml:9: tables.loss"),
    (GOOD + "tables:\n  forward:\n    - {title: A}\n", "either `components` or a `state`", "tables.forward[0]"),
    (GOOD + "tables:\n  forward:\n    - {title: A, state: gone}\n", "'gone' is not known", "tables.forward[0].state"),
    (
        GOOD
        + "tables:\n  forward:\n    - {title: A, components: [attention]}\n    - {title: B, components: [attention]}\n",
        "attention: in two rows",
        "m.yaml:11: tables.forward[1]",
    ),
    (GOOD + "extra: 1\n", "unknown key 'extra'", "m.yaml:8: extra"),
    (GOOD.replace("  - {component", "  {component"), "must be a list", "m.yaml:6: rules"),
]


@pytest.mark.parametrize("text, what, where", MISTAKES)
def test_mistakes_are_named_with_their_line_and_entry(text, what, where):
    with pytest.raises(InputError) as caught:
        parse_component_map(text, source="m.yaml")
    assert what in str(caught.value)
    assert where in (caught.value.where or "")


def test_a_map_of_another_version_is_refused():
    with pytest.raises(UnsupportedVersion, match="components/2"):
        parse_component_map(GOOD.replace("components/1", "components/2"), source="m.yaml")


def test_rules_say_their_number_and_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")
    (rule,) = read_component_map(path).rules
    assert rule.label == "rule 1 (line 7) of small"
