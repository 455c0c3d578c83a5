"""The environment of a profiled process: what is taken out of ours, what is added, what may be written down.

Secrets are recognised by the names they stand behind, in variables and in command lines, and by their place in an
address. One that stands alone, such as the only argument of a program, cannot be recognised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# rocprofv3 turns a flag on if either its option or an inherited variable says so: whatever is inherited must go.
_SCRUBBED = re.compile(r"ROCPROF_\w*|ROCPROFV3_\w*|ROCPROFILER_\w*|ROCP_\w*|ROCTX_\w*|KOKKOS_TOOLS_LIBS|HSA_TOOLS_LIB")
# Tokenizers and authors are no secrets, and every training job names them.
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH(?!ORS?(?:_|$))|COOKIE|SESSION"
    r"|(?:^|_)(?:KEYS?|PWD|PAT|DSN)$",
    re.IGNORECASE,
)
# max_tokens=2048: how many of them there are.
_TOKENS_NAME = re.compile(r"TOKENS", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d_.]+(?:e[+-]?\d+)?", re.IGNORECASE)
# `://user:password@` and `://token@`; a password may hold an @ itself.
_SECRET_IN_URL = re.compile(r"(?<=://)[^/?#\s'\"]*(?=@)")
# What a value may stand behind: `name=`, `"name": `, or an option and blanks inside a longer text.
_NAMED = re.compile(
    r"""(?<![\w.+-])(?P<assigned>[\w.+-]+)["']?\s?(?:=|:\s)\s*(?=\S)"""
    r"""|(?<!\S)(?P<option>--?\w[\w.-]*)\s+(?=[^\s-])"""
)
_OPTION = re.compile(r"--?\w[\w.-]*")
_VALUE = re.compile(r"""(?:(?:Bearer|Basic|Token)\s+)?(?:"[^"]*"|'[^']*'|\S)+""", re.IGNORECASE)
_REDACTED = "[redacted]"
# What decides how a JAX job runs on AMD GPUs; the rest of an environment is nobody's business.
_RECORDED = re.compile(
    r"XLA_\w*|JAX_\w*|TF_\w*|HIP_\w*|HSA_\w*|ROCR_\w*|ROCM_\w*|NCCL_\w*|RCCL_\w*|MIOPEN_\w*|TENSILE_\w*|HIPBLASLT_\w*"
    r"|NVTE_\w*|CUDA_VISIBLE_DEVICES|GPU_\w*|AMD_\w*|LD_PRELOAD|LD_LIBRARY_PATH|OMP_NUM_THREADS|SLURM_PROCID"
    r"|SLURM_NTASKS|OMPI_COMM_WORLD_(?:RANK|SIZE)|RANK|WORLD_SIZE|LOCAL_RANK|PYTHONHASHSEED|DEBUG_HIP_\w*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDelta:
    """How the environment of a profiled process differs from ours.

    Attributes:
        added: variables that are set, new or changed.
        removed: variables of ours that the process does not get.
        dumps_hlo: whether XLA_FLAGS in `added` dumps programs into the run; each attempt gets a folder of its own.
    """

    added: Mapping[str, str]
    removed: tuple[str, ...]
    dumps_hlo: bool = False

    def apply(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process."""
        kept = {name: value for name, value in inherited.items() if name not in self.removed}
        return {**kept, **self.added}


def profiling_delta(
    inherited: Mapping[str, str], *, added: Mapping[str, str] | None = None, dumps_hlo: bool = False
) -> EnvironmentDelta:
    """What a process under rocprofv3 gets.

    Args:
        inherited: our own environment.
        added: further variables, such as XLA_FLAGS.
        dumps_hlo: as in the result.
    """
    removed = tuple(sorted(name for name in inherited if is_scrubbed(name)))
    return EnvironmentDelta(added=dict(added or {}), removed=removed, dumps_hlo=dumps_hlo)


def is_scrubbed(name: str) -> bool:
    """Whether a variable would steer the profiler and is taken out."""
    return _SCRUBBED.fullmatch(name) is not None


def is_recorded(name: str) -> bool:
    """Whether a variable belongs into a manifest: it steers the run, and is no secret."""
    return _RECORDED.fullmatch(name) is not None


def redact(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, sorted, with what looks like a secret replaced: by the name of the variable, or in its value."""
    return {
        name: _REDACTED if _is_secret(name, value) else redact_text(value) for name, value in sorted(variables.items())
    }


def redact_argv(argv: Sequence[str]) -> list[str]:
    """A command line with what looks like a secret replaced: `NAME=VALUE`, `--name value`, users in addresses."""
    shown: list[str] = []
    before = ""
    for word in argv:
        is_value = _OPTION.fullmatch(before) is not None and not word.startswith("-")
        shown.append(_REDACTED if is_value and word and _is_secret(before, word) else redact_text(word))
        before = word
    return shown


def redact_text(text: str) -> str:
    """A text with the values behind secret names, and the users and passwords in addresses, replaced."""
    kept = []
    at = 0
    while (match := _NAMED.search(text, at)) is not None:
        value = _VALUE.match(text, match.end())
        assert value is not None  # the pattern of the name ends before something that is no blank
        # Where no blank precedes the name, the whole text is this one setting, blanks in its value included.
        end = value.end() if re.search(r"\s", text[: match.start()]) else len(text)
        if _is_secret(match["assigned"] or match["option"], text[match.end() : end]):
            kept += [text[at : match.end()], _REDACTED]
            at = end
        else:
            kept.append(text[at : match.end()])
            at = match.end()
    kept.append(text[at:])
    return _SECRET_IN_URL.sub(_REDACTED, "".join(kept))


def _is_secret(name: str, value: str) -> bool:
    plain = re.sub(r"[-.+]", "_", name.strip("-+"))
    if _TOKENS_NAME.search(plain) and _NUMBER.fullmatch(value):
        plain = _TOKENS_NAME.sub("", plain)
    return _SECRET_NAME.search(plain) is not None


def recorded_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What of a whole environment goes into a manifest."""
    return redact({name: value for name, value in variables.items() if is_recorded(name)})
