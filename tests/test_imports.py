"""Imports go one way, and a few names live in one place only: the table of the design, enforced with `ast`.

Everything is read from the source, nothing is imported. Each check returns its complaints as `file:line: text`, so that
the checks can be tried on small made trees at the end of this file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "rocktools"

FLOOR = {"errors", "evidence", "units", "findings", "intervals", "frames"}
# Small, on errors alone; protos needs protobuf when called, yaml_file needs yaml.
ANYONE = {"extras", "assets", "protos", "yaml_file"}
_BELOW_WORKSPACE = {
    *FLOOR, "process", "rundir", "devices", "hlo", "timeline", "sources", "counters", "analytic", "roofline",
    "correlate", "attribution", "rules",
}  # fmt: skip

# Module or folder -> what of rocktools it may import, itself and `ANYONE` aside. A dotted name allows that module only.
TABLE: dict[str, set[str]] = {
    "errors": set(),
    "evidence": set(),
    "units": set(),
    "extras": {"errors"},
    "assets": {"errors"},
    "protos": set(),
    "yaml_file": {"errors"},
    "findings": {"errors", "evidence"},
    "intervals": {"errors"},  # for ContractError; the design names numpy only
    "frames": {"errors", "evidence", "units"},
    "interrupts": set(),
    "process": {"errors", "interrupts"},
    "rundir": FLOOR,
    "devices": FLOOR,
    "hlo": FLOOR,
    "timeline": FLOOR,
    "sources": FLOOR,
    "counters": FLOOR | {"devices"},
    "analytic": FLOOR | {"devices"},
    "roofline": FLOOR | {"devices"},
    "correlate": FLOOR | {"hlo"},
    "attribution": FLOOR | {"hlo", "timeline", "correlate", "analytic"},
    "rules": FLOOR | {"hlo", "timeline", "analytic", "devices", "attribution", "counters"},
    "capture": FLOOR | {"process", "rundir", "devices", "sources", "correlate", "counters"},
    "replay": FLOOR | {"hlo", "correlate", "process", "rundir", "devices"},
    "workspace": _BELOW_WORKSPACE,
    "summary": _BELOW_WORKSPACE | {"workspace", "replay.prove"},
    # Batches start tools and keep a run directory, as captures do.
    "batch": FLOOR | {"process", "rundir", "interrupts", "workspace", "capture", "replay", "summary.document"},
    # The ledger of experiments keeps documents of its own, read and written as those of summaries are.
    "compare": FLOOR | {"summary.document", "summary.document_json"},
    "render": FLOOR
    | {
        *("summary.document", "devices.device", "roofline.points", "roofline.verdict", "timeline.tracks"),
        *("compare.comparison", "compare.parity", "compare.track", "compare.history"),
    },
    "demo": FLOOR | {"hlo", "rundir", "devices", "analytic"},
    "cli": _BELOW_WORKSPACE | {"workspace", "capture", "replay", "batch", "summary", "compare", "render", "demo"},
}

# Rows that may import nothing else from outside the standard library.
THIRD_PARTY: dict[str, set[str]] = {
    "errors": set(),
    "evidence": set(),
    "units": set(),
    "findings": set(),
    "extras": set(),
    "assets": set(),
    "interrupts": set(),
    "process": set(),
    "intervals": {"numpy"},
    "frames": {"numpy", "pandas"},
}

# (file, import or name that is banned there) -> why it is there all the same. One that nothing needs fails the test.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("cli/versions.py", "sqlite3"): "--version tells the version of the SQLite library, which no metadata knows",
}

HEAVY = {"numpy", "pandas", "jax", "jaxlib", "rich", "pyarrow", "matplotlib", "yaml", "sqlite3"}
_STARTERS = {"os.system", "os.popen", "os.posix_spawn", "os.fork", "os.execv", "os.execve", "os.execvp", "os.execvpe"}
_ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv"}
_ENDINGS = {"sys.exit", "os._exit", "SystemExit"}

# Banned name, or import -> the files and folders where it may be.
BANS: dict[str, set[str]] = {
    "subprocess": {"process.py"},
    **{name: {"process.py"} for name in _STARTERS},
    "click": {"cli"},
    "print": {"cli"},
    **{name: {"cli"} for name in _ENDINGS},
    "sqlite3": {"sources", "demo"},
    **{name: {"cli", "capture"} for name in _ENVIRONMENT},
}


@dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        file: below the root, with slashes.
        target: dotted name of the imported module.
        name: what is imported from it; "" for the module itself.
        alias: what it is called here.
        is_run: whether importing the file imports this (not inside a function, not for type checkers only).
    """

    file: str
    line: int
    target: str
    name: str
    alias: str
    is_run: bool


@dataclass(frozen=True)
class Source:
    """A parsed file."""

    file: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def row(self) -> str:
        """The row of the table it belongs to; "" for the package itself."""
        first = self.file.split("/")[0].removesuffix(".py")
        return "" if first == "__init__" else first


def read_sources(root: Path) -> dict[str, Source]:
    """Dotted name of every module below `root` -> its source."""
    sources = {}
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        parts = [root.name, *file.removesuffix(".py").split("/")]
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=file)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        imports = tuple(_imports(tree, file, package, root))
        sources[module] = Source(file=file, tree=tree, imports=imports)
    return sources


def _imports(tree: ast.Module, file: str, package: str, root: Path) -> Iterator[Import]:
    for node, is_run in _with_run(tree, True):
        if isinstance(node, ast.Import):
            for name in node.names:
                alias = name.asname or name.name.split(".")[0]
                yield Import(file, node.lineno, name.name, "", alias, is_run)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*up, *([node.module] if node.module else [])])
            for name in node.names:
                alias = name.asname or name.name
                if _is_module(root, f"{target}.{name.name}"):
                    yield Import(file, node.lineno, f"{target}.{name.name}", "", alias, is_run)
                else:
                    yield Import(file, node.lineno, target, name.name, alias, is_run)


def _with_run(node: ast.AST, is_run: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether importing the module executes it."""
    yield node, is_run
    body_is_run = is_run and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        is_typing_only = (
            isinstance(node, ast.If) and _dotted(node.test).endswith("TYPE_CHECKING") and child in node.body
        )
        yield from _with_run(child, body_is_run and not is_typing_only)


def _is_module(root: Path, dotted: str) -> bool:
    path = root.parent.joinpath(*dotted.split("."))
    return dotted.startswith(root.name) and (path.is_dir() or path.with_suffix(".py").is_file())


def _dotted(node: ast.AST) -> str:
    """`a.b.c` of such an expression; "" of any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{base}.{node.attr}" if (base := _dotted(node.value)) else ""
    return ""


def check_table(sources: dict[str, Source]) -> list[str]:
    """Imports that the table does not allow."""
    complaints = []
    for source in sources.values():
        if source.row not in TABLE and source.row:
            complaints.append(f"{source.file}:1: {source.row} has no row in the table of allowed imports")
        for found in source.imports:
            where = f"{found.file}:{found.line}"
            package, _, inner = found.target.partition(".")
            if package == ROOT.name:
                allowed = TABLE.get(source.row, set()) | ANYONE | {source.row}
                is_version = not inner and found.name == "__version__"
                if not is_version and not any(f"{inner}.".startswith(f"{name}.") for name in allowed if name):
                    complaints.append(f"{where}: {source.row or 'the package'} may not import {found.target}")
            elif package not in sys.stdlib_module_names and package not in THIRD_PARTY.get(source.row, {package}):
                complaints.append(f"{where}: {source.row} may not import {found.target}")
    return complaints


def check_bans(sources: dict[str, Source], exceptions: dict[tuple[str, str], str]) -> list[str]:
    """Imports and names outside the place where they belong, and exceptions that nothing needs."""
    complaints = []
    used = set()
    for source in sources.values():
        places = {source.file, source.row}
        for line, name in sorted(_mentions(source)):
            if name not in BANS or places & BANS[name]:
                continue
            if (source.file, name) in exceptions:
                used.add((source.file, name))
            else:
                allowed = ", ".join(sorted(BANS[name]))
                complaints.append(f"{source.file}:{line}: {name} belongs in {allowed} only")
    complaints += [f"{file}: the exception for {name} is not needed" for file, name in sorted(set(exceptions) - used)]
    return complaints


def _mentions(source: Source) -> set[tuple[int, str]]:
    """Imported modules by first name, names from modules, and names used, each with its line."""
    found = {(one.line, one.target.split(".")[0]) for one in source.imports}
    found |= {(one.line, f"{one.target}.{one.name}") for one in source.imports if one.name}
    modules = {one.alias: one.target for one in source.imports if not one.name}
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            first, dot, rest = _dotted(node).partition(".")
            found.add((node.lineno, f"{modules.get(first, first)}{dot}{rest}"))
    return found


def check_jax(sources: dict[str, Source]) -> list[str]:
    """Imports of jax that happen when a module is imported."""
    return [
        f"{found.file}:{found.line}: {found.target} must be imported inside a function"
        for source in sources.values()
        for found in source.imports
        if found.is_run and found.target.split(".")[0] in ("jax", "jaxlib")
    ]


def check_start(sources: dict[str, Source], heavy: set[str]) -> list[str]:
    """Heavy libraries that importing a module of cli imports too, with the chain that leads there."""
    complaints = []
    for module, source in sources.items():
        if source.row == "cli":
            chain = _chain_to(module, sources, heavy)
            if chain:
                complaints.append(f"{source.file}: importing it imports {' -> '.join(chain)}")
    return complaints


def _chain_to(module: str, sources: dict[str, Source], heavy: set[str]) -> list[str]:
    """The shortest chain of imports from `module` to one of `heavy`; empty where there is none."""
    chains = [[module]]
    seen = {module}
    for chain in chains:  # grows while it is walked: breadth first
        source = sources.get(chain[-1])
        for found in source.imports if source else ():
            parts = found.target.split(".")
            # Importing a.b.c imports a and a.b on the way.
            for target in (".".join(parts[: length + 1]) for length in range(len(parts))):
                if found.is_run and target not in seen:
                    seen.add(target)
                    chains.append([*chain, target])
                    if target in heavy:
                        return chains[-1]
    return []


def check_underscores(sources: dict[str, Source]) -> list[str]:
    """Names with a leading underscore that are taken from another module."""
    complaints = []
    for source in sources.values():
        ours = [found for found in source.imports if found.target.split(".")[0] == ROOT.name]
        for found in ours:
            private = [part for part in (*found.target.split("."), found.name) if _is_private(part)]
            complaints += [f"{found.file}:{found.line}: {part} is private to its module" for part in private]
        aliases = {found.alias for found in ours}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and _is_private(node.attr):
                base = _dotted(node.value)
                if base.split(".")[0] in aliases:
                    complaints.append(f"{source.file}:{node.lineno}: {base}.{node.attr} is private to its module")
    return complaints


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    return read_sources(ROOT)


def test_imports_keep_to_the_table(sources):
    assert check_table(sources) == []


def test_banned_names_are_where_they_belong(sources):
    assert check_bans(sources, EXCEPTIONS) == []


def test_jax_is_imported_inside_functions_only(sources):
    assert check_jax(sources) == []


def test_command_line_starts_without_heavy_libraries(sources):
    assert check_start(sources, HEAVY) == []


def test_private_names_stay_in_their_module(sources):
    assert check_underscores(sources) == []


def test_every_exception_has_a_reason():
    assert all(len(reason) > 20 for reason in EXCEPTIONS.values())


def test_table_allows_no_circle():
    done: set[str] = set()
    rows = {row: {name.split(".")[0] for name in allowed} for row, allowed in TABLE.items()}
    while ready := {row for row, allowed in rows.items() if row not in done and allowed <= done}:
        done |= ready
    assert done == set(rows)


# The checks must be able to fail: made trees, each with one mistake.

GOOD = {
    "__init__.py": '__version__ = "1"\n',
    "errors.py": "import difflib\n",
    "frames.py": "import numpy, pandas\nfrom rocktools.errors import E\n",
    "process.py": "import subprocess\nfrom rocktools.errors import E\n",
    "sources/__init__.py": "",
    "sources/rocpd/__init__.py": "",
    "sources/rocpd/database.py": "import sqlite3\nfrom rocktools.sources.rocpd import schema\n",
    "sources/rocpd/schema.py": "_private = 1\npublic = _private\n",
    "replay/prove.py": "from rocktools.hlo import module\n",
    "hlo/module.py": "class Module:\n    def f(self):\n        import jax\n        return self._x\n",
    "summary/build.py": "from rocktools.replay import prove\nfrom rocktools.extras import require_extra\n",
    "extras.py": "from rocktools.errors import E\n",
    "cli/__init__.py": "",
    "cli/main.py": "import os, sys, click\nfrom typing import TYPE_CHECKING\nfrom rocktools import __version__\n"
    "if TYPE_CHECKING:\n    from rocktools.frames import DISPATCHES\n"
    "def f():\n    from rocktools.frames import DISPATCHES\n    print(os.environ)\n    sys.exit(0)\n",
}  # fmt: skip

MISTAKES = [
    (check_table, "frames.py", "from rocktools.sources.rocpd import schema", "frames may not import rocktools.sources"),
    (check_table, "frames.py", "def f():\n    import rocktools.cli.main", "frames may not import rocktools.cli.main"),
    (check_table, "frames.py", "from .cli import main", "frames may not import rocktools.cli.main"),
    (check_table, "frames.py", "import scipy", "frames may not import scipy"),
    (check_table, "errors.py", "import numpy", "errors may not import numpy"),
    (check_table, "sources/rocpd/schema.py", "from ...hlo import module", "sources may not import rocktools.hlo"),
    (check_table, "summary/build.py", "from rocktools.replay import emit", "summary may not import rocktools.replay"),
    (check_table, "__init__.py", "from rocktools.errors import E", "the package may not import rocktools.errors"),
    (check_table, "hlo/module.py", "from rocktools import frame", "hlo may not import rocktools"),
    (check_table, "novelty.py", "", "novelty has no row"),
    (check_bans, "hlo/module.py", "import subprocess", "subprocess belongs in process.py only"),
    (check_bans, "hlo/module.py", "from subprocess import run", "subprocess belongs in process.py only"),
    (check_bans, "hlo/module.py", "import os as o\no.system('ls')", "os.system belongs in process.py only"),
    (check_bans, "hlo/module.py", "def f():\n    from click import echo", "click belongs in cli only"),
    (check_bans, "hlo/module.py", "def f():\n    print(1)", "print belongs in cli only"),
    (check_bans, "hlo/module.py", "import sys\nsys.exit(1)", "sys.exit belongs in cli only"),
    (check_bans, "hlo/module.py", "from sys import exit", "sys.exit belongs in cli only"),
    (check_bans, "hlo/module.py", "raise SystemExit", "SystemExit belongs in cli only"),
    (check_bans, "cli/main.py", "import sqlite3", "sqlite3 belongs in demo, sources only"),
    (check_bans, "hlo/module.py", "import os\nx = os.environ['A']", "os.environ belongs in capture, cli only"),
    (check_bans, "hlo/module.py", "from os import getenv", "os.getenv belongs in capture, cli only"),
    (check_jax, "hlo/module.py", "import jax.numpy as jnp", "jax.numpy must be imported inside a function"),
    (check_jax, "hlo/module.py", "if True:\n    from jax import jit", "jax must be imported inside a function"),
    (check_start, "cli/main.py", "import pandas", "cli/main.py: importing it imports rocktools.cli.main -> pandas"),
    (check_start, "cli/main.py", "from rocktools import frames", "rocktools.cli.main -> rocktools.frames -> numpy"),
    (check_start, "cli/main.py", "import rocktools.sources.rocpd.database", "rocpd.database -> sqlite3"),
    (check_start, "__init__.py", "import numpy", "rocktools.cli.main -> rocktools -> numpy"),
    (check_underscores, "sources/rocpd/database.py", "from .schema import _private", "_private is private"),
    (check_underscores, "sources/rocpd/database.py", "schema._private", "schema._private is private"),
    (check_underscores, "sources/rocpd/database.py", "import rocktools\nrocktools.hlo.module._x", "hlo.module._x is"),
    (check_underscores, "hlo/module.py", "from rocktools.errors import E as F\nF._x()", "F._x is private"),
    (check_underscores, "hlo/module.py", "from rocktools import _hidden", "_hidden is private"),
]  # fmt: skip


def _complaints(check, root: Path) -> list[str]:
    sources = read_sources(root)
    arguments = {check_bans: ({},), check_start: (HEAVY,)}.get(check, ())
    return check(sources, *arguments)


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "rocktools"
    for file, text in GOOD.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("check", [check_table, check_bans, check_jax, check_start, check_underscores])
def test_checks_accept_a_good_tree(check, tree):
    assert _complaints(check, tree) == []


@pytest.mark.parametrize("check, file, mistake, complaint", MISTAKES)
def test_checks_find_each_mistake(check, file, mistake, complaint, tree):
    path = tree / file
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{before}{mistake}\n", encoding="utf-8")
    complaints = _complaints(check, tree)
    assert any(complaint in found for found in complaints), complaints


def test_exception_silences_its_ban_and_must_be_needed(tree):
    (tree / "hlo/module.py").write_text("import sqlite3\n", encoding="utf-8")
    sources = read_sources(tree)
    assert check_bans(sources, {("hlo/module.py", "sqlite3"): "a reason"}) == []
    unneeded = {("hlo/module.py", "sqlite3"): "a reason", ("errors.py", "click"): "once it was"}
    assert check_bans(sources, unneeded) == ["errors.py: the exception for click is not needed"]
