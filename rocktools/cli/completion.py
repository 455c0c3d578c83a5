"""`rocktools completion`: the script that lets a shell complete commands, options and their values.

A shell asks back by running `rocktools` with the words so far in its environment; `answer_shell` is what it gets.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from rocktools.cli.main import COMPLETION_VARIABLE
from rocktools.errors import EXIT_FAILURE, EXIT_GOOD

_PROGRAM = "rocktools"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script that makes the tab key complete commands, options and their values.

    SHELL is bash (4.4 or newer), zsh or fish. For new shells, once:

    \b
        echo 'eval "$(rocktools completion bash)"' >> ~/.bashrc
        echo 'eval "$(rocktools completion zsh)"' >> ~/.zshrc
        rocktools completion fish > ~/.config/fish/completions/rocktools.fish
    """
    # Not `source()`: that of bash starts a shell to ask for its version.
    completion = _completion(context.find_root().command, shell)
    assert completion is not None
    click.echo(completion.source_template % completion.source_vars())
    return EXIT_GOOD


def answer_shell(root: click.Command, instruction: str) -> int:
    """Print what could stand for the word that the shell asks about; the exit code.

    Args:
        root: the group of all commands.
        instruction: `bash_complete` and the like, as the script of `rocktools completion` sends it.
    """
    shell, _, what = instruction.partition("_")
    completion = _completion(root, shell)
    if completion is None or what != "complete":
        return EXIT_FAILURE
    click.echo(completion.complete())
    return EXIT_GOOD


def _completion(root: click.Command, shell: str) -> ShellComplete | None:
    known = get_completion_class(shell) if shell in _SHELLS else None
    if known is None:
        return None

    class OrFiles(known):  # type: ignore[valid-type, misc]
        """Files where nothing else is known: most commands take paths or patterns of paths."""

        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
            found: list[CompletionItem] = super().get_completions(args, incomplete)
            if found or incomplete.startswith("-"):
                return found
            return [CompletionItem(incomplete, type="file")]

    made: ShellComplete = OrFiles(root, {}, _PROGRAM, COMPLETION_VARIABLE)
    return made
