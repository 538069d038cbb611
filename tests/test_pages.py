"""Pages of results in a real browser: nothing is cut off, and text can be read in the dark."""

import numpy as np
import pandas as pd
import pytest

from tests.scripts import invoke

pytestmark = [pytest.mark.slow, pytest.mark.ci]  # `make test-docs` runs it
LONG = ("price_per_night_in_euros_including_tax", "Rindfleischetikettierungsaufgabengesetz")
# What is wrong with a page: [what, how much or whose].
FAULTS = """() => {
  const found = [], root = document.documentElement;
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  if (root.scrollWidth > innerWidth) found.push(['wider than the screen', root.scrollWidth]);
  for (const pre of document.querySelectorAll('pre, caption, figcaption, .facts *'))
    if (pre.getBoundingClientRect().right > innerWidth) found.push(['cut off', pre.textContent]);
  for (const svg of document.querySelectorAll('figure svg')) {
    const box = svg.getBoundingClientRect(), name = svg.getAttribute('aria-label');
    const all = [...svg.querySelectorAll('text, g[id*="text_"]')];
    const boxes = all.map(g => g.getBoundingClientRect()).filter(b => b.width > 0);
    for (const b of boxes)
      if (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1
          || b.bottom > box.bottom + 1) found.push(['outside of its figure', name]);
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1.5 && down > 1.5) found.push(['text over text', name]);
    }));
    if (!boxes.length) found.push(['a figure without text', name]);
  }
  const parts = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => parts(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + [0.2126, 0.7152, 0.0722][k] * v, 0);
  const behind = e => {
    const colour = getComputedStyle(e).backgroundColor;
    return parts(colour)[3] === 0 ? behind(e.parentElement) : colour;
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const e = words.currentNode.parentElement, text = words.currentNode.data.trim();
    if (!text || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
    const [low, high] = [light(ink), light(behind(e))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 4.5) found.push(['low contrast', text]);
  }
  for (const g of document.querySelectorAll('figure svg g[id*="text_"] use')) {
    const [low, high] = [light(getComputedStyle(g).fill), light(behind(g))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 4.5) found.push(['low contrast in a figure', g.id]);
  }
  return [...new Set(found.map(String))];
}"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Files of rows, battles, samples and votes, with long names."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "search": np.repeat(np.arange(20), 8),
            LONG[0]: rng.normal(size=160),
            "district": rng.choice([LONG[1], "Nord", "Hafen"], 160),
        }
    )
    rows["grade"] = np.digitize(rows[LONG[0]] + rng.normal(size=160), [0.0, 1.0])
    rows.to_csv(folder / "rows.csv", index=False)
    longest = "meta-llama/Meta-Llama-3-70B-Instruct-of-an-unknown-date"
    names = np.array([*LONG, longest, "a", "b", "c", "d", "mixtral 8 x 7"])
    first = rng.integers(8, size=400)
    second = (first + rng.integers(1, 8, 400)) % 8
    battles = pd.DataFrame(
        {
            "model_a": names[first],
            "model_b": names[second],
            "winner": np.where(rng.random(400) < 0.5 + (second - first) / 20, "model_a", "model_b"),
            "day": pd.Timestamp("2026-01-05") + pd.to_timedelta(rng.integers(150, size=400), "D"),
            "tokens_a": rng.integers(900, size=400),
            "tokens_b": rng.integers(900, size=400),
        }
    )
    battles.to_csv(folder / "battles.csv", index=False)
    samples = pd.DataFrame(rng.normal(size=(30, 3)), columns=[*LONG, "x"])
    samples["state"] = np.where(samples["x"] + rng.normal(size=30) > 0, "relapse", "remission")
    samples.to_csv(folder / "samples.csv", index=False)
    items = pd.DataFrame({"item": names, "x": rng.normal(size=8), LONG[0]: rng.normal(size=8)})
    items.to_csv(folder / "items.csv", index=False)
    wins = battles.head(80).rename(columns={"model_a": "first", "model_b": "second"})
    wins["outcome"] = np.where(wins["winner"] == "model_a", "win", "loss")
    wins[["first", "second", "outcome"]].to_csv(folder / "votes.csv", index=False)
    return folder


PAGES = {
    "auto": "auto rows.csv --label grade --query search --test rows.csv --time-budget 0"
    " --report auto.html --force --out auto.rankwise",
    "tune": "tune rows.csv --label grade --query search --encode onehot"
    " --scale query-standard --plot tune.html --force --out model.rankwise",
    "card": "card model.rankwise --rows rows.csv --force --out card.html",
    "curves": "card curves.rankwise --rows rows.csv --force --out curves.html",
    "demo/report": "demo --force --out demo",
    "explain": "explain model.rankwise rows.csv --query 3 --above 1 --below 2 --force"
    " --report explain.html",
    "auc": "auc samples.csv --label state --positive relapse --permutations 50 --force"
    " --report auc.html",
    "leaderboard": "leaderboard battles.csv --time day --style tokens --elo --force"
    " --anchor a=1000 --report leaderboard.html",
    "periods": "leaderboard battles.csv --time day --every month --force --report periods.html",
    "preferences": "preferences items.csv votes.csv --force --report preferences.html",
}


@pytest.fixture(scope="module")
def page(browser, tables):
    """Write the page of a command, and give its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tables)

        def page(name):
            result = invoke([*PAGES[name].split()])
            assert result.exit_code == 0, result.stderr or result.exception
            return (tables / f"{name}.html").as_uri()

        page("tune")  # writes the model for the others
        fit = "fit rows.csv --label grade --query search --ignore district --model sparse-rankrls"
        assert invoke([*fit.split(), "--out", "curves.rankwise"]).exit_code == 0
        yield page


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read(browser, page, name):
    address = page(name)
    for width, colours in ((420, "dark"), (420, "light"), (1200, "dark"), (1200, "light")):
        shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
        shown.goto(address)
        assert shown.evaluate(FAULTS) == [], (width, colours)
        shown.close()
