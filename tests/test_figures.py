"""Figures in the README, the guides and the paper are the figures of the results.

`make bench` and `make reproduce` write docs/benchmarks.md and docs/results.md. FIGURES lists words
of pages, with their figures in groups, and where each figure comes from. tests/test_papers.py
checks the page about the papers, and tests/test_documentation.py the table of the README.
"""

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
OURS, PEER, RATIO, LIMIT = 1, 2, 3, 4  # columns of docs/benchmarks.md
ARM, XEON = "aarch64", "Processor, 16 cores"  # words of the lines below the tables


def number(words):
    return float(words.replace(",", ""))


def cells(lines, beginning):
    """The cells of each row that begins so, in every table."""
    found = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {beginning}")]
    assert found, f"no row begins with {beginning!r}"
    return found


def measured(beginning, machine):
    """The cells of the rows of docs/benchmarks.md that begin so, in tables of such machines."""
    text = "\n".join(BENCHMARKS)
    tables = re.findall(r"((?:^\|.*\n)+)\n\*(.*)\*$", text, flags=re.MULTILINE)
    return cells(
        [row for rows, origin in tables if machine in origin for row in rows.splitlines()],
        beginning,
    )


def bench(beginning, column=RATIO, which=0, machine=""):
    """A number of docs/benchmarks.md, in the first row that begins so on such a machine."""
    return number(NUMBER.findall(measured(beginning, machine)[0][column])[which])


def dsyrk():
    """What a core of the first machine does in a second, in 10¹⁰ operations."""
    return 1e6 * 136**2 / 2 / bench("primal RankRLS, 1,000,000 x 136", PEER, machine=ARM) / 1e10


def predicted(workers):
    """Seconds for 2,000,000 rows in 40 partitions, by the formulas of the page about clusters."""
    return (2e6 * 136**2 / (round(dsyrk(), 1) * 1e10) + 40 * 0.02) / workers + 0.5


def result(beginning, column):
    """A number in the last row of docs/results.md that begins so."""
    return number(NUMBER.findall(cells(RESULTS, beginning)[-1][column])[0])


def times_numpy(machine):
    """How many times plain NumPy the bilinear ranker is, at least and at most, on a machine."""
    rows = measured("bilinear ranker", machine)
    ratios = [1.0 / number(row[RATIO]) for row in rows if "NumPy and SciPy" in row[PEER]]
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


def ends(beginning):
    """In how many of 200 runs a session ended at its goal, and after how many answers."""
    return [
        200.0 * (1.0 - bench(beginning, OURS)),
        number(re.search(r"\((\d+) answers", measured(beginning, "")[0][PEER])[1]),
    ]


def log_losses(of):
    """By how much the mean log-loss differs from refits, in each problem."""
    rows = measured(of, "")
    return [abs(number(row[OURS]) - number(NUMBER.findall(row[PEER])[0])) for row in rows]


def region():
    """For each share outside of the leading components, by how much KPCRank is better.

    Also, by how much components with a ridge are better than components alone.
    """
    begin = next(i for i, line in enumerate(RESULTS) if line.startswith("| outside the first five"))
    signed = re.compile(r"([-+][\d.]+) ± [\d.]+ \(([-+][\d.]+)\)")
    return {
        int(row.strip("| ").partition("%")[0]): [
            (float(alone), float(ridge) - float(alone)) for alone, ridge in signed.findall(row)
        ]
        for row in RESULTS[begin + 2 : begin + 8]
    }


def ridge():
    """How much lower, and higher, the error is with a ridge, for noise of twice the spread."""
    gains = [row[2][1] for row in region().values()]
    return [max(gains), -min(gains)]


def sometimes_better():
    """Shares with which KPCRank is better for some noise only, and the first where it never is."""
    best = {share: [gain > 0.0 for gain, _ in row] for share, row in region().items()}
    some = [share for share, better in best.items() if any(better) and not all(better)]
    return [*some, min(share for share, better in best.items() if not any(better))]


def against_random():
    """Other landmarks on OHSUMED and MQ2008: difference of errors, and its standard errors."""
    found = []
    for place in ("OHSUMED", "MQ2008"):
        rows = [row for row in table(f"{place}, 5 seeds", "") if row[0].isdigit()]
        errors = [number(NUMBER.findall(row[2])[0]) for row in rows]
        chance = {
            row[0]: error for row, error in zip(rows, errors, strict=True) if row[1] == "random"
        }
        found += [
            (row[1], abs(error - chance[row[0]]), float(row[3]))
            for row, error in zip(rows, errors, strict=True)
            if row[1] != "random"
        ]
    return found


def mnist(landmarks):
    """Error, seconds for choosing and seconds for fitting."""
    row = table("MNIST, 5 seeds", landmarks)[0]
    return [number(NUMBER.findall(row[k])[0]) for k in (2, 4, 5)]


def bias(name):
    """Bias and standard deviation of an estimate of the AUC, without and with signal."""
    return [
        float(row[k])
        for mean in ("0.500", "0.669")
        for row in table(f"Estimates of an AUC whose mean is {mean}", f"{name} |")
        for k in (1, 3)
    ]


def studies():
    """The three studies of `rankwise auc`."""
    return [row for row in table("Microarray studies", "") if row[1].isdigit()]


def plan(name):
    """The cells of a row of the last table of the bilinear ranker."""
    return cells(RESULTS, f"{name} |")[-1]


def groups(name):
    """MAP and percentage of the weights that are left."""
    return number(plan(name)[1][:5]), number(plan(name)[3].strip("%"))


FIGURES = [
    *(
        ("docs/guide/gpu.md", words, source)
        for words, source in (
            (
                r"does (\d+) TFLOP/s in matrix products",
                lambda: [bench("SparseRankRLS, 1,000,000 x 100", PEER, which=2)],
            ),
            (
                r"20 alphas \| ([\d.]+) s, ([\d.]+) GiB .* moments \| ([\d.]+) s .*"
                r'device="cuda"` \| ([\d.]+) s .* `path_blocks` \| ([\d.]+) s .*'
                r'precision="tf32"` \| ([\d.]+) s .* all rows \| ([\d.]+) s',
                lambda: [
                    *(bench("SparseRankRLS, 1,000,000 x 100", OURS, which=k) for k in (0, 1)),
                    bench("its moments", OURS),
                    bench("the same from NumPy, 1,000,000 x 100", OURS),
                    bench("from 50 blocks of NumPy arrays", OURS),
                    bench('with precision="tf32"', OURS),
                    bench("its scores of all rows", OURS),
                ],
            ),
            (
                r"wide kernel, .* 20 alphas \| ([\d.]+) s .* one alpha \| ([\d.]+) s .* "
                r"40,000 rows \| ([\d.]+) s, ([\d.]+) GiB .* most that fit \| ([\d.]+) s .* "
                r"5 alphas \| ([\d.]+) s .* 200 queries, dual, 20,000 rows \| ([\d.]+) s .* "
                r"100 components, 20,000 rows \| ([\d.]+) s",
                lambda: [
                    bench("SparseRankRLS, a wide kernel", OURS),
                    bench("leave-pair-out, 20,000 rows, 199,990,000 pairs", OURS),
                    bench("memory of dual RankRLS, 40,000 rows", 0, which=1),
                    bench("memory of dual RankRLS, 40,000 rows", OURS),
                    bench("dual RankRLS, 77,500 rows, the most that fit", OURS),
                    bench("leave-query-out, dual, 200 queries, 5 alphas", OURS),
                    bench("leave-pair-out within 200 queries, dual", OURS),
                    bench("KPCRank, 100 components, 20,000 rows", OURS),
                ],
            ),
            (
                r"200 landmarks \| ([\d.]+) s \| ([\d.]+) s .* 1,000 landmarks \| ([\d.]+) s \| "
                r"([\d.]+) s .* 2,000 landmarks \| ([\d.]+) s \| ([\d.]+) s",
                lambda: [
                    bench(f"SparseRankRLS, {size} landmarks, 20 alphas", column, which)
                    for size in ("2,000 rows, 200", "20,000 rows, 1,000", "100,000 rows, 2,000")
                    for column, which in ((OURS, 0), (PEER, 1))
                ],
            ),
        )
    ),
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
            bench("onnxruntime, 100,000 rows", machine=XEON),
            bench("onnxruntime, 100,000 rows", machine=ARM),
        ],
    ),
    (
        "docs/guide/words-against-words.md",
        r"takes ([\d.]+) times as long as a loop that only",
        lambda: [bench("bilinear ranker, dense, 10,000 words, float64", machine=XEON)],
    ),
    (
        "docs/guide/words-against-words.md",
        r"(\d+) to (\d+) times on a processor with ARM",
        lambda: times_numpy(ARM),
    ),
    (
        "docs/guide/words-against-words.md",
        r"(\d+) to (\d+) times on the Xeon",
        lambda: times_numpy(XEON),
    ),
    (
        "docs/guide/many-machines.md",
        r"do ([\d.]+) · 10¹⁰ each.* took ([\d.]+) s on one worker and ([\d.]+) s on two, ([\d.]+) "
        r"times .* predict ([\d.]+) and ([\d.]+) s\. ([\d.]+) MB was moved",
        lambda: [
            dsyrk(),
            bench("RankRLS on two workers", PEER, machine=ARM),
            bench("RankRLS on two workers", OURS, machine=ARM),
            1.0 / bench("RankRLS on two workers", machine=ARM),
            predicted(1),
            predicted(2),
            10.0 * bench("moved in all, for each of 40 partitions", machine=ARM),
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
        "docs/guide/landmarks.md",
        r"disagreement error of (\d\.\d+), and the 2,500 rows alone (\d\.\d+)",
        lambda: [
            number(table("Table 1 of the sparse paper: dis", name)[0][7])
            for name in ("sparse RankRLS", "RankRLS")
        ],
    ),
    (
        "docs/guide/graphs.md",
        r"2,000 trees of 25 nodes takes ([\d.]+) s with all labels, ([\d.]+) s with the labels of "
        r"ends, and ([\d.]+) s with",
        lambda: [
            bench("walks, all labels", OURS),
            bench("walks, labels of ends", OURS),
            bench("Weisfeiler-Lehman, 3 rounds", OURS),
        ],
    ),
    (
        "docs/guide/how-sure.md",
        r"200 rows take ([\d.]+) times as long as a fit.* take as long as (\d+) calls",
        lambda: [
            bench("1,000 permutations, RLS, rbf, all pairs of 200"),
            bench("1,000 permutations without ties, rbf, all pairs of 100"),
        ],
    ),
    (
        "docs/guide/how-sure.md",
        r"its bias was ([\d.]+\d) without signal and ([\d.]+\d) with it\. .* nested AUC was at "
        r"most ([\d.]+\d), which is less than its standard error of ([\d.]+\d)",
        lambda: [
            *(number(row[2].strip("+")) for row in table("Ten of 200", "") if "not" in row[1]),
            *max(
                (float(row[2]), float(row[3]))
                for row in table("Ten of 200", "")
                if row[1] == "nested"
            ),
        ],
    ),
    (
        "docs/guide/how-sure.md",
        r"studies of (\d+) to (\d+) samples, with ([\d,]+) permutations, this takes ([\d.]+) to "
        r"([\d.]+) s of CPU",
        lambda: [
            *(end(int(row[1]) for row in studies()) for end in (min, max)),
            number(NUMBER.findall(next(x for x in RESULTS if x.startswith("**Microarray")))[0]),
            *(end(float(row[8]) for row in studies()) for end in (min, max)),
        ],
    ),
    (
        "docs/guide/asking.md",
        r"reached in (\d+) of 200 runs .* wrong, (\d+) answers in the median\) and in (\d+) of 200 "
        r"runs .* wrong, (\d+) answers\)",
        lambda: [*ends("8 items, The whole order"), *ends("12 items, The top 3")],
    ),
    (
        "docs/guide/comparisons.md",
        r"mean log-loss differs by at most ([\d.]+\d)",
        lambda: [max(log_losses("log-loss of held-out comparisons"))],
    ),
    (
        "docs/guide/components.md",
        r"sometimes with (\d+) or (\d+)% there, and worse from (\d+)% on",
        sometimes_better,
    ),
    (
        "docs/guide/components.md",
        r"the error is up to ([\d.]+) lower with a ridge than without, and at most ([\d.]+) higher",
        ridge,
    ),
    (
        "docs/guide/costs.md",
        r"about (\d+) vectors of m \+ n numbers.* at most (\d+) fits of `SparseRankRLS`",
        lambda: [
            bench("extra memory, 500,000 x 500,000"),
            bench("10,000 rows of 40 features: fourteen rankers", LIMIT),
        ],
    ),
    (
        "docs/guide/costs.md",
        r"ten alphas of a path \| one factorization \(linear\), ([\d.]+) fits",
        lambda: [bench("dual path of ten alphas")],
    ),
    (
        "docs/guide/many-features.md",
        r"about (\d+) vectors of m \+ n numbers",
        lambda: [bench("extra memory, 500,000 x 500,000")],
    ),
    (
        "docs/guide/many-features.md",
        r"`tol=1e-10` agree with it to 1e-(\d)",
        lambda: [-math.log10(float(measured("weights at tol=1e-10", "")[0][LIMIT]))],
    ),
    (
        "docs/guide/many-features.md",
        r"a fit takes ([\d.]+) times as long as `RankRLS`",
        lambda: [bench("RankSVM, 60,000 x 100,000")],
    ),
    (
        "docs/guide/two-sided.md",
        r"takes ([\d.]+) times as long as the fit for ten alphas",
        lambda: [bench("all rows held out, 2,000 x 2,000 table")],
    ),
    (
        "docs/guide/leaderboards.md",
        r"log-loss fell by up to ([\d.]+\d) where",
        lambda: [
            -min(
                float(row[5])
                for row in table("Log-loss of later battles, 8", "")
                if row[-1] in ("yes", "no")
            )
        ],
    ),
    (
        "docs/guide/landmarks.md",
        r"differ by at most ([\d.]+\d)\. Of (\d+) comparisons, (\d+) find another method worse.* "
        r"error of ([\d.]+) instead of ([\d.]+) at r = 500",
        lambda: [
            max(difference for _, difference, _ in against_random()),
            len(against_random()),
            sum(z < -2.0 for _, _, z in against_random()),
            mnist("500 | kmeans")[0],
            mnist("500 | random")[0],
        ],
    ),
    (
        "docs/guide/landmarks.md",
        r"takes (\d+) times as long as fitting, and in (\d+)% of that time 1,000 random landmarks "
        r"reach ([\d.]+\d)\.",
        lambda: [
            mnist("500 | kmeans")[1] / mnist("500 | kmeans")[2],
            100.0 * sum(mnist("1,000 | random")[1:]) / mnist("500 | kmeans")[1],
            mnist("1,000 | random")[0],
        ],
    ),
    *(
        (
            "docs/guide/small-samples.md",
            rf"\| (?:\*\*)?{name}(?:\*\*)? \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|",
            lambda name=name: bias(name),
        )
        for name in (
            "leave-one-out, pooled",
            "5 shuffled folds, pooled",
            "5 stratified folds, pooled",
            "5 shuffled folds, averaged",
            "5 stratified folds, averaged",
            "leave-pair-out",
        )
    ),
    (
        "docs/guide/small-samples.md",
        r"The standard error of a bias is at most ([\d.]+\d)\.",
        lambda: [
            max(
                float(row[2])
                for mean in ("0.500", "0.669")
                for row in table(f"Estimates of an AUC whose mean is {mean}", "")
                if row[2][:2] == "0."
            ),
        ],
    ),
    (
        "docs/guide/words-against-words.md",
        r"raises the MAP from ([\d.]+) to ([\d.]+)\. With groups of rows, the MAP is ([\d.]+) with "
        r"(\d+)% of the weights and ([\d.]+) with (\d+)%\. With single weights, it is ([\d.]+) "
        r"with (\d+)%.* a MAP of ([\d.]+\d), after (\d+),000 steps",
        lambda: [
            *(number(plan(name)[1][:5]) for name in ("Sparse-R, adagrad", "to the identity")),
            *groups("rows as groups"),
            *groups("rows as groups, larger alpha"),
            *groups("Sparse-R, adagrad"),
            number(plan("stopped early")[1][:5]),
            number(plan("stopped early")[7]) / 1000.0,
        ],
    ),
    (
        "docs/papers.md",
        r"([\d.]+) times one `dsyrk`.* and ([\d.]+) times `KernelRidge`.* twice the rows take "
        r"([\d.]+) times the time.* ([\d.]+) times `SparseRankRLS`.* take ([\d.]+) times p = 200",
        lambda: [
            bench("primal RankRLS, 1,000,000 x 136", machine="2 of 16 cores"),
            bench("dual RankRLS, rbf, 4000 x 50", machine="2 of 16 cores"),
            bench("all pairs after the factorization, a matrix, 4000 rows"),
            bench("KPCRank on landmarks, 100,000 rows"),
            bench("fit and predictions for all p up to 200"),
        ],
    ),
    (
        "docs/papers.md",
        r"exponent ([\d.]+) on landmarks.*: m\^([\d.]+) from 100,000.* as m\^([\d.]+) from 800",
        lambda: [
            bench("exponent of time in rows"),
            bench("exponent of time in rows"),
            number(re.search(r"all pairs grows as m\^([\d.]+)", "\n".join(RESULTS))[1]),
        ],
    ),
    (
        "docs/papers.md",
        r"NDCG@10 changes by (-[\d.]+) to \+([\d.]+), at most ([\d.]+) standard errors",
        lambda: [
            min(gain for gain, _ in gains()),
            max(gain for gain, _ in gains()),
            max(abs(gain) / error for gain, error in gains()),
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


def test_no_booster_is_ahead_elsewhere():
    """As the README says: but for products of signs, by more than a standard error."""
    begin = next(i for i, line in enumerate(RESULTS) if line.startswith("| AutoRanker is ahead of"))
    rows = [line.strip("| ").split(" | ") for line in RESULTS[begin + 2 : begin + 15]]
    behind = {
        problem
        for problem, *figures in rows
        for ahead, error in zip(figures[::2], figures[1::2], strict=True)
        if float(ahead) < -float(error)
    }
    assert len(rows) == 13
    assert behind == {"signs"}
