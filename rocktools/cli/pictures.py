"""`-o FILE.svg` and `-o FILE.png` of commands that can draw a roofline as well as print one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.cli.output import new_file, require_new_path
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.roofline.points import Roofline

_Function = Callable[..., Any]
_PICTURES = (".svg", ".png")


def picture_option(function: _Function) -> _Function:
    """Lets `-o FILE.svg` and `-o FILE.png` mean a picture; the function gets the path as `picture`."""

    @functools.wraps(function)
    def with_picture(*arguments: Any, output_path: Path | None, format_name: str | None, **options: Any) -> Any:
        picture = output_path if output_path is not None and output_path.suffix.lower() in _PICTURES else None
        if picture is not None and format_name is not None:
            raise UsageError(
                "picture-and-format", f"{picture} is a picture, and --format is of tables", hint="one of both"
            )
        if picture is not None:
            require_new_path(picture)
        path = None if picture is not None else output_path
        return function(*arguments, output_path=path, format_name=format_name, picture=picture, **options)

    return with_picture


def draw_roofline(roofline: Roofline, path: Path, *, is_simulated: bool) -> None:
    """The picture in a new file."""
    from rocktools.render.roofline_plot import render_roofline_png, render_roofline_svg
    from rocktools.units import count_noun

    with new_file(path) as partial:
        if path.suffix.lower() == ".svg":
            partial.write_text(render_roofline_svg(roofline, is_simulated=is_simulated), encoding="utf-8")
        else:
            partial.write_bytes(render_roofline_png(roofline, is_simulated=is_simulated))
    click.echo(f"wrote {path}: {count_noun(len(roofline.points), 'name')}; -o FILE.csv has the numbers", err=True)
