"""A replay -> a folder that runs on its own: program, scripts, description, and the modules that the scripts need."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rocktools.errors import InputError
from rocktools.replay.bundle_texts import (
    RUNTIME_FOLDER,
    render_readable_script,
    render_readme,
    render_replay_script,
)
from rocktools.replay.extract import PROGRAM_FILE, Replay

RUNTIME_MODULES = ("bundled_inputs.py", "bundled_pjrt.py", "bundled_replay.py")
SCHEMA_FILE = Path(__file__).resolve().parent / "replay.schema.json"


def folder_name(instruction: str) -> str:
    """What the bundle of an instruction is called among others: its name without what shells dislike."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in instruction)


def write_bundle(replay: Replay, folder: Path) -> tuple[Path, ...]:
    """The files of a bundle; the folder is made, or is empty. It is there as a whole, or not at all.

    Raises:
        InputError: the folder holds something, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "folder-in-use",
            "the folder for the replay holds something",
            where=str(folder),
            hint="name a new one: -o DIR",
        )
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        if partial.exists():
            shutil.rmtree(partial)
        (partial / RUNTIME_FOLDER).mkdir(parents=True)
        for name, content in _contents(replay).items():
            (partial / name).write_bytes(content)
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise InputError(
            "cannot-write", f"the replay cannot be written: {error.strerror}", where=str(folder)
        ) from error
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))


def _contents(replay: Replay) -> dict[str, bytes]:
    texts = {
        "spec.json": json.dumps(replay.spec, indent=2) + "\n",
        "replay.py": render_replay_script(replay.spec),
    }
    if replay.readable is not None:
        texts["replay_jax.py"] = render_readable_script(replay.spec, replay.readable)
    texts["README.md"] = render_readme(replay.spec, list(texts))
    here = Path(__file__).resolve().parent
    found = {name: text.encode("utf-8") for name, text in texts.items()}
    found |= {f"{RUNTIME_FOLDER}/{name}": (here / name).read_bytes() for name in RUNTIME_MODULES}
    found[PROGRAM_FILE] = replay.program.data
    return found
