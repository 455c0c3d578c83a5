"""Applications whose words would not survive being joined and split again."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.compute_application import ApplicationWords, application_words
from rocktools.errors import UsageError

FOLDER = Path("/data/k0")
AWKWARD = ["a b", "", "it's", 'say "x"', "$HOME", "`id`", "*", "x\ny", "\\", "ü", "--", "-k"]
SHOW = "import os, sys\nprint([os.getpid(), __name__, __file__, sys.path[0], sys.argv])\n"


def start(words: ApplicationWords, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start it as a release that joins and splits."""
    for file in words.files:
        file.path.write_text(file.text, encoding="utf-8")
        file.path.chmod(0o755)
    argv = shlex.split(" ".join(words.words))
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)


def test_plain_words_go_as_they_are():
    application = ("/venv/bin/python", "/data/replay.py", "--iterations=10", "a,b", "x@y", "1+1", "c:d")
    assert application_words(FOLDER, "k0", application) == ApplicationWords(words=application)


@pytest.mark.parametrize("flags", [(), ("-I", "-S"), ("-uB",)])
def test_a_script_of_python_runs_in_the_process_that_is_started(tmp_path, flags):
    script = tmp_path / "my scripts" / "show.py"
    script.parent.mkdir()
    script.write_text(SHOW, encoding="utf-8")
    words = application_words(tmp_path, "k0", (sys.executable, *flags, str(script), *AWKWARD))
    assert words.words == (sys.executable, *flags, str(tmp_path / "run-k0.py"))
    assert not words.is_shell
    pid, name, file, folder, argv = ast.literal_eval(start(words, tmp_path).stdout)
    assert (name, file, argv) == ("__main__", str(script), [str(script), *AWKWARD])
    alone = subprocess.run(
        [sys.executable, *flags, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert folder == ast.literal_eval(alone.stdout)[3]
    assert pid > 0


def test_anything_else_is_what_a_script_of_the_shell_becomes(tmp_path):
    code = "import os, sys; print([os.getppid(), sys.argv[1:]])"
    words = application_words(tmp_path, "k0", (sys.executable, "-I", "-c", code, *AWKWARD))
    assert words.words == (str(tmp_path / "run-k0.sh"),)
    assert words.is_shell
    parent, argv = ast.literal_eval(start(words, tmp_path).stdout)
    assert argv == AWKWARD
    assert parent == os.getpid()  # no shell stands in between


def test_a_python_with_a_blank_in_its_path_is_left_to_the_shell():
    words = application_words(FOLDER, "k0", ("/my venv/bin/python", "/data/replay.py"))
    assert words.is_shell
    assert words.files[0].text == "#!/bin/sh\nexec '/my venv/bin/python' /data/replay.py\n"


def test_in_a_folder_with_blanks_the_script_is_named_from_inside():
    words = application_words(Path("/data/my batch"), "k0", ("/venv/bin/python3.12", "/data/replay.py", "a b"))
    assert words.words == ("/venv/bin/python3.12", "./run-k0.py")
    assert words.files[0].path == Path("/data/my batch/run-k0.py")


awkward = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)


@given(words=st.lists(awkward, max_size=4))
def test_every_word_is_in_the_command_or_in_its_script(words):
    application = ("/opt/app", *words)
    handed = application_words(FOLDER, "k0", application)
    started = shlex.split(" ".join(handed.words))
    if handed.files:
        (script,) = handed.files
        assert started == [str(script.path)]
        assert shlex.split(script.text.split("\n", 1)[1]) == ["exec", *application]
    else:
        assert started == list(application)


def test_an_application_is_named_by_its_full_path():
    with pytest.raises(UsageError, match="compute-application-relative"):
        application_words(FOLDER, "k0", ("python", "replay.py"))
    with pytest.raises(UsageError, match="compute-no-application"):
        application_words(FOLDER, "k0", ())
