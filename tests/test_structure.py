"""Sizes, names, folders and the public surface. Each check can fail: made trees at the end prove it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "rocktools"

MODULE_LINES = 500
FUNCTION_LINES = 60
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

# File, or file:function -> why it is longer. One that is short again fails the test.
LONG_MODULES: dict[str, str] = {
    "frames.py": "a table of data: the columns of every frame, which the design wants in one place",
}
LONG_FUNCTIONS: dict[str, str] = {
    "sources/xspace/event_decoder_numba.py:decode_octets": "numba keeps compiled code on disk of a function that calls "
    "no other one only, so its loop over the bytes is written out",
}

# Put together here, so that this file does not contain what it looks for.
_FOLDERS = ("work/", "root/", "home/(?!user\\b)", "Users/")
MACHINE_PATHS = re.compile("|".join(rf"(?<![\w.])/{folder}\w" for folder in _FOLDERS))


def check_module_sizes(root: Path, exceptions: dict[str, str]) -> list[str]:
    """Modules longer than `MODULE_LINES`, and exceptions that nothing needs."""
    sizes = {_name(root, path): len(path.read_text(encoding="utf-8").splitlines()) for path in root.rglob("*.py")}
    return _judge(sizes, MODULE_LINES, exceptions)


def check_function_sizes(root: Path, exceptions: dict[str, str]) -> list[str]:
    """Functions longer than `FUNCTION_LINES`, docstring included, and exceptions that nothing needs."""
    sizes = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno is not None
                name = f"{_name(root, path)}:{node.name}"
                sizes[name] = max(sizes.get(name, 0), node.end_lineno - node.lineno + 1)
    return _judge(sizes, FUNCTION_LINES, exceptions)


def _judge(sizes: dict[str, int], limit: int, exceptions: dict[str, str]) -> list[str]:
    long = {name: lines for name, lines in sizes.items() if lines > limit}
    complaints = [f"{name} has {lines} lines, more than {limit}" for name, lines in sorted(long.items())]
    complaints = [text for text in complaints if text.split(" ")[0] not in exceptions]
    return complaints + [f"{name}: the exception is not needed" for name in sorted(set(exceptions) - set(long))]


def check_names(root: Path) -> list[str]:
    """Modules and folders whose name says nothing, and folders below the second level."""
    complaints = []
    for path in sorted(root.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        if path.stem in VAGUE_NAMES:
            complaints.append(f"{_name(root, path)}: name the noun")
        if path.is_dir() and len(path.relative_to(root).parts) > 2:
            complaints.append(f"{_name(root, path)}: two levels of folders, no third")
    return complaints


def check_machine_paths(root: Path, files: Iterable[str]) -> list[str]:
    """Lines with the path of a folder that exists on one machine only."""
    complaints = []
    for name in files:
        path = root / name
        if not path.is_file():
            continue  # deleted, not yet committed
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if found := MACHINE_PATHS.search(line):
                complaints.append(f"{name}:{number}: {found.group()}...")
    return complaints


def check_public_names(declared: Iterable[str], importable: Iterable[str]) -> list[str]:
    """Names that are promised and not there, and names that are there and not promised."""
    public = {name for name in importable if not name.startswith("_") or name == "__version__"}
    missing = [f"{name} is in __all__ and cannot be imported" for name in sorted(set(declared) - public)]
    return missing + [f"{name} can be imported and is not in __all__" for name in sorted(public - set(declared))]


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def test_modules_are_short():
    assert check_module_sizes(ROOT, LONG_MODULES) == []


def test_functions_are_short():
    assert check_function_sizes(ROOT, LONG_FUNCTIONS) == []


def test_names_say_what_they_hold_and_folders_are_two_levels_deep():
    assert check_names(ROOT) == []


def test_no_tracked_file_names_a_folder_of_one_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files are tracked is not known")
    assert check_machine_paths(REPOSITORY, filter(None, listed.stdout.split("\0"))) == []


def test_public_names_are_those_that_can_be_imported():
    # In a process of its own: here, other tests have already added every module they import.
    script = "import rocktools; print(*rocktools.__all__); print(*vars(rocktools))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    declared, importable = ran.stdout.splitlines()
    assert check_public_names(declared.split(), importable.split()) == []


def test_every_exception_has_a_reason():
    assert all(len(reason) > 20 for reason in [*LONG_MODULES.values(), *LONG_FUNCTIONS.values()])


# The checks must be able to fail.


def _write(root: Path, file: str, text: str) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_long_module_is_found_and_may_be_excused_while_it_is_long(tmp_path):
    _write(tmp_path, "hlo/long.py", "\n" * 501)
    _write(tmp_path, "hlo/short.py", "\n" * 500)
    assert check_module_sizes(tmp_path, {}) == ["hlo/long.py has 501 lines, more than 500"]
    assert check_module_sizes(tmp_path, {"hlo/long.py": "a table"}) == []
    excused = {"hlo/long.py": "a table", "hlo/short.py": "once"}
    assert check_module_sizes(tmp_path, excused) == ["hlo/short.py: the exception is not needed"]


def test_long_function_is_found_and_may_be_excused_while_it_is_long(tmp_path):
    body = "        pass\n"
    _write(
        tmp_path, "hlo/module.py", f"class A:\n    def long(self):\n{60 * body}    async def short(self):\n{59 * body}"
    )
    assert check_function_sizes(tmp_path, {}) == ["hlo/module.py:long has 61 lines, more than 60"]
    assert check_function_sizes(tmp_path, {"hlo/module.py:long": "a table"}) == []
    excused = {"hlo/module.py:long": "a table", "hlo/module.py:short": "once"}
    assert check_function_sizes(tmp_path, excused) == ["hlo/module.py:short: the exception is not needed"]


def test_vague_names_and_third_levels_are_found(tmp_path):
    _write(tmp_path, "hlo/text/reader.py", "")
    assert check_names(tmp_path) == []
    _write(tmp_path, "hlo/utils.py", "")
    _write(tmp_path, "common/reader.py", "")
    _write(tmp_path, "hlo/text/deep/reader.py", "")
    assert check_names(tmp_path) == [
        "common: name the noun",
        "hlo/text/deep: two levels of folders, no third",
        "hlo/utils.py: name the noun",
    ]


def test_machine_paths_are_found(tmp_path):
    slash = "/"
    found = [
        f"{slash}work{slash}main",
        f"x={slash}root{slash}a",
        f"'{slash}home{slash}alice'",
        f"{slash}Users{slash}bob",
    ]
    fine = [f"{slash}home{slash}user", "network/main", "a/work/b", f"{slash}opt{slash}rocm", f"framework{slash}x"]
    _write(tmp_path, "a.md", "\n".join([*fine, *found]))
    complaints = check_machine_paths(tmp_path, ["a.md", "deleted.md"])
    assert [text.split(":")[1] for text in complaints] == ["6", "7", "8", "9"]


def test_public_surface_is_compared_both_ways():
    assert check_public_names(["__version__", "load"], ["__version__", "load", "_hidden", "__name__"]) == []
    assert check_public_names(["__version__", "load"], ["__version__", "save"]) == [
        "load is in __all__ and cannot be imported",
        "save can be imported and is not in __all__",
    ]
