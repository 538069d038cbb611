"""The parts that can be reproduced: their commands, data and descriptions."""

from __future__ import annotations

from dataclasses import dataclass

LETOR = ("letor1_ohsumed", "letor4_mq2008")


@dataclass(frozen=True)
class Part:
    """One command of a folder.

    Attributes
    ----------
    name : str
        As in ``python -m reproduce NAME``.
    arguments : tuple of str
        Arguments of the Python interpreter.
    blocks : tuple of str
        Blocks of the folder's README that it writes.
    data : tuple of str
        Folders under RANKWISE_DATA that it reads.
    """

    name: str
    arguments: tuple[str, ...]
    blocks: tuple[str, ...]
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """A folder, and a section of the page of results.

    The sentences here have no figures. Figures are in the blocks, which the commands write.

    Attributes
    ----------
    folder : str
    title : str
    about : str
        What the tables show.
    differences : str
        Why they differ from those of the paper.
    parts : tuple of Part
        Run one after the other.
    minutes : int
        Approximate time on one core; the longest are started first.
    uses : tuple of str
        Other folders whose code it runs, relative to reproduce/.
    """

    folder: str
    title: str
    about: str
    differences: str
    parts: tuple[Part, ...]
    minutes: int = 1
    uses: tuple[str, ...] = ()


def _module(folder: str, *steps: str) -> tuple[str, ...]:
    return ("-m", f"reproduce.{folder}.run", "--write", *steps)


PAPERS = (
    Paper(
        "letor",
        "RankRLS: documents",
        "Tables 1 to 7 of the RankRLS paper on OHSUMED, the same protocol on MQ2008, boosted trees "
        "on the same features, and the best results of this library beyond the paper.",
        "The TREC data are not to be had, so Tables 4 to 7 are quoted, and some of their rows are "
        "next to those for MQ2008. RankBoost is quoted from the published reference results.",
        (
            Part("letor/paper", _module("letor", "paper"), ("paper",), LETOR),
            Part("letor/boosters", _module("letor", "boosters"), ("boosters",), LETOR),
            Part("letor/beyond", _module("letor", "beyond"), ("beyond",), LETOR),
        ),
        minutes=10,
    ),
    Paper(
        "contest",
        "A contest with boosted trees",
        "Rankers out of the box, tuned rankers, and tuned boosted trees, on thirteen problems.",
        "It is not from a paper.",
        (
            Part(
                "contest",
                _module("contest"),
                ("contest",),
                (*LETOR, "genia", "drug_target"),
            ),
        ),
        minutes=35,
        uses=("letor", "parses", "two_sided"),
    ),
    Paper(
        "parses",
        "RankRLS and sparse RankRLS: parses",
        "Table 8 of the RankRLS paper and Table 1 of the sparse RankRLS paper.",
        "The papers' gold parses and kernel are not available. The sentences are from GENIA "
        "instead of BioInfer, the candidates are those of a newer Link Grammar, the gold arcs are "
        "dependencies converted to its style, and the kernels count walks, between labels as the "
        "papers' kernel does, or of all labels. So the order of the rankers can be compared with "
        "the papers, but the values only roughly.",
        (
            Part("parses/tables", _module("parses", "tables"), ("tables",), ("genia",)),
            Part("parses/kernels", _module("parses", "kernels"), ("kernels",), ("genia",)),
            Part("parses/tried", _module("parses", "tried"), ("tried",), ("genia",)),
            Part("parses/draws", _module("parses", "draws"), ("draws",), ("genia",)),
            Part("parses/ties", _module("parses", "ties"), ("ties",), ("genia",)),
            Part("parses/bioinfer", _module("parses", "bioinfer"), ("bioinfer",), ("bioinfer",)),
        ),
        minutes=30,
    ),
    Paper(
        "leave_pair_out",
        "Leave-pair-out",
        "Measurements of the paper's claims: exactness, time, and unbiasedness, and of the error "
        "of an approximation. Then, how sure the AUC is: coverage of intervals, p-values without "
        "signal, nested hold-outs, AutoRanker's estimate, and three microarray studies.",
        "The paper has theorems, but no tables.",
        (
            *(
                Part(f"leave_pair_out/{step}", _module("leave_pair_out", step), (step,))
                for step in (
                    "exactness",
                    "approximation",
                    "timing",
                    "bias",
                    "coverage",
                    "null",
                    "nested",
                    "auto",
                )
            ),
            Part(
                "leave_pair_out/microarray",
                _module("leave_pair_out", "microarray"),
                ("microarray",),
                ("microarray",),
            ),
        ),
        minutes=7,
    ),
    Paper(
        "landmarks",
        "Sparse RankRLS: which rows should be landmarks",
        "Section 4 of the sparse RankRLS paper states that random landmarks are as good as "
        "others. Here, five methods to choose landmarks are compared.",
        "The paper has no table for this.",
        (Part("landmarks", _module("landmarks"), ("results",), (*LETOR, "mnist")),),
        minutes=10,
        uses=("letor",),
    ),
    Paper(
        "transductive",
        "RankRLS with rows without labels",
        "The RankRLS paper plans to evaluate a transductive version on retrieval tasks. Here, 5, "
        "10 and 20% of the queries of OHSUMED and MQ2008 have labels, and the others are ranked.",
        "The paper has no table for this.",
        (
            Part("transductive/labels", _module("transductive", "labels"), ("labels",), LETOR),
            Part("transductive/time", _module("transductive", "time"), ("time",), LETOR),
        ),
        minutes=4,
    ),
    Paper(
        "two_sided",
        "RankRLS on tables with two sides",
        "The papers rank pairs of an instance and a label, with a kernel on each side. Here, the "
        "pairs are 68 drugs and 442 targets (Davis et al. 2011), and drugs, targets or cells are "
        "new. The ranking loss is compared with Kronecker ridge regression, in plain NumPy, with "
        "the same kernels and choices.",
        "The papers have no table for these data. The figure of RLScore for cells is quoted.",
        tuple(
            Part(f"two_sided/{step}", _module("two_sided", step), (step,), ("drug_target",))
            for step in ("new drugs", "new targets", "random cells")
        ),
        minutes=10,
    ),
    Paper(
        "kpcrank",
        "KPCRank",
        "Table 1 of the KPCRank paper (noise), a simulation of where components are better than a "
        "ridge, and the sinc experiment.",
        "The paper uses other parses than those of GENIA or of the small sample of BioInfer, and "
        "does not use OHSUMED or the generated task. The paper's headline, that KPCRank is the "
        "best ranker under noise, could not be reproduced on any of these data.",
        (
            Part(
                "kpcrank/GENIA parses",
                _module("kpcrank", "GENIA parses"),
                ("GENIA parses",),
                ("genia",),
            ),
            Part(
                "kpcrank/BioInfer parses",
                _module("kpcrank", "BioInfer parses"),
                ("BioInfer parses",),
                ("bioinfer",),
            ),
            Part(
                "kpcrank/OHSUMED",
                _module("kpcrank", "OHSUMED"),
                ("OHSUMED",),
                ("letor1_ohsumed",),
            ),
            Part(
                "kpcrank/low-dimensional",
                _module("kpcrank", "low-dimensional"),
                ("low-dimensional",),
            ),
            Part("kpcrank/region", _module("kpcrank", "region"), ("region",)),
            Part("kpcrank/sinc", _module("kpcrank", "sinc"), ("sinc",)),
        ),
        minutes=8,
        uses=("parses",),
    ),
    Paper(
        "pairwise_gp",
        "Gaussian processes on comparisons",
        "The sinc experiment of the KPCRank paper's Gaussian process, expectation propagation "
        "compared with sampling, active choice of comparisons compared with random choice, and "
        "human preferences.",
        "For the sinc experiment, the paper has one figure, and does not say for which of its two "
        "models. It has no figures for the other experiments.",
        tuple(
            Part(f"pairwise_gp/{step}", _module("pairwise_gp", step), (step,), data)
            for step, data in (
                ("sinc", ()),
                ("figure", ()),
                ("montecarlo", ()),
                ("asking", ()),
                ("preferences", ("llm_preferences",)),
            )
        ),
        minutes=7,
        uses=("kpcrank", "../tests/oracles", "../tests/gp"),
    ),
    Paper(
        "comparisons",
        "Comparisons with groups and context",
        "Human preferences between answers of language models, with their length as context and "
        "whole prompts held out; and exact hold-outs of items, compared with refits.",
        "There is no paper with these tables.",
        (
            Part(
                "comparisons/preferences",
                _module("comparisons", "preferences"),
                ("preferences",),
                ("llm_preferences",),
            ),
            Part(
                "comparisons/items",
                _module("comparisons", "items"),
                ("items",),
                ("drug_target",),
            ),
        ),
        minutes=5,
        uses=("pairwise_gp",),
    ),
    Paper(
        "leaderboard",
        "Leaderboards",
        "How often intervals of ratings, effects and ranks hold the truth in simulated battles, "
        "with and without clustering by session, from rankings of many items, of ratings that "
        "drift, and of categories; what judges and ties by item add; and `rankwise leaderboard` "
        "on real battles.",
        "There is no paper with these tables.",
        (
            Part("leaderboard/coverage", _module("leaderboard", "coverage"), ("coverage",)),
            Part("leaderboard/judges", _module("leaderboard", "judges"), ("judges",)),
            Part("leaderboard/ties", _module("leaderboard", "ties"), ("ties",)),
            Part("leaderboard/rankings", _module("leaderboard", "rankings"), ("rankings",)),
            Part("leaderboard/drift", _module("leaderboard", "drift"), ("drift",)),
            Part("leaderboard/categories", _module("leaderboard", "categories"), ("categories",)),
            Part(
                "leaderboard/real",
                _module("leaderboard", "real"),
                ("real",),
                ("llm_preferences", "letor1_ohsumed", "drug_target"),
            ),
        ),
        minutes=10,
    ),
    Paper(
        "many_features",
        "Many sparse features",
        "Posts of 20 Newsgroups, with all words and pairs of words as features, ranked for each "
        "group by RankRLS with twenty outputs, ridge regression, a support vector machine and "
        "logistic regression.",
        "There is no paper with these tables.",
        (
            Part(
                "many_features/newsgroups",
                _module("many_features", "newsgroups"),
                ("newsgroups",),
                ("newsgroups20",),
            ),
        ),
        minutes=15,
    ),
    Paper(
        "sparse-pairwise-features",
        "Sparse bilinear ranking",
        "Tables I to III and Figure 1 of the paper on 20 Newsgroups and MNIST, the trials that "
        "determined the settings, and what the paper plans: a prior for W, and groups of words.",
        "RCV1 is not to be had, so its table is quoted. The paper describes its preprocessing and "
        "triplets only briefly.",
        tuple(
            Part(
                f"sparse-pairwise-features/{step}",
                _module("sparse-pairwise-features", step),
                (step,),
                data,
            )
            for step, data in (
                ("data", ("newsgroups20", "mnist")),
                ("trials", ("newsgroups20", "mnist")),
                ("20 Newsgroups", ("newsgroups20",)),
                ("MNIST", ("mnist",)),
                ("prior", ("newsgroups20",)),
            )
        ),
        minutes=30,
    ),
)
