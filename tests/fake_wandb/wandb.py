"""Stands in for the client of Weights & Biases: the few calls that are used, with its signatures and its errors.

Checked against wandb 0.31: names that `Artifact` refuses; a logged artifact that has no version before `wait`, and
offline none at all (an AttributeError); `Api` that wants a key. The server is the folder that FAKE_WANDB_SERVER names;
without it there is no connection.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any


class Error(Exception):
    pass


class CommError(Error):
    pass


class UsageError(Error):
    pass


class ArtifactNotLoggedError(AttributeError):
    pass


def _server() -> Path:
    if not os.environ.get("FAKE_WANDB_SERVER"):
        raise CommError("Network error (ConnectionError), entering retry loop.\n  more lines")
    return Path(os.environ["FAKE_WANDB_SERVER"])


class Artifact:
    def __init__(
        self, name: str, type: str, description: str | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9_\-.]+", name):
            raise ValueError(f"Artifact name may only contain alphanumeric characters. Invalid name: {name!r}")
        self.name, self.type, self.description, self.metadata = name, type, description, metadata or {}
        self.files: dict[str, bytes] = {}
        self.place: Path | None = None
        self._is_waited = False

    def add_file(self, local_path: str, name: str | None = None) -> None:
        if not Path(local_path).is_file():
            raise ValueError(f"Path is not a file: {local_path!r}")
        self.files[name or Path(local_path).name] = Path(local_path).read_bytes()

    def wait(self, timeout: int | None = None) -> Artifact:
        if self.place is None:
            raise ArtifactNotLoggedError("'Artifact.wait' used prior to logging artifact or while in offline mode.")
        self._is_waited = True
        return self

    @property
    def qualified_name(self) -> str:
        if not self._is_waited or self.place is None:
            raise ArtifactNotLoggedError("'Artifact.entity' used prior to logging artifact")
        entity, project, name, version = self.place.parts[-4:]
        return f"{entity}/{project}/{name}:{version}"

    def download(self, root: str | None = None) -> str:
        assert self.place is not None
        assert root is not None
        shutil.copytree(self.place / "files", root)
        return root


class Run:
    def __init__(self, entity: str | None, project: str, job_type: str | None, mode: str) -> None:
        self.entity, self.project, self.job_type = entity or "me", project, job_type
        self.offline, self.disabled = mode == "offline", mode == "disabled"

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def log_artifact(self, artifact: Artifact, name: str | None = None, aliases: list[str] | None = None) -> Artifact:
        if self.offline or self.disabled:
            return artifact
        folder = _server() / self.entity / self.project / artifact.name
        place = folder / f"v{len(list(folder.glob('v*')))}"
        for file, content in artifact.files.items():
            (place / "files" / file).parent.mkdir(parents=True, exist_ok=True)
            (place / "files" / file).write_bytes(content)
        facts = {"type": artifact.type, "metadata": artifact.metadata, "description": artifact.description}
        (place / "facts.json").write_text(json.dumps(facts))
        for alias in aliases or ["latest"]:
            (folder / f"alias.{alias}").write_text(place.name)
        artifact.place = place
        return artifact


def init(entity: str | None = None, project: str | None = None, job_type: str | None = None) -> Run:
    mode = os.environ.get("WANDB_MODE", "online")
    if mode == "online":
        _server()
    assert project is not None
    return Run(entity, project, job_type, mode)


class Api:
    def __init__(self) -> None:
        if os.environ.get("FAKE_WANDB_KEY") == "":
            raise UsageError("No API key configured. Use `wandb login` to log in.")

    def artifact(self, name: str, type: str | None = None) -> Artifact:
        path, _, alias = name.partition(":")
        folder = _server() / path
        pointer = folder / f"alias.{alias}"
        version = pointer.read_text() if pointer.is_file() else alias
        if not (folder / version).is_dir():
            raise CommError(f"artifact membership '{name}' not found in '{path}'")
        found = Artifact(folder.name, "profile_summary")
        found.place = folder / version
        return found
