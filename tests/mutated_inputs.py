"""Files that broke on their way: flipped bits, cut ends, holes, doubled parts, other contents, folders instead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

_OTHER_CONTENTS = (
    b"",
    b"\x00" * 4096,
    b"{}",
    b"[]",
    b"null",
    b'{"schema": "rocktools.none/1"}',
    b"a,b\n1,2\n",
    b"schema: rocktools.none/1\n",
    b"- 1\n- {a: [b, {c: d}]}\n",
    b"<html></html>",
    b"SQLite format 3\x00" + b"\x00" * 84,
    b"\x1f\x8b\x08\x00" + b"\xff" * 60,
    b"\xff\xfe" + "text".encode("utf-16-le"),
    "ä".encode("latin-1") * 300,
    b"9" * 5000,
    b"{" * 3000,
)


def mutate(path: Path, random: Random) -> str:
    """Break a file in one of many ways; what was done."""
    content = path.read_bytes()
    ways: list[Callable[[bytes, Random], bytes]] = [_flip, _flip, _cut, _cut, _hole, _double, _swap, _number]
    choice = random.randrange(len(ways) + 2)
    if choice == len(ways):
        other = random.choice(_OTHER_CONTENTS)
        path.write_bytes(other)
        return f"other contents {other[:20]!r}"
    if choice == len(ways) + 1:
        path.unlink()
        path.mkdir()
        return "a folder in its place"
    path.write_bytes(ways[choice](content, random))
    return ways[choice].__name__.strip("_")


def mutate_json(path: Path, random: Random) -> str:
    """Break one value of a JSON document: another type, gone, or out of range."""
    document = json.loads(path.read_text(encoding="utf-8"))
    places: list[tuple[object, object]] = []
    _places(document, places)
    holder, key = random.choice(places)
    value = random.choice([None, -1, 1.5, 10**30, "text", [], {}, [1], {"a": 1}, True, "\ud800"])
    gone = random.random() < 0.25
    if gone:
        del holder[key]  # type: ignore[attr-defined]
    else:
        holder[key] = value  # type: ignore[index]
    path.write_text(json.dumps(document), encoding="utf-8")
    return f"{key!r}: {'gone' if gone else repr(value)}"


def copy_input(source: Path, target: Path) -> Path:
    """A file or folder again, to be broken."""
    if source.is_dir():
        return Path(shutil.copytree(source, target))
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(source, target))


def _places(value: object, found: list[tuple[object, object]]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(items):
        found.append((value, key))
        _places(each, found)


def _flip(content: bytes, random: Random) -> bytes:
    made = bytearray(content)
    for _ in range(random.choice([1, 1, 4, 64]) if made else 0):
        made[random.randrange(len(made))] ^= 1 << random.randrange(8)
    return bytes(made)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _hole(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + b"\x00" * random.choice([1, 16, 4096]) + content[at + random.choice([1, 16, 4096]) :]


def _double(content: bytes, random: Random) -> bytes:
    at, size = random.randrange(len(content) + 1), random.choice([1, 64, 5000])
    return content[:at] + content[at : at + size] + content[at:]


def _swap(content: bytes, random: Random) -> bytes:
    """Two lines (or pieces) in each other's place."""
    pieces = content.split(b"\n")
    if len(pieces) < 3:
        return content[::-1]
    one, other = random.randrange(len(pieces)), random.randrange(len(pieces))
    pieces[one], pieces[other] = pieces[other], pieces[one]
    return b"\n".join(pieces)


def _number(content: bytes, random: Random) -> bytes:
    """A digit, where there is one, becomes a long number, a minus, or a word."""
    digits = [place for place, octet in enumerate(content) if 0x30 <= octet <= 0x39]
    if not digits:
        return _flip(content, random)
    at = random.choice(digits)
    return (
        content[:at]
        + random.choice([b"-", b"1e400", b"99999999999999999999999", b"nan", b"x", b""])
        + content[at + 1 :]
    )
