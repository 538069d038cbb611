"""fit, predict, info and card for a table with features of its rows and columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rankwise import TwoSidedRankRLS, load_model


@pytest.fixture
def table(tmp_path):
    """Files of scores, drugs and targets; the drugs of the table and two more."""
    rng = np.random.default_rng(0)
    drugs = pd.DataFrame(rng.standard_normal((14, 3)), [f"d{k}" for k in range(14)], list("abc"))
    targets = pd.DataFrame(rng.standard_normal((9, 2)), [f"t{k}" for k in range(9)], ["x", "y"])
    Y = pd.DataFrame(drugs.values[:, :2] @ targets.values.T, drugs.index, targets.index)
    Y.iloc[:12].to_csv(tmp_path / "scores.csv")
    drugs.iloc[::-1].to_csv(tmp_path / "drugs.csv")
    targets.to_csv(tmp_path / "targets.csv")
    return tmp_path, drugs, targets, Y


def fit(run, folder, *options, **kwargs):
    files = folder / "scores.csv", "--rows", folder / "drugs.csv", "--columns"
    out = folder / "model.rankwise"
    return run("fit", *files, folder / "targets.csv", "-o", out, "--force", *options, **kwargs), out


def test_fit_and_predict_are_those_of_python(table, run):
    folder, drugs, targets, Y = table
    result, out = fit(run, folder)
    assert "108 cells of 12 rows and 9 columns" in result.stderr
    assert "Chose alpha" in result.stderr
    want = TwoSidedRankRLS().fit(drugs.iloc[:12], targets, Y.iloc[:12])
    assert_allclose(load_model(out).coef_, want.coef_)
    drugs.iloc[12:, ::-1].to_csv(folder / "new.csv")
    run("predict", out, folder / "new.csv", "--out", folder / "found.csv")
    found = pd.read_csv(folder / "found.csv", index_col=0)
    assert list(found.index) == ["d12", "d13"]
    assert_allclose(found[targets.index], want.predict(drugs.iloc[12:]), rtol=1e-6)
    shown = run("predict", out, folder / "new.csv", "--columns", folder / "targets.csv")
    assert shown.stdout.startswith("row,t0,t1")


def test_options_kernels_and_missing_cells(table, run):
    folder, drugs, _, Y = table
    Y.iloc[3, 4] = np.nan
    Y.iloc[:12].to_csv(folder / "scores.csv")
    _, out = fit(run, folder, "--kernel", "rbf", "--alpha", "0.5", "--set", "compare=rows")
    model = load_model(out)
    assert (model.row_kernel, model.column_kernel, model.compare) == ("rbf", "rbf", "rows")
    assert model.n_cells_ == 107
    _, out = fit(run, folder, "--alpha", "1", "--ignore", "[bc],y")
    assert [side.views[0].names for side in load_model(out).sides_] == [["a"], ["x"]]
    kernel = pd.DataFrame(drugs.values @ drugs.values.T, drugs.index, drugs.index)
    kernel.to_csv(folder / "drugs.csv")
    _, out = fit(run, folder, "--alpha", "1", "--set", "row_kernel=precomputed")
    assert load_model(out).coef_.shape[0] == 12


def test_a_column_named_row_keeps_the_names_of_rows(table, run):
    folder, _, targets, Y = table
    Y.rename(columns={"t0": "row"}).iloc[:12].to_csv(folder / "scores.csv")
    targets.rename(index={"t0": "row"}).to_csv(folder / "targets.csv")
    _, out = fit(run, folder)
    shown = run("predict", out, folder / "drugs.csv", "--columns", folder / "targets.csv").stdout
    assert shown.startswith("row_,row,t1")
    assert "\nd13," in shown
    inputs = folder / "drugs.csv", "--columns", folder / "targets.csv"
    assert "is an input" in run(
        "predict", out, *inputs, "--out", folder / "targets.csv", "--force", ok=False
    )


def test_info_and_card(table, run):
    folder, *_ = table
    _, out = fit(run, folder)
    assert "12 rows, 9 columns" in run("info", out).stdout
    run("card", out, "--out", folder / "card.md")
    card = (folder / "card.md").read_text()
    assert "`TwoSidedRankRLS` on a table of 12 rows and 9 columns" in card
    assert "Fitted to 108 cells" in card
    assert "of the column" in card
    assert "In training, alpha was chosen by hold-outs" in card


def test_what_does_not_fit_is_refused(table, run):
    folder, drugs, _, Y = table
    assert "Give --rows and --columns together" in run(
        "fit", folder / "scores.csv", "--rows", folder / "drugs.csv", "-o", folder / "m", ok=False
    )
    assert "leave it out" in fit(run, folder, "--scale", "standard", ok=False)[0]
    assert "two-sided" in fit(run, folder, "--model", "kpcrank", ok=False)[0]
    assert "leave this out" in fit(run, folder, "--encode", "onehot", ok=False)[0]
    kernel = "row_kernel=precomputed"
    assert "no column 'd0': with row_kernel" in fit(run, folder, "--set", kernel, ok=False)[0]
    assert "row_kernel must be" in fit(run, folder, "--set", "row_kernel=x", ok=False)[0]
    _, out = fit(run, folder)
    assert "no column 'a'" in run("predict", out, folder / "targets.csv", ok=False)
    drugs.iloc[1:].to_csv(folder / "drugs.csv")
    assert "no line 'd0'" in fit(run, folder, ok=False)[0]
    pd.concat([drugs, drugs]).to_csv(folder / "drugs.csv")
    assert "'d0' twice" in fit(run, folder, ok=False)[0]
    drugs.to_csv(folder / "drugs.csv")
    scores = Y.astype(object)
    scores.iloc[0, 0] = "none found"
    scores.to_csv(folder / "scores.csv")
    assert "'none found'" in fit(run, folder, ok=False)[0]
    assert "use 'rankwise fit' with --rows" in run(
        "tune", folder / "scores.csv", "--model", "two-sided-rankrls", "-o", folder / "m", ok=False
    )
