"""The manifest of a bundle -> the page for whoever opens the folder."""

from __future__ import annotations

import shlex

from rocktools.summary.bundle_document import Bundle, BundleOutput
from rocktools.units import count_noun


def render_readme(bundle: Bundle) -> str:
    """Markdown: what is in the folder, how it is checked, what it tells, and the command of each file."""
    stamp = "**SIMULATED: no hardware produced these numbers.**\n\n" if bundle.is_simulated else ""
    lines = [f"# Bundle of {count_noun(len(bundle.sides), 'run')}\n\n{stamp}"]
    for side in bundle.sides:
        lines.append(f"* `{side.name}`: {side.title}\n")
        lines += [f"  * left out: {each}\n" for each in side.left_out]
    again = sum(output.is_regenerable for output in bundle.outputs)
    lines.append(
        f"\nOf {count_noun(len(bundle.outputs), 'file')} that commands make, {again} can be made again from what is in "
        f"this folder, with rocktools {bundle.rocktools_version}, without a GPU. "
        "`rocktools bundle --verify .` does so elsewhere and compares the bytes.\n"
    )
    if not all(output.is_regenerable for output in bundle.outputs):
        lines.append("\nIt holds no traces: summaries and tables stand as they were made; reports can be made again.\n")
    lines.append(f"\nTaken out of databases: {bundle.scrubbed}.\n")
    if bundle.sensitive:
        lines.append("\n## Look at these before you hand it on\n\n")
        lines += [f"* {each}\n" for each in bundle.sensitive]
    lines.append("\n## Commands\n\nTo be given in this folder, with another name behind `-o`.\n\n")
    lines += ["| file | command |\n|---|---|\n", *(_row(output) for output in bundle.outputs)]
    return "".join(lines)


def _row(output: BundleOutput) -> str:
    command = shlex.join(output.command).replace("|", "\\|")
    if output.reason is None:
        return f"| {output.path} | `{command}` |\n"
    reason = output.reason.replace("|", "\\|")
    return f"| (no {output.path}: {reason}) | `{command}` |\n"
