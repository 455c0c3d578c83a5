"""One physical device is one index, however many processes saw it, and whatever it is called in each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.timeline.devices import index_devices


def _rows(*keys: tuple[str, str, int]) -> pd.DataFrame:
    run, process, agent_id = zip(*keys, strict=True) if keys else ((), (), ())
    return pd.DataFrame(
        {
            "run": pd.Categorical(run),
            "process": pd.Categorical(process),
            "agent_id": pd.Series(agent_id, dtype="int64"),
        }
    )


def _agents(*rows: tuple[str, str, int, str]) -> pd.DataFrame:
    frame = _rows(*(row[:3] for row in rows))
    return frame.assign(device=pd.Categorical([row[3] for row in rows]))


AGENTS = _agents(("r", "a", 2, "n:gpu1"), ("r", "b", 7, "n:gpu0"), ("r", "b", 8, "n:gpu1"), ("s", "a", 2, "m:gpu0"))


def test_labels_are_ascending_and_each_row_points_to_its_own() -> None:
    devices = index_devices(_rows(("r", "a", 2), ("r", "b", 7), ("r", "b", 8), ("s", "a", 2), ("r", "a", 2)), AGENTS)
    assert devices.labels == ("m:gpu0", "n:gpu0", "n:gpu1")
    assert devices.of.tolist() == [2, 1, 2, 0, 2]
    assert devices.of.dtype == np.int64
    assert devices.unknown == ()
    assert list(devices.as_column()) == ["n:gpu1", "n:gpu0", "n:gpu1", "m:gpu0", "n:gpu1"]


def test_devices_without_a_row_have_no_label() -> None:
    assert index_devices(_rows(("r", "b", 7)), AGENTS).labels == ("n:gpu0",)


def test_unknown_agents_are_kept_apart_and_named_once() -> None:
    devices = index_devices(_rows(("r", "a", 9), ("r", "b", 9), ("r", "a", 9)), AGENTS)
    assert devices.labels == ("a:agent9", "b:agent9")
    assert devices.of.tolist() == [0, 1, 0]
    assert sorted(devices.unknown) == ["a:agent9", "b:agent9"]


def test_no_rows_are_no_devices() -> None:
    devices = index_devices(_rows(), AGENTS)
    assert (devices.labels, devices.of.tolist(), devices.unknown) == ((), [], ())
    assert len(devices.as_column()) == 0


def test_ids_beyond_32_bits_are_told_apart() -> None:
    agents = _agents(("r", "a", 2**62, "n:gpu0"), ("r", "a", 2**62 + 1, "n:gpu1"))
    assert index_devices(_rows(("r", "a", 2**62 + 1), ("r", "a", 2**62)), agents).of.tolist() == [1, 0]
