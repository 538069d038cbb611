"""Figures in the README, the guides and the paper are the figures of the results.

`make bench` and `make reproduce` write docs/benchmarks.md and docs/results.md. FIGURES lists words
of pages, with their figures in groups, and where each figure comes from. tests/test_papers.py
checks the page about the papers, and tests/test_documentation.py the table of the README.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
OURS, PEER, RATIO = 1, 2, 3  # columns of docs/benchmarks.md


def number(words):
    return float(words.replace(",", ""))


def cells(lines, beginning):
    """The cells of each row that begins so, in every table."""
    found = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {beginning}")]
    assert found, f"no row begins with {beginning!r}"
    return found


def bench(beginning, column=RATIO, which=0, row=0):
    """A number of docs/benchmarks.md; rows with the same words are numbered."""
    return number(NUMBER.findall(cells(BENCHMARKS, beginning)[row][column])[which])


def result(beginning, column):
    """A number in the last row of docs/results.md that begins so."""
    return number(NUMBER.findall(cells(RESULTS, beginning)[-1][column])[0])


def times_numpy(first, last):
    """How many times plain NumPy the bilinear ranker is, at least and at most, in some rows."""
    plain = [row for row in cells(BENCHMARKS, "bilinear ranker") if "NumPy and SciPy" in row[PEER]]
    ratios = [1.0 / number(row[RATIO]) for row in plain[first:last]]
    return [min(ratios), max(ratios)]


def load(items, raters):
    """The figures of `rankwise ask` with so many items and raters."""
    parts = ("first page", "95%", "longest", "all processes")
    return [bench(f"{items} items, {raters} raters: {part}", OURS) for part in parts]


def table(title, rows):
    """The cells of some rows of a table of docs/results.md, below its title."""
    begin = next(i for i, line in enumerate(RESULTS) if line.startswith(f"**{title}"))
    end = next(i for i in range(begin + 2, len(RESULTS)) if not RESULTS[i].startswith("|"))
    return cells(RESULTS[begin:end], rows)


def missed(title, rows):
    """The percentages of samples whose interval misses the truth, for some numbers of rows."""
    found = [row for row in table(title, "") if row[1] in rows]
    return [100.0 * number(cell) for row in found for cell in row[2:]]


def gains():
    """What unlabelled rows gain in NDCG@10, and its standard error, in each case."""
    rows = [row for place in ("OHSUMED", "MQ2008") for row in table(f"{place}, 10 draws", "")]
    return [
        [float(part) for part in row[3].split(" ± ")] for row in rows if "Transductive" in row[1]
    ]


def words(name):
    """MAP and error of a row of the bilinear ranker's tables: 20 Newsgroups, then MNIST."""
    return [number(row[k]) for row in cells(RESULTS, f"{name} |")[-2:] for k in (1, 3)]


def ndcg(name):
    """The mean of the contest, in the first table that has the ranker."""
    return number(NUMBER.findall(cells(RESULTS, name)[0][1])[0])


FIGURES = [
    *(
        (
            page,
            r"rows of 136 features takes ([\d.]+) s on two cores.* ten regularizations, takes "
            r"([\d.]+) times as long.*thirteen problems: `AutoRanker` ([\d.]+), tuned CatBoost "
            r"([\d.]+)",
            lambda: [
                bench("primal RankRLS, 1,000,000 x 136, 10,000 queries", OURS),
                bench("each of 100,000 comparisons held out"),
                ndcg("AutoRanker |"),
                ndcg("CatBoost, tuned"),
            ],
        )
        for page in ("README.md", "docs/index.md")
    ),
    (
        "docs/guide/costs.md",
        r"([\d.]+) MB/s on two cores",
        lambda: [bench("read_letor, 102 MB", OURS, 1)],
    ),
    (
        "docs/guide/deploying.md",
        r"in ([\d.]+) of the time of `predict`.*takes ([\d.]+) times",
        lambda: [
            bench("onnxruntime, 100,000 rows", row=1),
            bench("onnxruntime, 100,000 rows"),
        ],
    ),
    (
        "docs/guide/words-against-words.md",
        r"takes ([\d.]+) times as long as a loop that only",
        lambda: [bench("bilinear ranker, dense, 10,000 words, float64", row=3)],
    ),
    (
        "docs/guide/words-against-words.md",
        r"(\d+) to (\d+) times on a processor with ARM",
        lambda: times_numpy(0, 4),
    ),
    (
        "docs/guide/words-against-words.md",
        r"(\d+) to (\d+) times on the Xeon",
        lambda: times_numpy(4, 8),
    ),
    (
        "docs/guide/many-machines.md",
        r"took ([\d.]+) s on one worker and ([\d.]+) s on two",
        lambda: [
            bench("RankRLS on two workers", PEER),
            bench("RankRLS on two workers", OURS),
        ],
    ),
    *(
        (
            "docs/guide/asking.md",
            rf"\| {items:,} \| {raters} \| ([\d.]+) s \| (\d+) ms \| ([\d.]+) s \| ([\d.]+) s \|",
            lambda items=items, raters=raters: load(items, raters),
        )
        for items, raters in ((200, 10), (1000, 10), (5000, 10), (200, 50))
    ),
    (
        "docs/guide/asking.md",
        r"\| 100, without features \| ([\d,]+) \| ([\d,]+) \|",
        lambda: [
            bench("100 items: answers", OURS),
            bench("100 items: answers", PEER),
        ],
    ),
    (
        "docs/guide/asking.md",
        r"98% of the variance of scores \| ([\d,]+) \|",
        lambda: [bench("100 items with features that explain 98%", OURS)],
    ),
    (
        "docs/guide/asking.md",
        r"80% of it \| ([\d,]+) \|",
        lambda: [bench("100 items with features that explain 80%", OURS)],
    ),
    (
        "docs/guide/asking.md",
        r"\| 12, without features \| (\d+) \| \| (\d+) \|",
        lambda: [
            bench("12 items: answers", OURS),
            bench("12 items: answers", PEER),
        ],
    ),
    (
        "README.md",
        r"On products of signs, CatBoost is ahead by ([\d.]+\d)\.",
        lambda: [abs(number(cells(RESULTS, "signs |")[1][5]))],
    ),
    (
        "docs/guide/tour.md",
        r"was ([\d.]+) for `AutoRanker`, and ([\d.]+) to ([\d.]+) for tuned",
        lambda: [
            ndcg("AutoRanker |"),
            min(ndcg(f"{name}, tuned") for name in ("LightGBM", "XGBoost", "CatBoost")),
            max(ndcg(f"{name}, tuned") for name in ("LightGBM", "XGBoost", "CatBoost")),
        ],
    ),
    (
        "docs/guide/comparisons.md",
        r"([\d.]+)% of new pairs are in the wrong order, and ([\d.]+)% with an average",
        lambda: [
            100.0 * result("winner, 5% flipped, no model of flips", 1),
            100.0 * result("the same, averaged over the width", 1),
        ],
    ),
    (
        "docs/guide/comparisons.md",
        r"new comparisons is ([\d.]+), and ([\d.]+)% of new pairs .* features reaches ([\d.]+) and "
        r"([\d.]+)%",
        lambda: [
            factor * bench("log-loss of new comparisons, sinc", column, which)
            for column in (OURS, PEER)
            for which, factor in ((0, 1.0), (1, 100.0))
        ],
    ),
    (
        "docs/guide/comparisons.md",
        r'"bald" needs (\d+), (\d+) and (\d+)% of the comparisons',
        lambda: [
            100.0 * number(table("Comparisons until", pool)[0][5])
            for pool in ("diabetes", "plane", "sinc")
        ],
    ),
    (
        "docs/guide/how-sure.md",
        r"truth in at most ([\d.]+)% of samples with 20 to 60 rows, and in (\d+)% to ([\d.]+)% "
        r"with 200 rows.* at most ([\d.]+)% of samples with 30 and 60 rows, and in at most "
        r"([\d.]+)% with 200 rows.*one case of 35 reached ([\d.]+)%",
        lambda: [
            max(missed("Share of samples whose interval of", ("20", "30", "60"))),
            min(missed("Share of samples whose interval of", ("200",))),
            max(missed("Share of samples whose interval of", ("200",))),
            max(missed("Share of samples whose interval misses", ("30", "60"))),
            max(missed("Share of samples whose interval misses", ("200",))),
            max(missed("Share of samples whose interval misses", ("20",))),
        ],
    ),
    (
        "docs/guide/unlabelled.md",
        r"NDCG@10 changes by (-[\d.]+) to \+([\d.]+), at most ([\d.]+) standard errors",
        lambda: [
            min(gain for gain, _ in gains()),
            max(gain for gain, _ in gains()),
            max(abs(gain) / error for gain, error in gains()),
        ],
    ),
    *(
        (
            "docs/guide/words-against-words.md",
            rf"\| {ours} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|",
            lambda theirs=theirs: words(theirs),
        )
        for ours, theirs in (
            ("class probabilities", "class probabilities"),
            ("bilinear, sparse with refit", "Sparse-R"),
            ("LSA, 200 components", "LSA-200"),
            ("cosine", "Identity"),
        )
    ),
    (
        "docs/guide/choosing-alpha.md",
        r"([\d.]+) if each refit standardizes its 60 rows",
        lambda: [number(table("Microarray studies", "alon")[0][3])],
    ),
    (
        "docs/guide/landmarks.md",
        r"disagreement error of (\d\.\d+), and the 2,500 rows alone (\d\.\d+)",
        lambda: [
            number(table("Table 1 of the sparse paper: dis", name)[0][7])
            for name in ("sparse RankRLS", "RankRLS")
        ],
    ),
    (
        "paper/paper.md",
        r"averages the best, is ([\d.]+)\. Tuned CatBoost has ([\d.]+), tuned XGBoost "
        r"([\d.]+) and tuned LightGBM ([\d.]+)",
        lambda: [
            ndcg("AutoRanker |"),
            ndcg("CatBoost, tuned"),
            ndcg("XGBoost, tuned"),
            ndcg("LightGBM, tuned"),
        ],
    ),
    ("paper/paper.md", r"A linear `RankRLS` has ([\d.]+):", lambda: [ndcg("RankRLS, default")]),
    (
        "paper/paper.md",
        r"mean average precision of RankRLS is ([\d.]+), as in the paper",
        lambda: [number(cells(RESULTS, "OHSUMED |")[0][1])],
    ),
    (
        "paper/paper.md",
        r"\(([\d.]+) and ([\d.]+) for new drugs\)",
        lambda: [
            number(cells(RESULTS, "within a drug | 2D and ECFP4")[0][3]),
            number(cells(RESULTS, "within a drug | 2D and ECFP4")[0][2]),
        ],
    ),
    (
        "paper/paper.md",
        r"takes ([\d.]+) times a fit to 200,000 rows of 46 features, holding out each "
        r"of 100,000 comparisons for ten alphas ([\d.]+) times .* 4,000 rows ([\d.]+) of kernel",
        lambda: [
            bench('alpha="auto", linear, 200,000 x 46'),
            bench("each of 100,000 comparisons held out"),
            bench("dual RankRLS, rbf, 4000 x 50"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("page", "words", "source"),
    FIGURES,
    ids=[row[0] for row in FIGURES],
)
def test_figures_are_those_of_the_results(page, words, source):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    found = re.search(words, text)
    assert found, "the words are not on the page"
    shown, wanted = found.groups(), source()
    assert len(shown) == len(wanted)
    for figure, value in zip(shown, wanted, strict=True):
        digits = len(figure.partition(".")[2])
        assert number(figure) == pytest.approx(value, abs=0.5001 * 10.0**-digits)
