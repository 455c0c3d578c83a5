"""Model files (YAML, schema `rocktools.model/1`, model.schema.json) -> `Transformer`, checked entry by entry.

Shipped ones lie in `models/`; a user gives a file of his own for a model that is not among them. Where a file states
how many parameters the model has, its dimensions must give that number: a wrong width does not pass unseen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocktools.analytic.model import Attention, AttentionKind, Experts, Transformer, grouped_attention, latent_attention
from rocktools.errors import UsageError, nearest_names
from rocktools.yaml_file import YamlFile, parse_yaml, read_yaml_file

SCHEMA = "rocktools.model/1"
SCHEMA_FILE = Path(__file__).resolve().parent / "model.schema.json"
_FOLDER = Path(__file__).resolve().parent / "models"
_REFERENCE = "model-file"
_REQUIRED = ("schema", "model", "title", "sources", "layers", "width", "attention", "vocabulary", "head")
_GROUPED = ("heads", "kv_heads", "head_width")
_MOST_PARAMETERS = 10**15
_LATENT = ("heads", "query_rank", "kv_rank", "plain_width", "rotated_width", "value_width")


def shipped_models() -> tuple[str, ...]:
    """The names of the models that are known."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def read_model(name: str) -> Transformer:
    """The model of that name, upper or lower case, or of a file.

    Args:
        name: one of `shipped_models`, or the path of a YAML file.

    Raises:
        UsageError: there is no such model.
        InputError: the file cannot be read, or an entry is wrong; the entry and its line are named.
        UnsupportedVersion: it keeps another schema.
    """
    if name.lower() in shipped_models():
        return _build(read_yaml_file(_FOLDER / f"{name.lower()}.yaml", _REFERENCE))
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return _build(read_yaml_file(path, _REFERENCE))
    near = nearest_names(name, shipped_models()) or shipped_models()
    raise UsageError("unknown-model", f"no model {name!r} is known", hint=f"{', '.join(near)}, or a YAML file of yours")


def parse_model(text: str, *, source: str) -> Transformer:
    """The model in a YAML text; raises as `read_model`.

    Args:
        source: the file, for messages.
    """
    return _build(parse_yaml(text, source=source, reference=_REFERENCE))


def _build(file: YamlFile) -> Transformer:
    file.require_schema(_REFERENCE, SCHEMA)
    optional = ("mlp", "experts", "gated", "parameters")
    top = file.require_mapping(_REFERENCE, (), file.value, required=_REQUIRED, optional=optional)
    if "mlp" not in top and "experts" not in top:
        raise file.complaint(_REFERENCE, (), "the layers have no feed-forward part", "`mlp:`, `experts:` or both")
    layers_count, width, vocabulary_count = (
        file.require_count(_REFERENCE, (key,), top[key]) for key in ("layers", "width", "vocabulary")
    )
    mlp_width, dense_layers_count = _mlp(file, top, layers_count)
    model = Transformer(
        name=file.require_text(_REFERENCE, ("model",), top["model"]),
        title=file.require_text(_REFERENCE, ("title",), top["title"]),
        sources=file.require_texts(_REFERENCE, ("sources",), top["sources"]),
        layers_count=layers_count,
        width=width,
        attention=_attention(file, top["attention"], width),
        mlp_width=mlp_width,
        experts=_experts(file, top["experts"]) if "experts" in top else None,
        dense_layers_count=dense_layers_count,
        is_gated=_flag(file, top.get("gated", True)),
        vocabulary_count=vocabulary_count,
        is_head_tied=file.require_text(_REFERENCE, ("head",), top["head"], choices=("tied", "untied")) == "tied",
    )
    if model.parameters_count > _MOST_PARAMETERS:
        raise file.complaint(_REFERENCE, (), f"the dimensions give {model.parameters_count:.1e} parameters")
    _check_parameters(file, top, model)
    return model


def _mlp(file: YamlFile, top: dict[str, Any], layers_count: int) -> tuple[int | None, int]:
    """Width and number of the layers without experts."""
    if "mlp" not in top:
        return None, 0
    has_experts = "experts" in top
    entry = file.require_mapping(
        _REFERENCE,
        ("mlp",),
        top["mlp"],
        required=("width", "layers") if has_experts else ("width",),
        optional=() if has_experts else ("layers",),
    )
    dense = file.require_count(_REFERENCE, ("mlp", "layers"), entry.get("layers", layers_count))
    if dense > layers_count or (dense == layers_count) == has_experts:
        among = "fewer than" if has_experts else "all of"
        raise file.complaint(
            _REFERENCE, ("mlp", "layers"), f"must be {among} the {layers_count} layers, but is {dense}"
        )
    return file.require_count(_REFERENCE, ("mlp", "width"), entry["width"]), dense


def _attention(file: YamlFile, value: Any, width: int) -> Attention:
    kinds = tuple(map(str, AttentionKind))
    given = value.get("kind") if isinstance(value, dict) else None
    keys = _LATENT if given == str(AttentionKind.LATENT) else _GROUPED
    entry = file.require_mapping(_REFERENCE, ("attention",), value, required=("kind", *keys))
    file.require_text(_REFERENCE, ("attention", "kind"), entry["kind"], choices=kinds)
    counts = {key: file.require_count(_REFERENCE, ("attention", key), entry[key]) for key in keys}
    if keys is _LATENT:
        heads_count = counts.pop("heads")
        return latent_attention(width=width, heads_count=heads_count, **counts)
    if counts["heads"] % counts["kv_heads"]:
        what = f"{counts['kv_heads']} heads of keys and values do not divide {counts['heads']} heads"
        raise file.complaint(_REFERENCE, ("attention", "kv_heads"), what)
    return grouped_attention(
        width=width,
        heads_count=counts["heads"],
        kv_heads_count=counts["kv_heads"],
        head_width=counts["head_width"],
    )


def _experts(file: YamlFile, value: Any) -> Experts:
    required = ("count", "top_k", "width")
    entry = file.require_mapping(_REFERENCE, ("experts",), value, required=required, optional=("shared",))
    count, top_k, width = (file.require_count(_REFERENCE, ("experts", key), entry[key]) for key in required)
    if top_k > count:
        raise file.complaint(_REFERENCE, ("experts", "top_k"), f"{top_k} cannot be chosen from {count}")
    shared = file.require_count(_REFERENCE, ("experts", "shared"), entry.get("shared", 0), at_least=0)
    return Experts(count=count, top_k=top_k, width=width, shared_count=shared)


def _flag(file: YamlFile, value: Any) -> bool:
    if not isinstance(value, bool):
        raise file.complaint(_REFERENCE, ("gated",), f"must be true or false, but is {value!r}")
    return value


def _check_parameters(file: YamlFile, top: dict[str, Any], model: Transformer) -> None:
    if "parameters" not in top:
        return
    entry = file.require_mapping(
        _REFERENCE, ("parameters",), top["parameters"], required=("count",), optional=("rounded_to",)
    )
    said = file.require_count(_REFERENCE, ("parameters", "count"), entry["count"])
    unit = file.require_count(_REFERENCE, ("parameters", "rounded_to"), entry.get("rounded_to", 1))
    if 2 * abs(model.parameters_count - said) > unit:
        what = f"the dimensions give {model.parameters_count:,} parameters, and the file says {said:,}"
        raise file.complaint(_REFERENCE, ("parameters", "count"), what, "a width or count above is wrong, or this one")
