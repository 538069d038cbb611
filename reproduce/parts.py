"""The list of what can be reproduced: what each part runs, needs, and is worth knowing of."""

from __future__ import annotations

from dataclasses import dataclass

LETOR = ("letor1_ohsumed", "letor4_mq2008")


@dataclass(frozen=True)
class Part:
    """One command of a folder.

    Attributes
    ----------
    name : str
        For people, and for ``python -m reproduce NAME``.
    arguments : tuple of str
        What Python is called with.
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
    """A folder: a section of the page of results. Sentences here have no figures: these are in
    the blocks, which the commands write.

    Attributes
    ----------
    folder : str
    title : str
    about : str
        What the tables below it are.
    differences : str
        Why they are not the paper's own.
    parts : tuple of Part
        Run one after the other.
    minutes : int
        What it takes on one core, roughly: the longest are started first.
    uses : tuple of str
        Other folders whose code it runs, seen from reproduce/.
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
        "Tables 1 to 3 of the RankRLS paper on OHSUMED, the same protocol on MQ2008, boosted trees "
        "on the same features, and what this library can do with more than the paper uses.",
        "The TREC data could not be had, so their figures are quoted and MQ2008 stands beside "
        "them; RankBoost is quoted from the published reference results.",
        (
            Part("letor/paper", _module("letor", "paper"), ("paper",), LETOR),
            Part("letor/boosters", _module("letor", "boosters"), ("boosters",), LETOR),
            Part("letor/beyond", _module("letor", "beyond"), ("beyond",), LETOR),
        ),
        minutes=40,
    ),
    Paper(
        "parses",
        "RankRLS and sparse RankRLS: parses",
        "Table 8 of the RankRLS paper and Table 1 of the sparse RankRLS paper.",
        "The papers' gold parses and kernel could not be had: the sentences are GENIA's in the "
        "place of BioInfer's, the candidates are those of a newer Link Grammar, the gold arcs are "
        "dependencies turned into its style, and the kernel counts walks. So the order of the "
        "rankers can be compared with the paper's, and the values only roughly.",
        (
            Part("parses/tables", _module("parses", "tables"), ("tables",), ("genia",)),
            Part("parses/tried", _module("parses", "tried"), ("tried",), ("genia",)),
            Part("parses/draws", _module("parses", "draws"), ("draws",), ("genia",)),
            Part("parses/bioinfer", _module("parses", "bioinfer"), ("bioinfer",), ("bioinfer",)),
        ),
        minutes=30,
    ),
    Paper(
        "leave_pair_out",
        "Leave-pair-out",
        "The paper's claims, measured: exactness, time, and unbiasedness.",
        "The paper has theorems and no tables to stand beside these.",
        tuple(
            Part(f"leave_pair_out/{step}", _module("leave_pair_out", step), (step,))
            for step in ("exactness", "timing", "bias")
        ),
        minutes=3,
    ),
    Paper(
        "landmarks",
        "Sparse RankRLS: which rows are landmarks",
        "Section 4 of the sparse RankRLS paper holds that random landmarks do as well as chosen "
        "ones; here five ways to choose them are compared.",
        "The paper has no table of it.",
        (Part("landmarks", _module("landmarks"), ("results",), (*LETOR, "mnist")),),
        minutes=10,
        uses=("letor",),
    ),
    Paper(
        "kpcrank",
        "KPCRank",
        "Table 1 of the KPCRank paper (noise) and its sinc experiment.",
        "The parses of the paper are not those of GENIA, nor of the small sample of BioInfer; "
        "OHSUMED and the generated task are ours. That KPCRank is the best under noise is "
        "the paper's finding on its parses; whether it is here, each table says.",
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
            Part("kpcrank/sinc", _module("kpcrank", "sinc"), ("sinc",)),
        ),
        minutes=8,
        uses=("parses",),
    ),
    Paper(
        "pairwise_gp",
        "Gaussian processes on comparisons",
        "The sinc experiment of the KPCRank paper's Gaussian process, expectation propagation "
        "beside sampling, active choice beside random asking, and human preferences.",
        "Of the sinc experiment the paper gives one figure, and does not say of which of its two "
        "models; of the others it has none.",
        tuple(
            Part(f"pairwise_gp/{step}", _module("pairwise_gp", step), (step,), data)
            for step, data in (
                ("sinc", ()),
                ("montecarlo", ()),
                ("asking", ()),
                ("preferences", ("llm_preferences",)),
            )
        ),
        minutes=7,
        uses=("kpcrank", "../tests/oracles", "../tests/solvers/gp"),
    ),
    Paper(
        "sparse-pairwise-features",
        "Sparse bilinear ranking",
        "Tables II and III and Figure 1 of the paper on 20 Newsgroups and MNIST, after the trials "
        "that settle how they are run.",
        "RCV1 could not be had; preprocessing and triplets of the paper are known only in outline.",
        tuple(
            Part(
                f"sparse-pairwise-features/{step}",
                _module("sparse-pairwise-features", step),
                (step,),
                data,
            )
            for step, data in (
                ("trials", ("newsgroups20", "mnist")),
                ("20 Newsgroups", ("newsgroups20",)),
                ("MNIST", ("mnist",)),
            )
        ),
        minutes=30,
    ),
)
