"""`rocktools history`: what `rocktools track` kept."""

from rocktools.cli.track import history_command as command

__all__ = ["command"]
