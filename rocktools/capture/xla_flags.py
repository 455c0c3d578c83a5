"""XLA_FLAGS as XLA reads it: parsed, merged, written back, and checked. Pure: no environment, no files.

XLA does not read the variable as a shell would. Its rules, read in xla/parse_flags_from_env.cc (openxla/xla 001918b7)
and tried on jaxlib 0.10.2, but for the lists of the last point, which were read only (xla/debug_options_flags.cc):

* The first character that is not a blank must be `-`; anything else is taken for the name of a file with the flags, and
  a file that is not there ends the process. A variable of nothing but blanks is such a name.
* A flag is `--name`, `--name=value`, or `--name='value'`; quotes count only directly after the `=`. In double quotes a
  backslash takes the next character as it is; in single quotes it does not. Elsewhere quotes belong to the value.
* At the first thing that does not begin with `-` XLA stops reading and says nothing: all later flags are lost.
* A flag XLA does not know ends the process, so only flags that every version has are set here.
* A flag that is repeated is set again, so the last one wins. A few lists grow instead (xla_disable_hlo_passes,
  xla_backend_extra_options), and `+X` or `-X` changes a list of command buffers: repeats of others' flags stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import UsageError
from rocktools.findings import Finding, Severity

WHERE = "environment: XLA_FLAGS"
COMMAND_BUFFER = "xla_gpu_enable_command_buffer"

_BLANKS = " \t\r\n"
_NAME = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_QUOTES = ("'", '"')
_MEANING_NO = {"0", "f", "false", "n", "no", "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class XlaFlag:
    """One flag.

    Attributes:
        name: without the leading dashes.
        value: without the quotes around it; None where there is no `=`.
        quote: the quote character it was written with, or "".
        is_closed: whether that quote ends; where it does not, XLA takes the rest of the text as the value.
        dashes: those before the name: XLA knows none but `--`.
    """

    name: str
    value: str | None = None
    quote: str = ""
    is_closed: bool = True
    dashes: str = "--"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFlags:
    """What XLA makes of a text.

    Attributes:
        flags: in order, repeats included.
        unread: the text from where XLA stops reading; "" where it reads all.
    """

    flags: tuple[XlaFlag, ...]
    unread: str = ""


def parse_xla_flags(text: str) -> ParsedFlags:
    """The flags in `text`, which must be the flags themselves and not the name of a file."""
    flags = []
    at = _skip_blanks(text, 0)
    while at < len(text) and text[at] == "-":
        flag, at = _parse_flag(text, at)
        flags.append(flag)
        at = _skip_blanks(text, at)
    return ParsedFlags(flags=tuple(flags), unread=text[at:])


def _parse_flag(text: str, start: int) -> tuple[XlaFlag, int]:
    """The flag at `start`, and where it ends."""
    match = _NAME.match(text, start)
    assert match is not None  # it matches nothing, too
    end = match.end()
    if text[end : end + 1] == "=" and text[end + 1 : end + 2] in _QUOTES:
        value, after = _parse_quoted(text, end + 1)
        dashes, name = _without_dashes(match.group())
        is_closed = after is not None
        flag = XlaFlag(name=name, value=value, quote=text[end + 1], is_closed=is_closed, dashes=dashes)
        return flag, len(text) if after is None else after
    while end < len(text) and text[end] not in _BLANKS:
        end += 1
    written, equals, value = text[start:end].partition("=")
    dashes, name = _without_dashes(written)
    return XlaFlag(name=name, value=value if equals else None, dashes=dashes), end


def _parse_quoted(text: str, start: int) -> tuple[str, int | None]:
    """The value in the quotes that open at `start`, and what follows them; None where they do not close."""
    quote = text[start]
    characters = []
    at = start + 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and at + 1 < len(text):
            at += 1
        characters.append(text[at])
        at += 1
    return "".join(characters), at + 1 if at < len(text) else None


def _without_dashes(written: str) -> tuple[str, str]:
    name = written.lstrip("-")
    return written[: len(written) - len(name)], name


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def render_xla_flags(flags: Iterable[XlaFlag]) -> str:
    """The text that XLA reads as `flags`: quotes only around a value that needs them, and never around an empty one.

    JAX's key of the compilation cache, launchers and scripts split the variable at blanks, so the fewer quotes the
    better.
    """
    return " ".join(f"{flag.dashes}{flag.name}{_value_of(flag)}" for flag in flags)


def _value_of(flag: XlaFlag) -> str:
    if flag.value is not None and _NAME.fullmatch(flag.name) is None:  # behind such a name XLA knows no quotes
        return f"={flag.value}"
    return _value_text(flag.value)


def _value_text(value: str | None) -> str:
    if value is None:
        return ""
    if not any(blank in value for blank in _BLANKS) and value[:1] not in _QUOTES:
        return f"={value}"
    if "'" not in value:
        return f"='{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'="{escaped}"'


def merge_xla_flags(old: str | None, wanted: Mapping[str, str | None]) -> str:
    """`old` with the flags in `wanted` set: every earlier value of theirs goes, all else stays in its order.

    Args:
        old: the variable as it is; None or "" where it is not set.
        wanted: flag without dashes -> value; None for a flag without `=`.

    Raises:
        UsageError: XLA would not read `old` to its end, so that what is added might be lost; `old` names a file; or a
            wanted name or value cannot be written.
    """
    for name, value in wanted.items():
        if not name or _NAME.fullmatch(name) is None or name.startswith("-") or "\0" in (value or ""):
            raise UsageError("xla-flags-unwritable", f"{name!r} = {value!r} cannot be written as an XLA flag")
    text = old or ""
    if text.strip(_BLANKS) and _is_file_name(text):
        raise UsageError(
            "xla-flags-file",
            f"XLA_FLAGS is {text!r}, which XLA takes for the name of a file with the flags: nothing can be added to it",
            where=WHERE,
            hint='XLA_FLAGS="$(cat FILE)", which XLA reads in the same way',
        )
    parsed = parse_xla_flags(text)
    if parsed.unread:
        raise UsageError(
            "xla-flags-unread",
            f"XLA stops reading XLA_FLAGS at {_shortened(parsed.unread)!r}, and flags after that are lost",
            where=WHERE,
            hint="write --name=value, with quotes directly after the = where a value has blanks",
        )
    kept = [flag for flag in parsed.flags if flag.dashes != "--" or flag.name not in wanted]
    return render_xla_flags([*kept, *(XlaFlag(name=name, value=value) for name, value in wanted.items())])


def attribution_flags(hlo_dir: str | Path) -> dict[str, str | None]:
    """The flags of a run whose kernels are to be traced back to HLO instructions, for `merge_xla_flags`.

    Command buffers are off: launched as HIP graphs, kernels lose their instruction, and rocprofv3 loses kernels or
    crashes (Reactant.jl 3175; rocm-systems 4361). It costs speed, so such a run gives no headline number. The dump is
    what comes out of the compiler: optimized HLO as text and proto, buffer assignment, and the thunk sequence with its
    metadata, which XLA writes with every dump; no HLO between passes, which is gigabytes for a large model.

    Args:
        hlo_dir: absolute, for the job may change its folder. Processes that share it overwrite each other's files,
            which bear the number and name of the module only: give each its own.

    Raises:
        UsageError: `hlo_dir` is not absolute.
    """
    if not Path(hlo_dir).is_absolute():
        raise UsageError(
            "xla-dump-relative",
            f"the folder of the XLA dump is {str(hlo_dir)!r}, but must be an absolute path: the job may change folders",
        )
    return {
        COMMAND_BUFFER: "",
        "xla_dump_to": str(hlo_dir),
        "xla_dump_hlo_as_text": "true",
        "xla_dump_hlo_as_proto": "true",
        "xla_dump_hlo_pass_re": "",
    }


def attribution_environment(env: Mapping[str, str], hlo_dir: str | Path) -> dict[str, str]:
    """What to change in `env` for an attribution run.

    A program that comes out of JAX's persistent cache is not compiled, and leaves almost no dump: tried on jax 0.10.2,
    where this variable also overrules a cache that the job sets itself, as MaxText does by default. So every program is
    compiled and autotuned anew.

    Raises:
        UsageError: as `merge_xla_flags` and `attribution_flags`.
    """
    flags = merge_xla_flags(env.get("XLA_FLAGS"), attribution_flags(hlo_dir))
    return {"XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "false"}


def has_command_buffers(flags: Iterable[XlaFlag]) -> bool:
    """Whether command buffers are on. They are by default, in every rocm-jaxlib since 0.8."""
    is_on = True
    for flag in flags:
        if flag.name == COMMAND_BUFFER and flag.value is not None:
            values = [value for part in flag.value.split(",") if (value := part.strip())]
            if not flag.value:
                is_on = False
            elif any(not value.startswith("-") for value in values):
                is_on = True
            # Values with a minus take away from a default that differs between versions: something may stay.
    return is_on


def check_xla_flags(env: Mapping[str, str], *, is_attribution: bool = True) -> list[Finding]:
    """What is wrong with XLA_FLAGS in `env`, or makes kernels untraceable.

    Args:
        env: the environment that the job will get.
        is_attribution: whether its kernels are to be traced back to HLO instructions. False for throughput runs, where
            command buffers are part of what is measured.
    """
    text = env.get("XLA_FLAGS", "")
    if text and _is_file_name(text):
        return [_file_finding(text)]
    parsed = parse_xla_flags(text)
    findings = [finding for flag in parsed.flags for finding in _check_quotes(flag)]
    if parsed.unread:
        findings.append(
            Finding(
                rule="xla-flags-unread",
                severity=Severity.FAULT,
                where=WHERE,
                message=f"XLA stops reading at {_shortened(parsed.unread)!r}, silently: flags after that are lost",
                advice="write --name=value, with quotes directly after the = where a value has blanks",
            )
        )
    findings += [_unknown_finding(flag) for flag in parsed.flags if flag.dashes != "--" or not flag.name]
    findings += _check_repeats(parsed.flags)
    if is_attribution:
        findings += _check_attribution(parsed.flags, env)
    return findings


def _is_file_name(text: str) -> bool:
    return not text.lstrip(_BLANKS).startswith("-")


def _file_finding(text: str) -> Finding:
    stripped = text.strip(_BLANKS)
    if not stripped or stripped[0] in _QUOTES:
        return Finding(
            rule="xla-flags-quotes" if stripped else "xla-flags-blank",
            severity=Severity.FAULT,
            where=WHERE,
            message=f"the value is {_shortened(text)!r}: XLA takes that for the name of a file, and ends the process",
            advice="remove the quotes around the whole" if stripped else "unset XLA_FLAGS",
        )
    return Finding(
        rule="xla-flags-file",
        severity=Severity.WARNING,
        where=WHERE,
        message=f"the value is {_shortened(text)!r}, which XLA takes for the name of a file with the flags: it can be "
        "neither recorded nor added to",
        advice='use XLA_FLAGS="$(cat FILE)", which XLA reads in the same way',
    )


def _check_quotes(flag: XlaFlag) -> list[Finding]:
    """Quote characters that are part of the value, or that only XLA itself takes away."""
    value = flag.value or ""
    bare = value.strip("".join(_QUOTES))
    if not flag.is_closed:
        severity, message = Severity.FAULT, f"has a quote that does not close: its value is all the rest, {value!r}"
    elif any(quote in value for quote in _QUOTES):
        severity, message = Severity.FAULT, f"reaches XLA as {value!r}, with the quote characters in it"
    elif flag.quote and _value_text(value) == f"={value}":
        severity = Severity.WARNING
        message = "is written with quotes: XLA takes them off, but whatever splits the variable at blanks does not"
    else:
        return []
    return [
        Finding(
            rule="xla-flags-quotes",
            severity=severity,
            where=WHERE,
            message=f"{flag.dashes}{flag.name} {message}",
            advice=f"write {flag.dashes}{flag.name}{_value_text(bare)}",
        )
    ]


def _unknown_finding(flag: XlaFlag) -> Finding:
    return Finding(
        rule="xla-flags-unknown",
        severity=Severity.FAULT,
        where=WHERE,
        message=f"XLA ends the process at {flag.dashes}{flag.name}: its flags have two dashes and a name",
        advice=f"write --{flag.name or 'name'}",
    )


def _check_repeats(flags: Iterable[XlaFlag]) -> list[Finding]:
    values: dict[str, list[str | None]] = {}
    for flag in flags:
        values.setdefault(flag.name, []).append(flag.value)
    return [
        Finding(
            rule="xla-flags-repeated",
            severity=Severity.NOTE,
            where=WHERE,
            message=f"--{name} is set {len(found)} times, last to {found[-1]!r}, which wins unless it is a list",
            numbers={"set_count": len(found)},
            advice="keep one of them",
        )
        for name, found in values.items()
        if len(set(found)) > 1
    ]


def _check_attribution(flags: tuple[XlaFlag, ...], env: Mapping[str, str]) -> list[Finding]:
    findings = []
    values = {flag.name: flag.value for flag in flags}  # the last one wins
    if has_command_buffers(flags):
        findings.append(
            Finding(
                rule="xla-command-buffers-on",
                severity=Severity.FAULT,
                where=WHERE,
                message="command buffers are on: kernels launched as HIP graphs lose their HLO instruction, and "
                "rocprofv3 misses some of them or crashes",
                advice=f"add --{COMMAND_BUFFER}= (nothing after the =); not for runs that measure throughput",
            )
        )
    if not values.get("xla_dump_to"):
        findings.append(
            Finding(
                rule="xla-dump-off",
                severity=Severity.WARNING,
                where=WHERE,
                message="there is no --xla_dump_to: without the thunk sequence, kernels are matched to instructions by "
                "order and name only",
                advice="add --xla_dump_to=FOLDER",
            )
        )
    elif env.get("JAX_ENABLE_COMPILATION_CACHE", "").strip().lower() not in _MEANING_NO:
        cache = env.get("JAX_COMPILATION_CACHE_DIR")
        findings.append(
            Finding(
                rule="xla-dump-behind-cache",
                severity=Severity.WARNING if cache else Severity.NOTE,
                where="environment: JAX_COMPILATION_CACHE_DIR" if cache else WHERE,
                message="programs that come out of JAX's persistent cache "
                + (
                    f"in {cache!r} are not compiled, and leave no dump"
                    if cache
                    else "leave no dump, if the job has one"
                ),
                advice="set JAX_ENABLE_COMPILATION_CACHE=false for this run",
            )
        )
    if values.get("xla_dump_hlo_pass_re"):
        findings.append(
            Finding(
                rule="xla-dump-passes",
                severity=Severity.NOTE,
                where=WHERE,
                message="--xla_dump_hlo_pass_re dumps HLO around compiler passes: attribution does not read it, and "
                "for a large model it can fill the disk",
                advice="leave it out",
            )
        )
    return findings


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
