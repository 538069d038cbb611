"""Scripts for shells, and what they ask of the program."""

import pytest

from tests.scripts import invoke


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_the_program(run, shell):
    script = run("completion", shell).stdout
    assert f"_RANKWISE_COMPLETE=complete_{shell}" in script


def test_an_unknown_shell(run):
    assert "'ksh' is not one of 'bash', 'zsh', 'fish'" in run("completion", "ksh", ok=False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rankwise ev", ["evaluate"]),
        ("rankwise fit --un", ["--unlabelled"]),
        ("rankwise fit --model additive-rankrls --set n_", ["n_ramps="]),
        ("rankwise fit train.txt --kernel poly", ["polynomial", "poly"]),
        ("rankwise tune train.txt --scale query-minmax,query-r", ["query-minmax,query-ranks"]),
        ("rankwise compare a b c --format m", ["markdown"]),
        ("rankwise completion f", ["fish"]),
    ],
)
def test_what_bash_gets(line, words):
    n = len(line.split()) - 1
    environment = {
        "_RANKWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(n),
    }
    result = invoke([], prog_name="rankwise", env=environment)
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == words
