"""Optional libraries: imported on demand, or an error that says what to install."""

from __future__ import annotations

import json

import pytest

from rocktools.errors import MissingExtra
from rocktools.extras import require_extra


def test_module_that_is_there_is_returned():
    assert require_extra("json", "fast", "a test") is json


def test_module_that_is_not_there_says_what_to_install():
    with pytest.raises(MissingExtra) as caught:
        require_extra("no_such_library.part", "fast", "bulk reading")
    assert str(caught.value) == (
        "missing-extra: bulk reading needs no_such_library, which is not installed\n"
        "  try: pip install 'rocktools[fast]'"
    )


def test_library_that_lacks_its_own_dependency_names_it(tmp_path, monkeypatch):
    (tmp_path / "half_a_library.py").write_text("import its_missing_half\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="needs half_a_library, which lacks its_missing_half"):
        require_extra("half_a_library", "fast", "bulk reading")


def test_library_that_is_broken_gives_its_reason(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise ImportError('wrong ABI')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="which cannot be imported: wrong ABI"):
        require_extra("broken_library", "fast", "bulk reading")
