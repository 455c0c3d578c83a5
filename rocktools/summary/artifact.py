"""A summary <-> an artifact of Weights & Biases, of type `profile_summary`.

What is uploaded is planned first, without the client: names, metadata taken from the document, and the files. The
client (extra `wandb`) only carries it: `wandb.init`, `wandb.Artifact`, `Run.log_artifact`, and for reading
`wandb.Api().artifact`. Credentials and servers are its own business.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rocktools.errors import InputError, NothingToRead, RocktoolsError, UsageError
from rocktools.extras import require_extra
from rocktools.rundir import hash_file
from rocktools.summary.document import Fact, Missing, Summary

ARTIFACT_TYPE = "profile_summary"
PLAN_SCHEMA = "rocktools.publish/1"
SUMMARY_NAME = "summary.json"
_JOB_TYPE = "profile"
_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)
_REFERENCE = re.compile(r"(?:([\w.-]+)/)?(?:([\w.-]+)/)?([\w.-]+)(?::([\w.-]+))?", re.ASCII)
_JOB_KEYS = (
    *("run_name", "model_name", "dtype", "mesh", "remat_policy", "global_batch_sequences_count"),
    *("sequence_tokens_count", "tokens_per_step_count", "config_sha256"),
)
_PROVENANCE_KEYS = (
    *("device_product", "device_arch", "compute_partition", "jax_version", "jaxlib_version", "rocm_version"),
    *("driver_version", "command_buffers"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactFile:
    """A file of an artifact: where it is, what it is called there, its size and sha256."""

    path: Path
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPlan:
    """Everything that would be uploaded.

    Attributes:
        project, name: of the artifact.
        entity: user or team; None: the client's own choice.
        aliases: besides the version that the server counts.
        description: one line.
        metadata: of the document; what it does not know is None.
        files: in their order.
    """

    project: str
    entity: str | None
    name: str
    aliases: tuple[str, ...]
    description: str
    metadata: dict[str, Any]
    files: tuple[ArtifactFile, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values, in the order in which it is read."""
        files = [
            {"name": each.name, "path": str(each.path), "size_bytes": each.size_bytes, "sha256": each.sha256}
            for each in self.files
        ]
        return {
            "schema": PLAN_SCHEMA,
            "type": ARTIFACT_TYPE,
            "entity": self.entity,
            "project": self.project,
            "name": self.name,
            "aliases": list(self.aliases),
            "description": self.description,
            "metadata": self.metadata,
            "files": files,
        }


def plan_artifact(
    summary: Summary,
    path: Path,
    *,
    report: Path | None,
    project: str,
    entity: str | None,
    name: str | None,
    aliases: Sequence[str],
) -> ArtifactPlan:
    """What uploading a summary comes to.

    Args:
        path: of the summary.
        report: a file that goes along; None: none.
        name: None: made of the runs in the summary.

    Raises:
        UsageError: a name has characters that no server takes.
        InputError: a file cannot be read.
    """
    chosen = name or _NOT_IN_NAMES.sub("-", "-".join(summary.metadata.runs) or "run").strip("-.")[:120] or "run"
    for what, text in (("name", chosen), ("project", project), *(("alias", each) for each in aliases)):
        if not _NAME.fullmatch(text):
            raise UsageError(
                "artifact-name",
                f"the {what} {text!r} has other characters than letters, digits, `_`, `-` and `.`",
                hint="another one",
            )
    files = [_file(path, SUMMARY_NAME)]
    if report is not None:
        files.append(_file(report, f"report{report.suffix or '.md'}"))
    return ArtifactPlan(
        project=project,
        entity=entity,
        name=chosen,
        aliases=tuple(aliases) or ("latest",),
        description=summary.title,
        metadata=metadata_of(summary),
        files=tuple(files),
    )


def metadata_of(summary: Summary) -> dict[str, Any]:
    """Keys to search artifacts by. Units are in the names; what is not known is None, and never 0."""
    metadata, provenance = summary.metadata, summary.provenance
    severities = Counter(finding.severity.value for finding in summary.quality.findings)
    found: dict[str, Any] = {
        "schema": summary.schema,
        "rocktools_version": summary.rocktools_version,
        "generated_at_utc": summary.generated_at_utc,
        "is_simulated": summary.is_simulated,
        "runs": list(metadata.runs),
        "source_formats": list(metadata.source_formats),
        "hosts_count": metadata.hosts_count,
        "devices_count": metadata.devices_count,
        "inputs_sha256": provenance.inputs_sha256,
        "component_map": metadata.component_map,
        "faults_count": severities["fault"],
        "warnings_count": severities["warning"],
        "candidates": list(dict.fromkeys(candidate.candidate_id for candidate in summary.candidates)),
    }
    found |= {name: _value(metadata.job.get(name)) for name in _JOB_KEYS}
    found |= {name: _value(provenance.facts.get(name)) for name in _PROVENANCE_KEYS}
    return {**found, **_times(summary)}


def upload_artifact(plan: ArtifactPlan) -> str:
    """Upload what was planned, and wait until the server has it.

    Returns:
        `entity/project/name:version`; of a client that works offline the name, and what uploads it.

    Raises:
        MissingExtra: the client is not installed.
        RocktoolsError: the server cannot be reached, or refuses; or the client is switched off.
    """
    client = _client("publishing a summary")
    with _told(client, f"{plan.entity or ''}/{plan.project}/{plan.name}".lstrip("/")):
        artifact = client.Artifact(
            name=plan.name, type=ARTIFACT_TYPE, description=plan.description, metadata=plan.metadata
        )
        for file in plan.files:
            artifact.add_file(str(file.path), name=file.name)
        with client.init(project=plan.project, entity=plan.entity, job_type=_JOB_TYPE) as run:
            is_off, is_offline = getattr(run, "disabled", False), getattr(run, "offline", False)
            logged = run.log_artifact(artifact, aliases=list(plan.aliases))
            if not is_off and not is_offline:
                logged.wait()
        if is_off:
            raise RocktoolsError(
                "artifact-disabled",
                "the client of W&B is switched off, so nothing was uploaded",
                hint="WANDB_MODE=online",
            )
        if is_offline:  # it has no version before the server has it
            return f"{plan.name} (kept here, as W&B is offline: `wandb sync` uploads it)"
        return str(logged.qualified_name)


def download_artifact(reference: str, folder: Path) -> Path:
    """Download an artifact into a new folder inside `folder`, called as the artifact is.

    Args:
        reference: `entity/project/name:alias`; without an alias `latest`.

    Raises:
        UsageError: the reference is none.
        MissingExtra: the client is not installed.
        RocktoolsError: the server cannot be reached, or has no such artifact.
        NothingToRead: the artifact holds no file.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UsageError(
            "artifact-reference", f"{reference!r} names no artifact", hint="ENTITY/PROJECT/NAME:ALIAS, as W&B shows it"
        )
    client = _client("reading an artifact")
    target = folder / match[3]
    with _told(client, reference):
        artifact = client.Api().artifact(reference if match[4] else f"{reference}:latest")
        target = Path(artifact.download(root=str(target)))
    if not any(path.is_file() for path in target.rglob("*")):
        raise NothingToRead("empty-artifact", "the artifact holds no file", where=reference)
    return target


def find_summary(folder: Path) -> Path | None:
    """The summary in a folder that was downloaded; None where it holds something else, such as a profile.

    Raises:
        InputError: there are several.
    """
    named = folder / SUMMARY_NAME
    if named.is_file():
        return named
    found = [path for path in sorted(folder.rglob("*.json")) if not path.name.endswith(".trace.json")]
    found = [path for path in found if b'"rocktools.summary/' in path.read_bytes()[:4096]]
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4])
        raise InputError("several-summaries", f"the artifact holds {len(found)} summaries: {names}", where=str(folder))
    return found[0] if found else None


def _client(purpose: str) -> ModuleType:
    return require_extra("wandb", "wandb", purpose)


@contextmanager
def _told(client: ModuleType, where: str) -> Iterator[None]:
    """Turns what the client raises into one plain message: errors of its own base class, and those of the system."""
    theirs: Any = getattr(client, "Error", RocktoolsError)
    try:
        yield
    except RocktoolsError:
        raise
    except (theirs, OSError, ValueError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise RocktoolsError(
            "artifact-server",
            f"W&B cannot do this: {first}",
            where=where,
            hint="`wandb login`, the network, and the names of entity, project and artifact",
        ) from error


def _file(path: Path, name: str) -> ArtifactFile:
    try:
        return ArtifactFile(path=path, name=name, size_bytes=path.stat().st_size, sha256=hash_file(path))
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error


def _value(fact: Fact | None) -> Any:
    return None if fact is None else fact.value


def _times(summary: Summary) -> dict[str, Any]:
    """Steps and shares; profiled times say so in their names."""
    steps = None if isinstance(summary.steps, Missing) else summary.steps.statistics
    log = None if isinstance(summary.step_log, Missing) else summary.step_log.statistics
    overlap = None if isinstance(summary.overlap, Missing) else summary.overlap.mean
    span_ns = None if overlap is None or overlap.span_ns <= 0 else overlap.span_ns
    exposed = None if overlap is None else overlap.exposed_communication_ns
    return {
        "profiled_steps_count": None if steps is None else steps.samples_count,
        "profiled_step_median_ns": None if steps is None else steps.median_ns,
        "profiled_step_p90_ns": None if steps is None else steps.p90_ns,
        "unprofiled_steps_count": None if log is None else log.samples_count,
        "unprofiled_step_median_ns": None if log is None else log.median_ns,
        "exposed_communication_ns": exposed,
        "exposed_communication_ratio": None if exposed is None or span_ns is None else exposed / span_ns,
        "idle_ratio": None if overlap is None or span_ns is None else overlap.idle_ns / span_ns,
    }
