"""`--artifact`: what W&B holds, in the place of files that are here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from rocktools.cli.output import TableFormat, TableOutput, emit_document, emit_findings, exit_code_of, require_new_path
from rocktools.errors import UsageError

_Function = Callable[..., Any]


def artifact_option(function: _Function) -> _Function:
    """Adds `--artifact` to `rocktools summarize`: a summary is handed on as it is, a profile is summarized.

    Goes above the decorator that adds PATHS.
    """

    @functools.wraps(function)
    def with_artifact(*arguments: Any, artifact: str | None, paths: tuple[str, ...], **others: Any) -> Any:
        if artifact is None:
            return function(*arguments, paths=paths, **others)
        if paths:
            raise UsageError("artifact-and-paths", "an artifact stands for the files; name the one or the others")
        if others["output_path"] is not None:
            require_new_path(others["output_path"])
        from rocktools.summary.artifact import download_artifact, find_summary

        with TemporaryDirectory(prefix="rocktools-") as folder:
            place = download_artifact(artifact, Path(folder).resolve())
            summary = find_summary(place)
            if summary is None:
                return function(*arguments, paths=(str(place),), **others)
            return _hand_on(summary, others["schema"], others["output_path"])

    return click.option(
        "--artifact",
        metavar="ENTITY/PROJECT/NAME:ALIAS",
        help="Read an artifact of Weights & Biases instead of PATHS: a summary that `rocktools publish` uploaded, or a "
        "profile. Needs the extra `wandb`.",
    )(with_artifact)


def _hand_on(path: Path, schema: str, target: Path | None) -> int:
    """The summary of a file, in the shape that was asked for."""
    from rocktools.summary.document import read_summary, summary_document
    from rocktools.summary.marin import marin_document

    summary = read_summary(path)
    document = marin_document(summary) if schema == "marin" else summary_document(summary)
    emit_document(document, TableOutput(table_format=TableFormat.JSON, path=target))
    emit_findings(summary.quality.findings)
    return exit_code_of(summary.quality.findings)
