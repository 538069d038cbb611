"""The program `rankwise`: its commands, its version, its help."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from rankwise.cli.ask import ask
from rankwise.cli.contents import card, export, info
from rankwise.cli.fit import auto, fit, tune
from rankwise.cli.options import Force, Seed, grouped
from rankwise.cli.scoring import compare, evaluate, explain, predict
from rankwise.cli.studies import auc, leaderboard, preferences
from rankwise.cli.terminal import (
    Command,
    Program,
    as_help,
    called_as,
    check_writable,
    interruptible,
    note,
    progress,
    say,
    show,
)
from rankwise.progress import progress_bar

DEMO = ("report.html", "model.rankwise", "train.txt", "valid.txt", "test.txt")


@grouped
def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False)] = Path("demo-output"),
    force: Force = False,
    seed: Seed = 2,
) -> None:
    """Train, tune and evaluate a ranker on a generated problem; takes a few seconds.

    RankRLS learns from the pairs of 40 training queries, alpha is chosen on 60 validation
    queries, and 120 test queries show how well it does, next to plain regression (RLS) tuned in
    the same way. Prints the comparison and writes to the folder:

    \b
      report.html              the comparison with figures, in one file
      model.rankwise           the trained ranker
      train.txt, valid.txt,    the data as LETOR files,
      test.txt                 to try the other commands on

    \b
    Examples:
      rankwise demo
      rankwise demo --out /tmp/demo --seed 7

    Parameters
    ----------
    out : FOLDER
        Folder to write to.
    seed : N
        Another seed generates another problem of the same kind.
    """
    from rankwise.cli.demo_page import comparison, global_experiment, query_experiment, write_report
    from rankwise.data import write_letor
    from rankwise.persistence import save_model
    from rankwise.plots import require_matplotlib

    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    for name in DEMO:
        check_writable(out / name, force=force)
    with progress("Training, tuning and evaluating two rankers"):
        experiment = query_experiment(seed)
        real = global_experiment(seed)
    with progress(f"Writing {out}"):
        model = save_model(experiment.rankers[0].ranker, out / "model.rankwise")
        for name, part in experiment.parts.items():
            write_letor(out / f"{name}.txt", part.X, part.y, part.qid)
    show(comparison(experiment))
    for tuned in experiment.rankers:
        say(f"{tuned.name}: alpha = {tuned.alpha:.4g}, chosen on the validation queries")
    report = out / "report.html"
    print(f"\nreport  {report}\nmodel   {model}\ndata    {out}/train.txt, valid.txt, test.txt")
    write_report(experiment, real, report)
    files = " ".join(shlex.quote(str(path)) for path in (model, out / "test.txt"))
    note(f"Next: {called_as()} evaluate {files}", wrap=False)


@grouped
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print a script that lets a shell complete commands, options and their values.

    \b
    Examples:
      bash:  rankwise completion bash >> ~/.bash_completion
      zsh:   rankwise completion zsh > ~/.zfunc/_rankwise
             (with fpath+=~/.zfunc before compinit in ~/.zshrc)
      fish:  rankwise completion fish > ~/.config/fish/completions/rankwise.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    variable = "_RANKWISE_COMPLETE"
    print(get_completion_script(prog_name="rankwise", complete_var=variable, shell=shell))


@grouped
def compile() -> None:
    """Compile all loops now, rather than at their first use.

    Some computations on larger data are loops that are compiled at their first use, in a few
    seconds each, and kept in a cache. This command fills the cache in about a minute, as for an
    image of a container. Prints the folder of the cache, which must also be there when the
    programs run: the folder of the package, or a folder named in NUMBA_CACHE_DIR.

    \b
    Examples:
      rankwise compile
      NUMBA_CACHE_DIR=/var/cache/rankwise rankwise compile
    """
    with interruptible("Compiling loops"):
        from rankwise.cli.compiling import WORK, fill_cache

        with progress_bar("Compiling loops", len(WORK)) as show_done:
            folder = fill_cache(show_done)
    print(f"cache  {folder}")


app = typer.Typer(
    name="rankwise",
    cls=Program,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    demo, auto, fit, tune, predict, evaluate, compare, explain, export, card, preferences,
    leaderboard, ask, auc, info, completion, compile,
)  # fmt: skip
for command in COMMANDS:
    app.command(cls=Command, help=as_help(command.__doc__ or ""))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from rankwise import __version__

        typer.echo(f"rankwise {__version__}")
        raise typer.Exit


def program(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Learning to rank, at the price of regression.

    Data are tables with names of columns (CSV, TSV, Parquet, Arrow, JSON lines), or LETOR
    (svmlight) text files, one row per line: `label qid:ID index:value index:value ...`

    Results go to stdout, everything else to stderr. For invalid input, the exit code is 2, and one
    line describes each problem. Set RANKWISE_TRACEBACK=1 to see the traceback as well.

    \b
    Examples:
      rankwise demo
      rankwise auto train.txt --out model.rankwise
      rankwise fit train.txt --valid valid.txt --out model.rankwise
      rankwise tune train.txt --out model.rankwise
      rankwise evaluate model.rankwise test.txt
      rankwise tune train.csv --query search_id --label clicks --out model.rankwise
      rankwise compare model.rankwise other.rankwise test.txt
      rankwise explain model.rankwise rows.csv --query 17 --above 3 --below 5
      rankwise export model.rankwise --to onnx
      rankwise leaderboard battles.csv
      rankwise ask ideas.csv
      rankwise preferences items.csv comparisons.csv --report page.html
      rankwise auc samples.csv --label outcome
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help().rstrip())


app.callback(invoke_without_command=True, help=as_help(program.__doc__ or ""))(program)
PROGRAM = typer.main.get_command(app)
"""Made with the imports, which `entry.run` guards: it takes long enough to be interrupted."""


def run() -> None:
    """Run the program."""
    PROGRAM()


if __name__ == "__main__":
    run()
