"""The ROCm libraries that a plugin needs and this machine lacks -> libraries that only let it be loaded.

The ROCm plugin of JAX has its compiler inside and needs about a dozen libraries of ROCm to be loaded. Compiling without
a device calls none of their functions for a result. A stand-in has the soname, the versions of symbols and the
functions that the plugin looks for; each of them returns an error code, so whoever tries to run something is told so.

The loader itself says which libraries are missing. A function without a version may come from any library, so the
stand-ins take those that no present library has; a function with one goes to the library that the version names.
Needs a C compiler. Nothing of ROCm is replaced where it is there.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import CaptureError, ToolFailed, ToolNotFound
from rocktools.process import find_executable, read_output
from rocktools.replay.elf import ElfFile, NeededSymbol

_LOADER = Path("/lib64/ld-linux-x86-64.so.2")
_LINE = re.compile(r"^\s*(\S+) => (?:(not found)|(\S+))", re.MULTILINE)
_COMPILERS = ("cc", "gcc", "clang")
_C_NAME = re.compile(r"[A-Za-z_$][\w$.]*")
# What they return: hipErrorNoDevice where it is looked at as a number, a text where the name promises one.
_TEXT_FUNCTIONS = re.compile(r"ErrorString|ErrorName|to_string|GetErrorString|StatusString")
_COMPILE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """The stand-ins of one plugin.

    Attributes:
        folder: where they are; None where nothing was missing.
        libraries: sonames they stand for.
    """

    folder: Path | None
    libraries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """What the loader says of a library.

    Attributes:
        present: soname -> file.
        missing: sonames it does not find.
    """

    present: Mapping[str, Path]
    missing: tuple[str, ...]


def prepare_stand_ins(plugin: Path, cache: Path, *, env: Mapping[str, str], compiler: str | None = None) -> StandIns:
    """Stand-ins for what is missing of the plugin's libraries, made where the cache has none.

    Args:
        plugin: the shared library to load.
        cache: folder that may keep them; it is made.
        env: environment that the plugin will be loaded in.
        compiler: of C; None for the first of cc, gcc and clang in the PATH.

    Raises:
        ToolNotFound: something is missing, and there is no C compiler.
        ToolFailed: it could not compile them.
        CaptureError: the loader cannot say what is missing.
        InputError: the plugin is no library of this machine's kind, or is damaged.
    """
    linkage = find_linkage(plugin, env=env)
    if not linkage.missing:
        return StandIns(folder=None, libraries=())
    sources = render_stand_ins(_symbols_of(plugin), _defined_by(linkage.present.values()), linkage.missing)
    digest = hashlib.sha256(repr(sorted(sources.items())).encode("utf-8"))
    folder = cache / f"stand-ins-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        program = _find_compiler(linkage.missing, env, compiler)
        _build(sources, folder, program, env)
    return StandIns(folder=folder, libraries=linkage.missing)


def find_linkage(library: Path, *, env: Mapping[str, str]) -> Linkage:
    """Where the loader finds what a library needs, and what it does not find.

    Raises:
        CaptureError: this machine has no such loader, or it does not answer.
    """
    # What ldd does. The loader's own --list ends at the first library that is missing.
    if not _LOADER.exists():
        raise CaptureError(
            "no-loader", "only Linux on x86-64 with glibc can load the ROCm plugin of JAX", where=str(_LOADER)
        )
    output = read_output([str(_LOADER), str(library)], env={**env, "LD_TRACE_LOADED_OBJECTS": "1"}, timeout_s=60.0)
    if output.exit_code != 0:
        what = f"the loader cannot say what {library.name} needs: {output.stderr.strip()[:300]}"
        raise CaptureError("no-linkage", what, where=str(library))
    present, missing = {}, []
    for name, absent, path in _LINE.findall(output.stdout):
        if absent:
            missing.append(name)
        else:
            present[name] = Path(path)
    return Linkage(present=present, missing=tuple(dict.fromkeys(missing)))


def render_stand_ins(
    needed: Sequence[NeededSymbol], defined: frozenset[str], missing: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Soname -> C source and linker version script, "" for none, of each stand-in.

    Args:
        needed: what the plugin takes from others.
        defined: functions that a library that is there has.
        missing: sonames to stand in for.
    """
    functions: dict[str, dict[str, str]] = {name: {} for name in missing}
    for symbol in needed:
        if symbol.is_weak or not _C_NAME.fullmatch(symbol.name):
            continue
        if symbol.library in functions:
            functions[symbol.library][symbol.name] = symbol.version
        elif not symbol.version and symbol.name not in defined:
            functions[missing[0]][symbol.name] = ""
    return {name: (_c_source(symbols), _version_script(symbols)) for name, symbols in functions.items()}


def _c_source(symbols: Mapping[str, str]) -> str:
    """One function for each symbol, under a name of ours: a symbol may be no word of C."""
    lines = []
    for number, name in enumerate(sorted(symbols)):
        is_text = _TEXT_FUNCTIONS.search(name) is not None
        kind, value = ("const char *", '"not available: a stand-in without ROCm"') if is_text else ("long ", "100")
        lines.append(f'{kind}f{number}(void) __asm__("{name}");')
        lines.append(f"{kind}f{number}(void) {{ return {value}; }}")
    return "\n".join([*lines, ""])


def _version_script(symbols: Mapping[str, str]) -> str:
    by_version: dict[str, list[str]] = {}
    for name, version in sorted(symbols.items()):
        if version:
            by_version.setdefault(version, []).append(name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in sorted(by_version.items()))


def _build(sources: Mapping[str, tuple[str, str]], folder: Path, compiler: Path, env: Mapping[str, str]) -> None:
    """All stand-ins, in a folder that appears when they are whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"the folder for stand-ins cannot be made: {error.strerror}"
        raise CaptureError("stand-in-folder", what, where=str(folder.parent)) from error
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".stand-ins-") as name:
        made = Path(name) / "made"
        made.mkdir()
        for soname, (source, script) in sources.items():
            file = Path(name) / f"{soname}.c"
            file.write_text(source, encoding="utf-8")
            argv = [str(compiler), "-shared", "-fPIC", "-O0", "-w", f"-Wl,-soname,{soname}"]
            if script:
                versions = Path(name) / f"{soname}.versions"
                versions.write_text(script, encoding="utf-8")
                argv.append(f"-Wl,--version-script={versions}")
            output = read_output([*argv, "-o", str(made / soname), str(file)], env=env, timeout_s=_COMPILE_TIMEOUT_S)
            if output.exit_code != 0:
                raise ToolFailed(
                    "stand-in-failed",
                    f"{compiler.name} could not make a stand-in for {soname}: {output.stderr.strip()[-500:]}",
                    where=str(compiler),
                    hint="install gcc, or ROCm itself",
                )
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, and made the same
                shutil.copytree(made, folder)


def _find_compiler(missing: Sequence[str], env: Mapping[str, str], compiler: str | None) -> Path:
    names = [compiler] if compiler else _COMPILERS
    for name in names:
        found = find_executable(name, path=env.get("PATH", ""))
        if found is not None:
            return found
    raise ToolNotFound(
        "no-c-compiler",
        f"the ROCm plugin needs {len(missing)} libraries that are not here ({', '.join(missing[:3])}, ...), and there "
        f"is no C compiler ({', '.join(names)}) to make stand-ins for them",
        hint="apt-get install gcc, or use a machine with ROCm",
    )


def _symbols_of(library: Path) -> list[NeededSymbol]:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return ElfFile(content, str(library)).needed_symbols()


def _defined_by(libraries: Iterable[Path]) -> frozenset[str]:
    """What the libraries define."""
    names: set[str] = set()
    for library in libraries:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            names |= {symbol.name for symbol in ElfFile(content, str(library)).symbols() if symbol.section}
    return frozenset(names)
