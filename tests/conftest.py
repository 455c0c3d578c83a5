"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# No deadline: machines are shared, and an example that takes long says nothing about the code.
hypothesis.settings.register_profile("rocktools", deadline=None)
hypothesis.settings.load_profile("rocktools")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real files (read-only) that ROCKTOOLS_SHARED names. Who asks for it is a conformance test."""
    name = os.environ.get("ROCKTOOLS_SHARED")
    if not name:
        pytest.skip("ROCKTOOLS_SHARED is not set: it must name the folder of real files this test reads")
    folder = Path(name).resolve()
    if not folder.is_dir():
        pytest.skip(f"ROCKTOOLS_SHARED names {name}, which is not a folder")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads the real files, so that `-m 'not conformance'` leaves it out."""
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.conformance)
