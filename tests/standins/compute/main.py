"""Where the executable starts."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from standins.compute.faults import Faults
from standins.compute.install import FAULT, STATE
from standins.compute.parser import parse_arguments
from standins.compute.releases import RELEASES


def main(arguments: Sequence[str], name: str) -> None:
    """One call of rocprof-compute."""
    release = RELEASES[name]
    slug = next((after for word, after in itertools.pairwise(arguments) if word in ("-n", "--name")), "")
    mode = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    faults = Faults(os.environ.get(FAULT, ""), slug=slug, call=_log_call(arguments, mode, slug))
    if "requirements" in faults:
        print("[ERROR] The 'dash>=3.0.0' package was not found in the current execution environment.")
        sys.exit(1)
    options = parse_arguments(release, arguments)
    if options.version:
        if "no-version" in faults:
            print("rocprof-compute (stand-in)")
            return
        told = faults.argument("reports-version", release.told) if "reports-version" in faults else release.told
        print(f"rocprofiler-compute version: {told} (release)")
        return
    if options.mode == "profile":
        from standins.compute.profile import run_profile

        run_profile(options, release, faults)
    elif options.mode == "analyze":
        from standins.compute.analyze import run_analyze

        run_analyze(options, release, faults)
    else:
        sys.exit(2)


def _log_call(arguments: Sequence[str], mode: str, slug: str) -> int:
    """Note this call; its number among those of the same mode and workload."""
    state = os.environ.get(STATE)
    if not state:
        return 1
    path = Path(state) / "calls.jsonl"
    known = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    facts = {
        "argv": list(arguments),
        "mode": mode,
        "slug": slug,
        "cwd": str(Path.cwd()),
        "pid": os.getpid(),
        "executable": sys.executable,
        "environment": dict(os.environ),
    }
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(facts) + "\n")
    return 1 + sum(call["mode"] == mode and call["slug"] == slug for call in known)
