"""rankwise completion: let a shell complete commands, options and their values."""

from __future__ import annotations

from typing import Annotated

import typer

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=lambda: SHELLS),
    ],
) -> None:
    """Print a script with which a shell completes commands, options and their values.

    \b
    Examples:
      bash:  rankwise completion bash >> ~/.bash_completion
      zsh:   rankwise completion zsh > ~/.zfunc/_rankwise
             (with fpath+=~/.zfunc before compinit in ~/.zshrc)
      fish:  rankwise completion fish > ~/.config/fish/completions/rankwise.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise typer.BadParameter(f"Choose from {', '.join(SHELLS)}: got {shell!r}.")
    variable = "_RANKWISE_COMPLETE"
    print(get_completion_script(prog_name="rankwise", complete_var=variable, shell=shell))
