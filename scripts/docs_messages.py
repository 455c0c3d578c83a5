"""Errors and findings in the source -> docs/reference/exit-codes.md and docs/reference/findings.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

from docs_markdown import code, page, prose, table
from docs_source import Record, docstring_line, find_records, is_attribute, read_modules, variants

from rocktools import errors
from rocktools.findings import Severity

PACKAGE = Path(errors.__file__).parent

_EXIT_CODES = {
    "EXIT_GOOD": "The command did what it was asked to do. Notes and warnings may have been printed.",
    "EXIT_FAILURE": "A file could not be read or written, a finding is a fault, an optional library is missing, "
    "rocktools itself is at fault, or you pressed Ctrl-C.",
    "EXIT_USAGE": "The command line asks for something impossible; nothing was read.",
    "EXIT_GATE": "A comparison that you asked for did not hold: `rocktools replay prove` ends with it unless every "
    "replay stands in for its kernel.",
}


def error_classes() -> list[type[errors.RocktoolsError]]:
    """Every class of errors.py, in the order of the source."""
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [value for value in classes if issubclass(value, errors.RocktoolsError)]


def find_errors() -> list[Record]:
    """Every place in the source that makes an error, but those that only repeat the reference of another."""
    makers = {one.__name__: ("reference", "what") for one in error_classes()}
    records = find_records(read_modules(PACKAGE), makers, "reference")
    return [record for record in records if not is_attribute(record.fields["reference"][0], "reference")]


def find_findings() -> list[Record]:
    """Every place in the source that makes a finding, but those that an error has turned into."""
    records = find_records(read_modules(PACKAGE), {"Finding": ()}, "rule")
    return [record for record in records if not is_attribute(record.fields["rule"][0], "reference")]


def known_references() -> set[str]:
    """References of errors and rules of findings."""
    return {
        text[key]
        for records, key in ((find_errors(), "reference"), (find_findings(), "rule"))
        for record in records
        for text in variants(record, (key,))
    }


def render_errors() -> str:
    """The page of exit codes and errors."""
    introduction = (
        "A command that fails prints one message on standard error: a reference that stays the same across releases,\n"
        "what happened, where, and what to try. `rocktools --debug ...` adds the traceback."
    )
    lines = ["", "## Exit codes", "", *_exit_code_table(), "## Classes", ""]
    lines += ["From Python, catch these; every one is a `rocktools.errors.RocktoolsError`.", ""]
    lines += ["```text", *_tree().splitlines(), "```", ""]
    lines += ["## References", "", "`<...>` stands for what is known only when the command runs.", ""]
    records = find_errors()
    for one in error_classes():
        own = [record for record in records if record.maker == one.__name__]
        if own:
            lines += ["", f"### {one.__name__}", "", f"Exit code {one.exit_code}.", "", *_error_list(own)]
    return page("Exit codes and errors", introduction, lines)


def render_findings() -> str:
    """The page of findings."""
    introduction = (
        "A finding is a doubt about the input. Commands print findings on standard error, at most three of one rule,\n"
        "and count them; `rocktools info --format json` has all of them. A **fault** means that what it names cannot\n"
        "be trusted (exit code 1), a **warning** that some numbers may mislead, a **note** that the numbers stand.\n"
        "`<...>` stands for what is known only when the command runs."
    )
    lines: list[str] = []
    by_rule: dict[str, list[tuple[Record, dict[str, str]]]] = {}
    for record in find_findings():
        for text in variants(record, ("rule", "severity", "where", "message", "advice")):
            by_rule.setdefault(text["rule"], []).append((record, text))
    for rule in sorted(by_rule):
        lines += _finding_section(rule, by_rule[rule])
    lines += [
        "",
        "## Files that are left out",
        "",
        "Where several files were asked for and one cannot be read, the others are, and its error becomes a finding",
        "with the reference of the [error](exit-codes.md#references) as its rule: a fault if you named the file or it",
        "is a broken rocpd database, a note if it only lies in a folder and is of another tool.",
    ]
    return page("Findings", introduction, lines)


def _exit_code_table() -> list[str]:
    codes = {name: value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    return table(("code", "meaning"), ((str(value), prose(_EXIT_CODES[name])) for name, value in codes.items()))


def _tree() -> str:
    """The drawing in the docstring of errors.py."""
    paragraphs = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    return next(inspect.cleandoc(text) for text in paragraphs if "RocktoolsError " in text)


def _error_list(records: Iterable[Record]) -> list[str]:
    found: dict[str, list[str]] = {}
    for record in records:
        for text in variants(record, ("reference", "what", "hint")):
            hint = f" *Try:* {_sentence(text['hint'])}" if text["hint"] else ""
            entry = f"{_sentence(text['what'])}{hint}"
            entries = found.setdefault(text["reference"], [])
            if entry not in entries:
                entries.append(entry)
    lines = []
    for reference in sorted(found):
        first, *others = found[reference]
        if others:
            lines += [f"- {code(reference)}", *(f"  - {entry}" for entry in (first, *others))]
        else:
            lines.append(f"- {code(reference)}: {first}")
    return lines


def _finding_section(rule: str, found: Sequence[tuple[Record, dict[str, str]]]) -> list[str]:
    known = [severity.name.lower() for severity in Severity]
    said = {_severity(text) for _, text in found}
    severities = [name for name in known if name in said] if said <= set(known) else known
    files = ", ".join(sorted({code(record.file) for record, _ in found}))
    lines = ["", f"## {rule}", "", f"{' or '.join(severities).capitalize()}, from {files}."]
    looks_for = dict.fromkeys(
        docstring_line(record.scope)
        for record, _ in found
        if record.scope.function is not None and record.scope.function.name.startswith("check_")
    )
    lines += [f"The check looks for: {prose(text[0].lower() + text[1:])}" for text in looks_for if text]
    shown = dict.fromkeys(_finding_line(text) for _, text in found)
    return [*lines, "", "```text", *shown, "```"]


def _severity(text: dict[str, str]) -> str:
    """`fault` for `Severity.FAULT`; `severity` where only the running program knows."""
    return text["severity"].strip("<>")


def _finding_line(text: dict[str, str]) -> str:
    """As `str(Finding)` gives it."""
    line = f"{_severity(text)} [{text['rule']}] {text['where']}: {text['message']}"
    return f"{line}; {text['advice']}" if text["advice"] else line


def _sentence(text: str) -> str:
    marked = prose(text)
    return marked if marked.endswith((".", "?", "!")) else f"{marked}."
