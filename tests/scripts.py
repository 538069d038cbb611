"""Programs and commands of the documentation, run inside the process of the tests."""

import io
import os
import runpy
import shlex
import sys
from contextlib import chdir, nullcontext, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import sklearn
from typer.testing import CliRunner

from rankwise.cli.main import PROGRAM


def invoke(arguments, **options):
    """What the program does; it is built once, as the program of a user is."""
    with patch("typer.testing._get_command", lambda program: program):
        return CliRunner().invoke(PROGRAM, [str(argument) for argument in arguments], **options)


def run_script(path, *arguments):
    """Run a Python file in its own folder, as a program would; returns what it prints."""
    path, dask = Path(path), sys.modules.get("dask.config")
    with (
        chdir(path.parent),
        patch.object(sys, "argv", [str(path), *arguments]),
        sklearn.config_context(),  # restores the configuration that a script changes
        dask.set(scheduler=None) if dask else nullcontext(),  # of a cluster that is closed
        redirect_stdout(io.StringIO()) as printed,
    ):
        runpy.run_path(str(path), run_name="__main__")
    return printed.getvalue()


def run_commands(block, folder):
    """Run a shell block whose lines are `rankwise ...` or `cd ...`; returns what it prints."""
    printed = []
    with chdir(folder):
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            if program == "cd":
                os.chdir(*arguments)
                continue
            assert program == "rankwise", line
            result = invoke(arguments)
            assert result.exit_code == 0, (line, result.stderr, result.exception)
            printed.append(result.stdout)
    return "".join(printed)
