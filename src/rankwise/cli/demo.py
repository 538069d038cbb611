"""rankwise demo: train, tune and evaluate once, on data that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwise.cli.options import Force, Seed, grouped
from rankwise.cli.terminal import check_writable, note, progress, say, show

FILES = ("report.html", "model.rankwise", "train.txt", "valid.txt", "test.txt")


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
    for name in FILES:
        check_writable(out / name, force=force)
    with progress("Training, tuning and evaluating two rankers"):
        experiment = query_experiment(seed)
        real = global_experiment(seed)
    with progress(f"Writing {out}"):
        model = save_model(experiment.rankers[0].ranker, out / "model.rankwise")
        for name, part in experiment.parts.items():
            write_letor(out / f"{name}.txt", part.X, part.y, part.qid)
        report = write_report(experiment, real, out / "report.html")
    show(comparison(experiment))
    for tuned in experiment.rankers:
        say(f"{tuned.name}: alpha = {tuned.alpha:.4g}, chosen on the validation queries")
    print(f"\nreport  {report}\nmodel   {model}\ndata    {out}/train.txt, valid.txt, test.txt")
    note(f"\nOpen {report.resolve().as_uri()}")
    note(f"Next: rankwise evaluate {model} {out / 'test.txt'}", wrap=False)
