"""Alignment, scores and features of parses, on linkages that Link Grammar made of our sentences."""

import gzip
import json
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.errors import DataError
from reproduce.parses import run
from reproduce.parses.candidates import (
    PER_SENTENCE,
    Corpus,
    Parsed,
    aligned,
    arcs,
    choose,
    f1,
    from_json,
    load_corpus,
    to_json,
)
from reproduce.parses.features import Node, WalkCounts, distance, link_type, node, walks
from reproduce.parses.link_grammar import Linkage, LinkParser, without_walls
from reproduce.parses.treebank import Sentence, linked_style, plain_arcs, read_conllu

PROTEIN = """\
1	The	the	DT	DT	_	2	det	_	_
2	protein	protein	NN	NN	_	3	nsubj	_	_
3	binds	bind	VBZ	VBZ	_	0	root	_	_
4	the	the	DT	DT	_	5	det	_	_
5	receptor	receptor	NN	NN	_	3	dobj	_	_
6	in	in	IN	IN	_	8	case	_	_
7	the	the	DT	DT	_	8	det	_	_
8	nucleus	nucleus	NN	NN	_	3	nmod	_	_
9	.	.	.	.	_	3	punct	_	_
"""
GENES = """\
# a comment
1	Two	two	CD	CD	_	2	nummod	_	_
2	genes	gene	NNS	NNS	_	7	nsubjpass	_	_
3	and	and	CC	CC	_	2	cc	_	_
4	one	one	CD	CD	_	5	nummod	_	_
5	enzyme	enzyme	NN	NN	_	2	conj	_	_
6	are	be	VBP	VBP	_	7	auxpass	_	_
7	required	require	VBN	VBN	_	0	root	_	_
8	for	for	IN	IN	_	9	case	_	_
9	growth	growth	NN	NN	_	7	nmod	_	_
9.1	left	leave	VBN	VBN	_	_	_	_	_
10	.	.	.	.	_	7	punct	_	_
"""


@pytest.fixture
def bank(tmp_path):
    """A treebank of two sentences, as GENIA's files are laid out."""
    for part, text in {"dev": PROTEIN, "test": GENES}.items():
        with gzip.open(tmp_path / f"{part}.conllu.gz", "wt", encoding="utf-8") as file:
            file.write(text + "\n")
    return tmp_path


@pytest.fixture
def protein(bank):
    return next(read_conllu(bank / "dev.conllu.gz"))


@pytest.fixture
def genes(bank):
    return next(read_conllu(bank / "test.conllu.gz"))


@pytest.fixture(scope="module")
def stored():
    """Linkages by sentence."""
    entries = json.loads((Path(__file__).parent / "linkages.json").read_text(encoding="utf-8"))
    return {
        entry["sentence"]: [
            Linkage(tuple(words), tuple((i, j, label) for i, j, label in links))
            for words, links in entry["linkages"]
        ]
        for entry in entries
    }


@pytest.fixture
def linkages(stored, protein):
    return stored[" ".join(protein.tokens)]


def names(sentence, found):
    return {(sentence.tokens[i], sentence.tokens[j]) for i, j in found}


def test_conllu_is_read_without_comments_and_empty_nodes(genes):
    assert genes.name == "test:1"
    assert len(genes.tokens) == 10
    assert genes.heads[0] == 1
    assert genes.heads[6] == -1


def test_brackets_are_spelled_out(tmp_path):
    path = tmp_path / "dev.conllu.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("1\t-LSB-\t_\t_\t_\t_\t0\troot\t_\t_\n")
    assert next(read_conllu(path)).tokens == ("[",)


def test_plain_arcs_leave_punctuation_out(protein):
    assert names(protein, plain_arcs(protein)) == {
        ("The", "protein"),
        ("protein", "binds"),
        ("binds", "receptor"),
        ("the", "receptor"),
        ("binds", "nucleus"),
        ("in", "nucleus"),
        ("the", "nucleus"),
    }


def test_prepositions_stand_between(protein):
    changed = names(protein, linked_style(protein)) - names(protein, plain_arcs(protein))
    assert changed == {("binds", "in")}
    assert ("binds", "nucleus") not in names(protein, linked_style(protein))


def test_conjunctions_and_auxiliaries_hold_what_they_join(genes):
    assert names(genes, linked_style(genes)) == {
        ("Two", "genes"),
        ("genes", "and"),
        ("one", "enzyme"),
        ("and", "enzyme"),
        ("and", "are"),
        ("are", "required"),
        ("required", "for"),
        ("for", "growth"),
    }


def test_a_shared_subject_hangs_on_the_conjunction():
    both = Sentence(
        "s", ("He", "runs", "and", "jumps"), (1, -1, 1, 1), ("nsubj", "root", "cc", "conj")
    )
    assert linked_style(both) == {(0, 2), (1, 2), (2, 3)}
    own = Sentence(
        "s",
        ("He", "runs", "and", "she", "jumps"),
        (1, -1, 1, 4, 1),
        ("nsubj", "root", "cc", "nsubj", "conj"),
    )
    assert linked_style(own) == {(0, 1), (1, 2), (2, 4), (3, 4)}


def test_walls_go_and_places_move():
    found = without_walls(
        ["LEFT-WALL", "it", "works.v", "RIGHT-WALL"],
        [(0, 1, "Wd"), (1, 2, "Ss"), (0, 2, "WV"), (2, 3, "RW")],
    )
    assert found == Linkage(("it", "works.v"), ((0, 1, "Ss"),))


def test_alignment_is_token_by_token(stored, protein, linkages):
    assert all(aligned(protein, linkage) for linkage in linkages)
    text = "Well-known factors activate it in 50% of cases ."
    relations = ("dep",) * 9
    split = Sentence("s", tuple(text.split()), (-1, *range(8)), relations)
    assert not any(aligned(split, linkage) for linkage in stored[text])
    other = Sentence("s", ("A", *protein.tokens[1:]), protein.heads, protein.relations)
    assert not aligned(other, linkages[0])


def test_scores_reward_the_right_attachment(protein, linkages):
    parsed = Parsed(protein, tuple(linkages), tuple(range(len(linkages))))
    scores = parsed.scores()
    with_verb = [(2, 5) in arcs(linkage, protein) for linkage in linkages]
    with_noun = [(4, 5) in arcs(linkage, protein) for linkage in linkages]
    right = [v and not n for v, n in zip(with_verb, with_noun, strict=True)]
    assert any(right)
    assert_allclose(scores[right], 1.0)
    assert (scores[np.logical_not(right)] < 1.0).all()


def test_f1_by_hand():
    assert f1({(0, 1), (1, 2)}, {(1, 2), (2, 3), (3, 4)}) == pytest.approx(2 * 1 / 5)
    assert f1(set(), set()) == 0.0


def test_a_correct_linkage_of_a_coordination_has_score_one(stored, genes):
    linkages = stored[" ".join(genes.tokens)]
    assert Parsed(genes, tuple(linkages), tuple(range(len(linkages)))).scores().max() == 1.0


def test_candidates_are_different_and_few(protein, linkages):
    parsed = choose(protein, [*linkages, *linkages])
    assert set(parsed.linkages) == set(linkages)
    assert sorted(parsed.places) == list(range(len(linkages)))
    assert all(linkages[p] == c for p, c in zip(parsed.places, parsed.linkages, strict=True))
    assert choose(protein, linkages[:1] * 3) is None
    many = [Linkage(linkages[0].words, (*linkages[0].links, (0, 8, f"X{k}"))) for k in range(99)]
    assert len(choose(protein, many).linkages) == PER_SENTENCE
    assert choose(protein, many) == choose(protein, many)


def test_what_is_stored_comes_back(protein, linkages):
    corpus = Corpus((choose(protein, linkages),), {"sentences": 3})
    again = json.loads(json.dumps(to_json(corpus)))
    assert from_json(again, {protein.name: protein}) == corpus


def test_a_corpus_is_parsed_once(bank, stored, tmp_path, monkeypatch):
    calls = []

    class Stored:
        """Instead of Link Grammar."""

        def __init__(self, folder, **limits):
            calls.append(folder)

        def parse(self, tokens):
            return stored[" ".join(tokens)]

    monkeypatch.setattr("reproduce.parses.candidates.LinkParser", Stored)
    cache, told = tmp_path / "cache", []
    first = load_corpus(bank, cache, lambda: Path("here"), told.append)
    second = load_corpus(bank, cache, lambda: Path("there"), told.append)
    assert first == second
    assert calls == [Path("here")]
    assert told == [1, 2]
    assert first.counts == {"sentences": 2, "not parsed": 0, "other tokens": 0, "one parse": 0}


def test_a_missing_library_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"install\.sh"):
        LinkParser(tmp_path, linkage_limit=1, seconds=1)


@pytest.mark.parametrize(
    ("word", "label"),
    [
        ("binds.v", Node("binds", ".v")),
        ("The", Node("the", "-")),
        (".", Node(".", "-")),
        ("CD4[!<CAPITALIZED-WORDS>]", Node("cd4", "[!<CAPITALIZED-WORDS>]")),
        ("bovis[?].n", Node("bovis", "[?].n")),
        ("e.g.e", Node("e.g", ".e")),
    ],
)
def test_words_and_tags(word, label):
    assert node(word) == label


def test_link_types_and_distances():
    assert [link_type(label) for label in ("Ss*s", "MVp", "hSJls", "dJp")] == ["S", "MV", "SJ", "J"]
    assert [distance(0, j) for j in (1, 2, 3, 4, 6, 9, 40)] == [0, 1, 2, 3, 4, 5, 6]


def test_walks_of_a_small_parse():
    linkage = Linkage(("it", "works.v", "well.e"), ((0, 1, "Ss"), (1, 2, "MVa")))
    assert walks(linkage, 0) == {"it -": 1, "works .v": 1, "well .e": 1}
    links = walks(linkage, 1)
    assert links["* S *"] == links["it S works"] == links["- S .v"] == links["=MVa"] == 1
    assert sum(links.values()) == 2 * (2 + 9)
    assert walks(linkage, 2) == {
        "S>MV>": 1,
        "S>MV> - .v .e": 1,
        "S>MV> * works *": 1,
        "S>MV> it * well": 1,
        "S>MV> it works well": 1,
    }
    assert not walks(linkage, 3)


def test_longer_walks_are_paths():
    """A star has no path of three links, a chain of four words has one."""
    star = Linkage(tuple("abcd"), ((0, 1, "A"), (0, 2, "A"), (0, 3, "A")))
    chain = Linkage(tuple("abcd"), ((0, 1, "A"), (1, 2, "B"), (2, 3, "C")))
    assert not walks(star, 3)
    assert walks(chain, 3) == {"A>B>C>": 1, "A>B>C> - - - -": 1}


@pytest.mark.parametrize("cosine", [False, True])
def test_the_kernel_is_that_of_the_features(linkages, cosine):
    counts = WalkCounts(linkages)
    rows = np.arange(len(counts))
    K = counts.kernel(rows, rows[:2], max_length=3, decay=0.5, cosine=cosine)
    want = np.zeros((len(linkages), len(linkages)))
    for length in range(4):
        for i, a in enumerate(linkages):
            for j, b in enumerate(linkages):
                mine, other = walks(a, length), walks(b, length)
                want[i, j] += 0.25**length * sum(mine[key] * other[key] for key in mine)
    if cosine:
        want /= np.sqrt(np.outer(want.diagonal(), want.diagonal()))
    assert_allclose(K, want[:, :2])


def test_hashed_features_keep_their_sums(linkages):
    exact, hashed = WalkCounts(linkages), WalkCounts(linkages, n_buckets=64)
    for plain, table in zip(exact.counts, hashed.counts, strict=True):
        assert table.shape[1] == 64
        assert_allclose(plain.sum(axis=1), table.sum(axis=1))


def test_without_apt_the_error_gives_advice(tmp_path, monkeypatch):
    def fails(command, **_):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fails)
    monkeypatch.setattr(run, "CACHE", tmp_path)
    monkeypatch.delenv("LINK_GRAMMAR", raising=False)
    with pytest.raises(DataError, match="set LINK_GRAMMAR to the folder"):
        run.link_grammar()


def test_two_folders_do_not_parse_at_the_same_time(tmp_path):
    inside, most = 0, 0

    def parse():
        nonlocal inside, most
        with run.alone(tmp_path / "cache" / "lock"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.05)
            inside -= 1

    threads = [threading.Thread(target=parse) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
