"""One capture at a time in a run directory, and none beside a job that outlived an earlier one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rocktools.errors import UsageError

# File systems without locks; there nobody can be kept out.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL})


@contextlib.contextmanager
def hold_run(target: Path) -> Iterator[int | None]:
    """Keep other captures out of a run directory.

    The lock is on an open file. A process that inherits the descriptor holds it too: if we are killed, the job that we
    leave behind keeps the run until it ends, and no second profiler is started beside it on the same GPUs.

    Args:
        target: a file of the run directory that is never replaced; it is opened, not changed.

    Yields:
        The descriptor that the job must inherit, or None where the file system has no locks.

    Raises:
        UsageError: a capture, or what one left behind, holds the run.
    """
    descriptor = os.open(target, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield descriptor if _is_locked(descriptor, target) else None
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, target: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pids = find_holders(target)
        named = f"processes {', '.join(map(str, pids))} of a capture" if pids else "processes of a capture"
        raise UsageError(
            "run-in-use",
            f"{named} in this run are still alive, and two would share the GPUs",
            where=str(target.parent),
            hint=f"wait until they have ended, or end them: kill {' '.join(map(str, pids))}" if pids else "wait for it",
        ) from None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def find_holders(target: Path) -> list[int]:
    """Processes, other than this one, that have a file open; only those that this user may look at (Linux)."""
    identity = target.stat()
    holders = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and any(_is_same(link, identity) for link in (folder / "fd").iterdir()):
                holders.append(int(folder.name))
    return sorted(holders)


def _is_same(link: Path, identity: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        seen = link.stat()
        return (seen.st_dev, seen.st_ino) == (identity.st_dev, identity.st_ino)
    return False
