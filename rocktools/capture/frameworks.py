"""The flags that make a framework's own JAX profiler record a few steps, or keep quiet under rocprofv3. Pure.

They are for jobs whose training loop cannot be changed; `rocktools trace --jax-profile maxtext|levanter` prints them.
Where a fact was read stands beside each flag; frameworks rename flags, so an unknown one there means another version.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import UsageError, nearest_names

FRAMEWORKS = ("maxtext", "levanter")

_WARM_UP_COUNT = 2

_MAXTEXT_PROFILER = "AI-Hypercomputer/maxtext 00eb6729 (2026), src/maxtext/common/profiler.py"
_MAXTEXT_CONFIG = "AI-Hypercomputer/maxtext (2026), src/maxtext/configs"
_MAXTEXT_RUN = "'Profiling a Training Step', MaxText v26.6 on MI355X"
_LEVANTER_GUIDE = "Marin's guide to profiling training (2026)"
_LEVANTER_PROFILER = "marin-community/marin (2026), lib/levanter/src/levanter/callbacks/profiler.py"

# What YAML reads as that very text, without quotes.
_PLAIN_YAML = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*", re.ASCII)
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkFlag:
    """One flag of a framework's command line.

    Attributes:
        argv: the arguments, to be appended to the command as they are.
        meaning: what it does and why it is there.
        source: where that was read.
    """

    argv: tuple[str, ...]
    meaning: str
    source: str


def framework_flags(framework: str, *, first: int, last: int, log_dir: str | Path) -> list[FrameworkFlag]:
    """What makes the framework profile steps `first` to `last` (both inside, the first step of all being 0).

    These are for a run without rocprofv3: two profilers in one process crash it.

    Raises:
        UsageError: no such framework, `last` before `first`, fewer than two steps to warm up, or a folder that cannot
            be written.
    """
    _require_framework(framework)
    if first > last:
        raise UsageError("jax-profile-steps", f"the profiled steps must be in order, but are {first} to {last}")
    if first < _WARM_UP_COUNT:
        raise UsageError(
            "jax-profile-steps",
            f"profiling cannot begin at step {first}: the first {_WARM_UP_COUNT} steps compile and autotune",
            hint=f"begin at step {_WARM_UP_COUNT} or later",
        )
    folder = str(log_dir)
    if not folder.isprintable():
        raise UsageError("jax-profile-folder", f"the folder {folder!r} holds characters that YAML cannot")
    if framework == "maxtext":
        return _maxtext_flags(first, last, folder)
    return _levanter_flags(first, last, folder)


def framework_off_flags(framework: str) -> list[FrameworkFlag]:
    """What keeps the framework's own JAX profiler off, for a run under rocprofv3.

    Raises:
        UsageError: no such framework.
    """
    _require_framework(framework)
    if framework == "maxtext":
        return [
            FrameworkFlag(
                argv=('profiler=""',),
                meaning="profiler off. The quotes are part of the argument: MaxText reads it as YAML, where a bare "
                "profiler= is null, which its typed configuration refuses",
                source=f"{_MAXTEXT_RUN}; {_MAXTEXT_CONFIG}/pyconfig.py at 018116f7, types.py",
            )
        ]
    return [
        FrameworkFlag(
            argv=("--trainer.profiler.enabled", "false"),
            meaning="profiler off, which is the default",
            source=_LEVANTER_PROFILER,
        )
    ]


def render_shell_line(flags: Sequence[FrameworkFlag]) -> str:
    """The flags on one line, quoted for a shell."""
    return shlex.join(argument for flag in flags for argument in flag.argv)


def render_framework_flags(flags: Sequence[FrameworkFlag]) -> str:
    """For a shell: the flags as the end of a command, then, in comments, what each does and where that was read."""
    lines = " \\\n  ".join(render_shell_line([flag]) for flag in flags)
    notes = [f"# {render_shell_line([flag])}\n#     {flag.meaning}\n#     [{flag.source}]" for flag in flags]
    return "\n".join([f"  {lines}", "", *notes])


def _require_framework(framework: str) -> None:
    if framework not in FRAMEWORKS:
        near = nearest_names(framework, FRAMEWORKS)
        raise UsageError(
            "unknown-framework",
            f"there are no profiler flags for {framework!r}, only for {' and '.join(FRAMEWORKS)}",
            hint=near[0] if near else "profiled_steps of rocktools/capture/jax_profile.py, in the training loop",
        )


def _maxtext_flags(first: int, last: int, log_dir: str) -> list[FrameworkFlag]:
    return [
        FrameworkFlag(
            argv=("profiler=xplane",),
            meaning="profile through jax.profiler. MaxText has no flag for the Python tracer, which stays on",
            source=f"{_MAXTEXT_RUN}; {_MAXTEXT_PROFILER}",
        ),
        FrameworkFlag(
            argv=(f"skip_first_n_steps_for_profiler={first}",),
            meaning=f"begin at step {first}, counted from the first step of this process: a resumed job begins later",
            source=_MAXTEXT_PROFILER,
        ),
        FrameworkFlag(
            argv=(f"profiler_steps={last - first + 1}",),
            meaning=f"stop after step {last}, or after the job's last step where that comes first",
            source=_MAXTEXT_PROFILER,
        ),
        FrameworkFlag(
            argv=("profile_cleanly=true",),
            meaning="wait for the device before the profile starts and before it stops",
            source=_MAXTEXT_PROFILER,
        ),
        FrameworkFlag(
            argv=(f"steps={last + 2}",),
            meaning="end the job one step later: MaxText refuses to profile past its last step. The learning rate "
            "schedule follows it unless learning_rate_schedule_steps is given",
            source=f"{_MAXTEXT_RUN} (steps=14 for steps 10 to 12); {_MAXTEXT_PROFILER}",
        ),
        FrameworkFlag(
            argv=("upload_all_profiler_results=true",),
            meaning="every process writes a profile; without it only the first one profiles at all",
            source=_MAXTEXT_PROFILER,
        ),
        FrameworkFlag(
            argv=("dump_hlo=false",),
            meaning="leave the HLO dump to XLA_FLAGS, which rocktools sets: MaxText's own filters modules, and is "
            "deleted after an upload",
            source=f"{_MAXTEXT_CONFIG}/types.py",
        ),
        FrameworkFlag(
            argv=(f"base_output_directory={_yaml(log_dir)}",),
            meaning="write to <here>/<run_name>/tensorboard/plugins/profile, so give a run_name; checkpoints and "
            "metrics move here, too, and a job that resumes needs load_full_state_path",
            source=f"{_MAXTEXT_CONFIG}/types.py",
        ),
    ]


def _levanter_flags(first: int, last: int, log_dir: str) -> list[FrameworkFlag]:
    profiler = "--trainer.profiler"
    options = f"{profiler}.profile_options"
    return [
        FrameworkFlag(
            argv=(f"{profiler}.enabled", "true"),
            meaning="profile through jax.profiler",
            source=_LEVANTER_GUIDE,
        ),
        FrameworkFlag(
            argv=(f"{profiler}.start_step", str(first)),
            meaning=f"begin when step {first - 1} has ended; a job that resumes after that never profiles",
            source=_LEVANTER_PROFILER,
        ),
        FrameworkFlag(
            argv=(f"{profiler}.num_steps", str(last - first + 1)),
            meaning=f"stop after step {last}; fewer steps where the job ends before",
            source=_LEVANTER_PROFILER,
        ),
        FrameworkFlag(
            argv=(f"{profiler}.perfetto_link", "false"),
            meaning="do not wait until somebody opens the trace in a browser",
            source=_LEVANTER_GUIDE,
        ),
        FrameworkFlag(
            argv=(f"{options}.host_tracer_level", "1"),
            meaning="host events of annotations only. device_tracer_level is left out: 0 asks for no GPU events",
            source=_LEVANTER_GUIDE,
        ),
        FrameworkFlag(
            argv=(f"{options}.python_tracer_level", "0"),
            meaning="Python tracer off: it slows the host and hides gaps it made itself",
            source=_LEVANTER_GUIDE,
        ),
        FrameworkFlag(
            argv=(f"{options}.enable_hlo_proto", "true"),
            meaning="the HLO goes into the profile; Levanter leaves it out by default",
            source=f"{_LEVANTER_GUIDE}; {_LEVANTER_PROFILER}",
        ),
        FrameworkFlag(
            argv=(f"{profiler}.upload.enabled", "false"),
            meaning="keep the profile local; versions without uploads do not know the flag",
            source=_LEVANTER_GUIDE,
        ),
        FrameworkFlag(
            argv=("--trainer.log_dir", _yaml(log_dir)),
            meaning="write to <here>/<run id>/profiler/plugins/profile; the job's log files move here, too",
            source=_LEVANTER_GUIDE,
        ),
    ]


def _yaml(text: str) -> str:
    """`text` as YAML reads it back: both frameworks read the values on their command lines so."""
    if _PLAIN_YAML.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)  # what JSON writes for printable text, YAML reads in the same way
