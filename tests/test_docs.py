"""The manual says what the code does: pages are current, examples run, links lead somewhere, every command is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = REPOSITORY / "scripts"
sys.path.insert(0, str(SCRIPTS))

import docs_cli  # noqa: E402  (the scripts are no package)
import docs_examples  # noqa: E402
import docs_frames  # noqa: E402
import docs_messages  # noqa: E402
import docs_source  # noqa: E402

PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
WITH_EXAMPLES = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/tasks/*.md"))]
COMMANDS = list(docs_cli.commands())

# Put together here, so that this file does not contain what it looks for.
_FORBIDDEN = re.compile(
    "|".join(
        (
            rf"{'/'}work/",
            r"\b(?:pypi|pythonhosted|anaconda|conda|npmjs|crates|rubygems)\.(?:org|com|io)\b",
            r"\bhttps?://[^ )]*(?:simple|artifactory|nexus)/",
        )
    )
)


def _name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def test_reference_pages_are_current():
    ran = subprocess.run([sys.executable, SCRIPTS / "docs", "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_stale_page_is_named_and_left_alone(tmp_path):
    (tmp_path / "rocktools").symlink_to(REPOSITORY / "rocktools")
    (tmp_path / "scripts").mkdir()
    for path in SCRIPTS.glob("docs*"):
        if path.is_file():
            (tmp_path / "scripts" / path.name).write_bytes(path.read_bytes())
    stale = tmp_path / "docs/reference/cli.md"
    stale.parent.mkdir(parents=True)
    stale.write_text("old\n", encoding="utf-8")
    command = [sys.executable, tmp_path / "scripts/docs", "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    complaint = "scripts/docs: docs/reference/cli.md is stale: run scripts/docs and commit what it writes"
    assert complaint in ran.stderr.splitlines()
    assert stale.read_text(encoding="utf-8") == "old\n"
    assert list(stale.parent.iterdir()) == [stale]


@pytest.mark.parametrize("name, command", COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_and_option_has_help_and_a_place_in_the_manual(name, command):
    assert command.help, f"{name} has no help"
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []
    reference = (REPOSITORY / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^##+ {re.escape(name)}$", reference, flags=re.MULTILINE)


def test_every_frame_and_table_is_in_the_manual():
    reference = (REPOSITORY / "docs/reference/frames.md").read_text(encoding="utf-8")
    names = [*docs_frames.SPECS, *docs_frames.specs_of_tables()]
    assert [name for name in names if f"\n### {name}\n" not in reference] == []


def test_every_error_class_is_in_the_drawing_of_the_tree():
    page = docs_messages.render_errors()
    tree = page.split("```text")[1].split("```")[0]
    names = re.findall(r"^[│├└─ ]*(\w+) +(\d)\b", tree, flags=re.MULTILINE)
    assert names == [(one.__name__, str(one.exit_code)) for one in docs_messages.error_classes()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=_name)
def test_examples_print_what_the_page_says(path, tmp_path):
    for example in docs_examples.parse_examples(path.read_text(encoding="utf-8")):
        if not example.is_run:
            continue
        printed, exit_code = docs_examples.run_example(example, tmp_path)
        where = f"{_name(path)}:{example.line}: {example.text}"
        assert exit_code == example.exit_code, "\n".join([where, *printed])
        if any(example.output):
            assert docs_examples.matches(example.output, printed), "\n".join(
                [where, "prints now (scripts/docs renews it):", *printed]
            )


def test_readme_is_an_example_of_a_session():
    examples = docs_examples.parse_examples((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    shown = [example for example in examples if example.is_rocktools and any(example.output)]
    assert len(shown) >= 4
    assert any(line.startswith("SIMULATED") for example in shown for line in example.output)
    assert [example for example in examples if example.language == "python"]


def _links(path: Path) -> Iterator[tuple[str, str]]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_links_lead_somewhere(path):
    for file, anchor in _links(path):
        target = (path.parent / file).resolve() if file else path
        assert target.is_relative_to(REPOSITORY), file
        assert target.exists(), file
        assert not anchor or anchor in _anchors(target), f"{file}#{anchor}"


def test_index_leads_to_every_page():
    index = REPOSITORY / "docs/index.md"
    rules = REPOSITORY / "docs/reference/rules.md"  # it leads to a page for each rule
    linked = {(page.parent / file).resolve() for page in (index, rules) for file, _ in _links(page)}
    assert rules in linked
    assert [_name(path) for path in PAGES if path != index and path not in linked] == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_pages_name_no_machine_and_no_package_host(path):
    assert _FORBIDDEN.findall(path.read_text(encoding="utf-8")) == []


@pytest.fixture(scope="module")
def known_references() -> set[str]:
    return docs_messages.known_references()


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("docs/tasks/*.md")), ids=_name)
def test_references_and_rules_in_the_tasks_exist(path, known_references):
    text = path.read_text(encoding="utf-8")
    mentioned = set(re.findall(r"`((?:rocpd|not|no|nothing|pass|process|environment|recovered)-[a-z0-9-]+)`", text))
    mentioned |= set(re.findall(r"^(?:note|warning|fault) \[([a-z0-9-]+)\]", text, flags=re.MULTILINE))
    mentioned |= set(re.findall(r"^rocktools: error: ([a-z0-9-]+):", text, flags=re.MULTILINE))
    assert mentioned - known_references == set()


def test_glossary_gives_each_word_one_meaning_in_alphabetical_order():
    text = (REPOSITORY / "docs/glossary.md").read_text(encoding="utf-8")
    words = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert words == sorted(set(words), key=str.lower)
    assert len(words) > 30


# What scripts/docs reads the source with must be able to see, and to fail.


def _records(tmp_path: Path, text: str, makers: dict[str, tuple[str, ...]], key: str) -> list[docs_source.Record]:
    (tmp_path / "made.py").write_text(text, encoding="utf-8")
    return docs_source.find_records(docs_source.read_modules(tmp_path), makers, key)


FINDING_SOURCES = [
    ('Finding(rule="a-rule", message=f"{len(rows):,} rows")', [("a-rule", "<rows> rows")]),
    ('def f(x):\n    Finding(rule="a" if x else "b", message="c" if x else "d")', [("a", "c"), ("b", "d")]),
    ('TEXT = "said"\ndef f():\n    Finding(rule="a", message=TEXT + " once")', [("a", "said once")]),
    (
        "def make(rule, message, advice=''):\n    return Finding(rule=rule, message=message)\n"
        'def f(x):\n    make("a", f"{x.path} is old")\n    make("b", message="new")',
        [("a", "<path> is old"), ("b", "new")],
    ),
    (
        'ROWS = {1: ("a", "first"), 2: ("b", "second")}\n'
        "def f(x):\n    rule, what = ROWS[x]\n    Finding(rule=rule, message=f'the {what}')",
        [("a", "the first"), ("b", "the second")],
    ),
    ("Finding(**fields)", []),
]


@pytest.mark.parametrize("text, expected", FINDING_SOURCES)
def test_findings_are_read_from_the_source(text, expected, tmp_path):
    records = _records(tmp_path, text, {"Finding": ()}, "rule")
    found = [one for record in records for one in docs_source.variants(record, ("rule", "message"))]
    assert [(one["rule"], one["message"]) for one in found] == expected


def test_rows_of_a_table_of_errors_are_read_from_the_source(tmp_path):
    text = (
        "class Foreign:\n    reference: str\n    what: str = 'this is a'\n"
        'ALL = (Foreign("a"), Foreign("b", what="this is {letter}"))\n'
        "def f(found):\n    raise UnknownFormat(found.reference, found.what.format(letter='b'))"
    )
    records = _records(tmp_path, text, {"UnknownFormat": ("reference", "what")}, "reference")
    found = [one for record in records for one in docs_source.variants(record, ("reference", "what"))]
    assert [(one["reference"], one["what"]) for one in found] == [("a", "this is a"), ("b", "this is {letter}")]


@pytest.mark.parametrize(
    "text", ["Finding(rule=names[3])", "Finding(message='a')", "def f(rule):\n    Finding(rule=rule)"]
)
def test_rule_that_cannot_be_read_from_the_source_is_refused(text, tmp_path):
    with pytest.raises(docs_source.UnclearSourceError, match=r"made\.py"):
        _records(tmp_path, text, {"Finding": ()}, "rule")


MATCHES = [
    (["a", "b"], ["a", "b"], True),
    (["a", "b", ""], ["a", "b"], True),
    (["a"], ["a", "b"], False),
    (["a", "...", "d"], ["a", "b", "c", "d"], True),
    (["a", "..."], ["a"], True),
    (["...", "b"], ["a"], False),
    (["a", "", "b"], ["a", "b"], False),
]


@pytest.mark.parametrize("expected, printed, is_match", MATCHES)
def test_lines_are_compared_and_some_may_be_left_out(expected, printed, is_match):
    assert docs_examples.matches(expected, printed) is is_match


def test_examples_are_renewed_and_what_cannot_be_is_told(tmp_path):
    page = "\n".join(
        [
            "```console",
            "$ touch a b",
            "$ ls",
            "old",
            "older",
            "$ ls a",
            "a",
            "$ ls c",
            "...",
            "none",
            "$ python train.py",
            "fast",
            "```",
        ]
    )
    text, complaints = docs_examples.renewed(page, tmp_path)
    assert text == page.replace("old\nolder", "a\nb") + "\n"
    assert len(complaints) == 2
    assert complaints[0].startswith("line 8: ls c: ended with ")
    assert complaints[1].startswith("line 8: ls c: prints something else now")
