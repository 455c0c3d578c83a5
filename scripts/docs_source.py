"""What the source says without being run: the calls that make an error or a finding, and the texts in them.

Texts become templates: what is only known when the program runs is written as `<name>`. A conditional text becomes two
templates. Nothing here depends on the version of Python: no line numbers, no text from `ast.unparse`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TypeGuard

_MOST_VARIANTS = 16
_NAMELESS = {"name", "label", "value"}  # `<sidecar>` says more than `<name>` does


class UnclearSourceError(Exception):
    """The source is written in a way that this module cannot read; the message says where."""


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One parsed file; `constants` are its module-level names that are assigned once."""

    file: str
    tree: ast.Module
    constants: Mapping[str, ast.expr]


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Where an expression stands: names mean something there."""

    module: Module
    function: ast.FunctionDef | None
    names: Mapping[str, ast.expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A call that makes an error or a finding.

    Attributes:
        maker: the class that is called.
        scope: of the call, or of the call of the function that only hands its arguments on.
        fields: argument -> the expression for it and where that stands.
    """

    maker: str
    scope: Scope
    fields: Mapping[str, tuple[ast.expr, Scope]]

    @property
    def file(self) -> str:
        return self.scope.module.file


def read_modules(root: Path) -> list[Module]:
    """Every module of the package, by path."""
    modules = []
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        file = path.relative_to(root.parent).as_posix()
        modules.append(Module(file=file, tree=tree, constants=_assigned_once(tree.body)))
    return modules


def find_records(modules: Sequence[Module], makers: Mapping[str, Sequence[str]], key: str) -> list[Record]:
    """The calls of `makers` (class -> its positional arguments), in the order of the source.

    A call that takes `key` from an argument of the function around it stands for the calls of that function; one that
    takes it from a row of a table stands for the rows. What takes it from another error stays as it is.

    Raises:
        UnclearSourceError: it takes `key` from elsewhere, so that its text is not known before the program runs.
    """
    records: list[Record] = []
    for module in modules:
        for call, scope in _calls(module):
            maker = _called(call)
            if maker in makers:
                records += _resolved(Record(maker, scope, _bind(call, makers[maker], scope)), key, modules)
    return records


def variants(record: Record, names: Sequence[str]) -> list[dict[str, str]]:
    """The texts of these fields ("" where one is not given), once for each way that conditional texts can come out."""
    found: list[dict[str, str]] = []
    open_truths: list[dict[str, bool]] = [{}]
    while open_truths:
        truth = open_truths.pop(0)
        try:
            texts = {name: _text_of_field(record, name, truth) for name in names}
        except _Undecided as undecided:
            open_truths += [{**truth, undecided.condition: answer} for answer in (True, False)]
            if len(open_truths) + len(found) > _MOST_VARIANTS:
                raise UnclearSourceError(f"{record.file}: a message of {record.maker} has too many variants") from None
            continue
        if texts not in found:
            found.append(texts)
    return found


def docstring_line(scope: Scope) -> str:
    """The first sentence of the docstring of the function, "" where there is none."""
    text = ast.get_docstring(scope.function) if scope.function is not None else None
    return " ".join((text or "").split("\n\n")[0].split())


class _Undecided(Exception):
    """A text depends on a condition that nobody has decided yet."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition


def _assigned_once(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    values: dict[str, list[ast.expr]] = {}
    for statement in body:
        for node in ast.walk(statement):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets = [node.target]
            for target in targets:
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                    values.setdefault(target.id, []).append(value)
    return {name: found[0] for name, found in values.items() if len(found) == 1}


@cache
def _calls(module: Module) -> tuple[tuple[ast.Call, Scope], ...]:
    """Every call of a module, with what names mean there; asked for again for each function that hands something on."""

    def walk(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
        if isinstance(node, ast.FunctionDef):
            scope = Scope(module=module, function=node, names=_assigned_once(node.body))
        if isinstance(node, ast.Call):
            yield node, scope
        for child in ast.iter_child_nodes(node):
            yield from walk(child, scope)

    return tuple(walk(module.tree, Scope(module=module, function=None)))


@cache
def _calls_by_name(module: Module) -> Mapping[str, list[tuple[ast.Call, Scope]]]:
    found: dict[str, list[tuple[ast.Call, Scope]]] = {}
    for call, scope in _calls(module):
        found.setdefault(_called(call), []).append((call, scope))
    return found


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _bind(call: ast.Call, names: Sequence[str], scope: Scope) -> dict[str, tuple[ast.expr, Scope]]:
    bound = {name: (value, scope) for name, value in zip(names, call.args, strict=False)}
    bound.update({keyword.arg: (keyword.value, scope) for keyword in call.keywords if keyword.arg is not None})
    return bound


def _resolved(record: Record, key: str, modules: Sequence[Module], depth: int = 0) -> list[Record]:
    """The record, or those that it stands for; none for `Finding(**fields)`, which makes an old finding again."""
    if not record.fields:
        return []
    if key not in record.fields:
        raise UnclearSourceError(f"{record.file}: a call of {record.maker} has no {key}")
    expression, _ = record.fields[key]
    function = record.scope.function
    if isinstance(expression, ast.Name) and function is not None and expression.id in _parameters(function):
        if depth > 3:
            raise UnclearSourceError(f"{record.file}: {function.name} hands on the {key} of {record.maker} in circles")
        found = []
        # A function that others may call is called from other files too.
        callers = [record.scope.module] if function.name.startswith("_") else modules
        for call, scope in (each for module in callers for each in _calls_by_name(module).get(function.name, ())):
            if scope.function is not function:
                found += _resolved(_with_arguments(record, function, call, scope), key, modules, depth + 1)
        if not found:
            raise UnclearSourceError(f"{record.file}: nobody calls {function.name}, which makes findings")
        return found
    if is_attribute(expression, key) and (rows := _rows_of_records(record, key, modules)):
        return rows
    if isinstance(expression, ast.Name) and (rows := _rows_of_tuples(record, expression.id)):
        return rows
    if not is_text(expression, record.fields[key][1]) and not is_attribute(expression, "reference"):
        raise UnclearSourceError(f"{record.file}: what {key} a {record.maker} has cannot be read from the source")
    return [record]


def _parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _with_arguments(record: Record, function: ast.FunctionDef, call: ast.Call, scope: Scope) -> Record:
    """The record with the arguments of a call in place of the function's own names."""
    names = [name for name in _parameters(function) if name not in ("self", "cls")]
    given = _bind(call, names, scope)
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = dict(zip([one.arg for one in positional[::-1]], function.args.defaults[::-1], strict=False))
    fields = {}
    for name, (expression, where) in record.fields.items():
        if isinstance(expression, ast.Name) and expression.id in given:
            fields[name] = given[expression.id]
        elif isinstance(expression, ast.Name) and expression.id in defaults:
            fields[name] = (defaults[expression.id], where)
        else:
            fields[name] = (expression, where)
    return replace(record, scope=scope, fields=fields)


def _rows_of_records(record: Record, key: str, modules: Sequence[Module]) -> list[Record]:
    """One record for each call of a class that has a field `key`: a table of what may be raised or found.

    The class stands in the same file, or is imported into it.
    """
    known = {name.name for node in ast.walk(record.scope.module.tree) if _is_import(node) for name in node.names}
    tables: dict[str, dict[str, ast.expr | None]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and (module is record.scope.module or node.name in known):
                declared = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                fields = {one.target.id: one.value for one in declared if isinstance(one.target, ast.Name)}
                if key in fields and node.name != record.maker:
                    tables[node.name] = fields
    rows = []
    for module in modules if tables else ():
        for call, scope in _calls(module):
            if defaults := tables.get(_called(call)):
                values = _bind(call, list(defaults), scope)
                given = {name: (value, scope) for name, value in defaults.items() if value is not None} | values
                fields_of_row = {
                    name: given.get(_attribute_of_row(expression), (expression, where))
                    for name, (expression, where) in record.fields.items()
                }
                rows.append(replace(record, fields=fields_of_row))
    return rows


def _is_import(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom)


def _attribute_of_row(node: ast.expr) -> str:
    """`text` of `row.text` and of `row.text.format_map(...)`; "" of anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr="format" | "format_map")):
            return name
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _rows_of_tuples(record: Record, name: str) -> list[Record]:
    """One record for each row of a table of tuples, one of whose elements is unpacked into `name`.

    The table is a dictionary of the module, of which one row is taken or all are, or a tuple that is looped over.
    """
    function, module = record.scope.function, record.scope.module
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Subscript(value=ast.Name(id=table))):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                values = module.constants.get(table)
                if name in names and isinstance(values, ast.Dict):
                    rows = [row.elts for row in values.values if isinstance(row, ast.Tuple)]
                    return [_with_names(record, dict(zip(names, row, strict=False))) for row in rows]
            case ast.For(
                target=ast.Tuple(elts=[_, ast.Tuple(elts=targets)]),
                iter=ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="items")),
            ):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                values = module.constants.get(table)
                if name in names and isinstance(values, ast.Dict):
                    rows = [row.elts for row in values.values if isinstance(row, ast.Tuple)]
                    return [_with_names(record, dict(zip(names, row, strict=False))) for row in rows]
            case ast.For(target=ast.Tuple(elts=targets), iter=ast.Name(id=table)):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                values = record.scope.names.get(table, module.constants.get(table))
                if name in names and isinstance(values, (ast.Tuple, ast.List)):
                    rows = [row.elts for row in values.elts if isinstance(row, ast.Tuple)]
                    return [_with_names(record, dict(zip(names, row, strict=False))) for row in rows]
    return []


def _with_names(record: Record, names: Mapping[str, ast.expr]) -> Record:
    fields = {
        field_name: (expression, replace(scope, names={**scope.names, **names}))
        for field_name, (expression, scope) in record.fields.items()
    }
    return replace(record, fields=fields)


def is_attribute(node: ast.expr, name: str) -> bool:
    """Whether the expression is `something.name`."""
    return isinstance(node, ast.Attribute) and node.attr == name


def _text_of_field(record: Record, name: str, truth: Mapping[str, bool]) -> str:
    if name not in record.fields:
        return ""
    expression, scope = record.fields[name]
    return _text(expression, scope, truth)


def _text(node: ast.expr, scope: Scope, truth: Mapping[str, bool]) -> str:
    match node:
        case ast.Constant(value=None):
            return ""
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, scope, truth) for part in parts)
        case ast.FormattedValue(value=value):
            return _text(value, scope, truth)
        case ast.BinOp(op=ast.Add(), left=left, right=right) if is_text(node, scope):
            return _text(left, scope, truth) + _text(right, scope, truth)
        case ast.IfExp(test=test, body=body, orelse=orelse) if is_text(node, scope):
            condition = ast.dump(test)
            if condition not in truth:
                raise _Undecided(condition)
            return _text(body if truth[condition] else orelse, scope, truth)
        case ast.BoolOp(op=ast.Or(), values=[first, *_]):
            return _text(first, scope, truth)
        case ast.Name() if is_text(node, scope):
            return _text(_value_of(node, scope) or node, scope, truth)
        case _:
            return f"<{_placeholder(node)}>"


def is_text(node: ast.expr, scope: Scope) -> bool:
    """Whether the source shows some of the text that the expression gives."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str)
        case ast.JoinedStr():
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_text(left, scope) or is_text(right, scope)
        case ast.IfExp(body=body, orelse=orelse):
            return is_text(body, scope) or is_text(orelse, scope)
        case ast.Name():
            found = _value_of(node, scope)
            return found is not None and is_text(found, replace(scope, names={}))
        case _:
            return False


def _value_of(name: ast.Name, scope: Scope) -> ast.expr | None:
    if scope.function is not None and name.id in _parameters(scope.function):
        return None
    return scope.names.get(name.id) or scope.module.constants.get(name.id)


def _placeholder(node: ast.AST) -> str:
    """A word for a value that is known only when the program runs."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return str(value)
        case ast.Name(id=name):
            return name.strip("_").replace("_", " ").lower()
        case ast.Attribute(value=value, attr=name):
            is_said_by_owner = name in _NAMELESS and not (isinstance(value, ast.Name) and value.id == "self")
            return _placeholder(value) if is_said_by_owner else name.strip("_").replace("_", " ").lower()
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.replace("_", " ")
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.FormattedValue(value=value):
            return _placeholder(value)
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.Constant):
            return _placeholder(first)
        case ast.Call(func=function):
            return _placeholder(function.value) if isinstance(function, ast.Attribute) else _placeholder(function)
        case ast.BinOp(op=ast.Sub(), left=left, right=right) if not isinstance(left, ast.Constant):
            return f"{_placeholder(left)} - {_placeholder(right)}"
        case ast.BinOp(left=left, right=right):
            return _placeholder(right if isinstance(left, ast.Constant) else left)
        case ast.BoolOp(values=[first, *_]):
            return _placeholder(first)
        case ast.IfExp(body=body):
            return _placeholder(body)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element) | ast.SetComp(elt=element):
            return _placeholder(element)
        case ast.JoinedStr(values=parts):
            inner = [part for part in parts if isinstance(part, ast.FormattedValue)]
            return _placeholder(inner[0]) if inner else "..."
        case _:
            return "..."
