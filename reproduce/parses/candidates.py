"""Candidate parses of treebank sentences with their scores, parsed once and stored.

A sentence is used if Link Grammar has the same tokens as the treebank, and at least two complete
linkages. If there are more than `PER_SENTENCE` different linkages, that many are drawn at random.
The score of a linkage is the F1 of its arcs compared with the gold arcs (`treebank.linked_style`),
without punctuation.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwise.files import replacing
from reproduce.parses.link_grammar import Linkage, LinkParser
from reproduce.parses.treebank import Arc, Sentence, linked_style, plain_arcs, read_conllu

PARTS = ("dev", "test")
PER_SENTENCE = 20
LINKAGE_LIMIT = 100
SECONDS = 5
FORMAT = 1  # raised when linkages are read or chosen in another way: what is kept is then dropped


@dataclass(frozen=True)
class Parsed:
    """A sentence with its candidates; `places` are their ranks in the order of Link Grammar."""

    sentence: Sentence
    linkages: tuple[Linkage, ...]
    places: tuple[int, ...]

    def scores(self, gold: Callable[[Sentence], set[Arc]] = linked_style) -> np.ndarray:
        """F1 of the arcs of each candidate compared with the gold arcs."""
        correct = gold(self.sentence)
        return np.array([f1(arcs(c, self.sentence), correct) for c in self.linkages])


@dataclass(frozen=True)
class Corpus:
    """The parsed sentences, and how many were left out."""

    parsed: tuple[Parsed, ...]
    counts: dict[str, int]


def arcs(linkage: Linkage, sentence: Sentence) -> set[Arc]:
    """The arcs of a linkage between words that are not punctuation."""
    dots = {i for i, relation in enumerate(sentence.relations) if relation == "punct"}
    return {(i, j) for i, j, _ in linkage.links if i not in dots and j not in dots}


def f1(found: set[Arc], correct: set[Arc]) -> float:
    """Harmonic mean of precision and recall; 0 if both sets are empty."""
    total = len(found) + len(correct)
    return 2.0 * len(found & correct) / total if total else 0.0


def aligned(sentence: Sentence, linkage: Linkage) -> bool:
    """Whether the words of a linkage are the tokens, one by one, up to case and subscripts."""
    return len(linkage.words) == len(sentence.tokens) and all(
        word.lower().startswith(token.lower())
        for token, word in zip(sentence.tokens, linkage.words, strict=True)
    )


def choose(sentence: Sentence, linkages: Sequence[Linkage]) -> Parsed | None:
    """Different aligned linkages, at most `PER_SENTENCE`, or None if there are not two."""
    different = {
        c: place for place, c in reversed(list(enumerate(linkages))) if aligned(sentence, c)
    }
    ordered = sorted(different.items(), key=lambda item: item[1])
    if len(ordered) < 2:
        return None
    seed = int.from_bytes(hashlib.sha256(sentence.name.encode()).digest()[:8], "little")
    order = np.random.default_rng(seed).permutation(len(ordered))[:PER_SENTENCE]
    kept = [ordered[i] for i in order]
    return Parsed(sentence, tuple(c for c, _ in kept), tuple(place for _, place in kept))


def parse_treebank(
    sentences: Iterable[Sentence], parser: LinkParser, progress: Callable[[int], None]
) -> Corpus:
    """Parse the sentences, and keep those that qualify."""
    parsed, counts = [], {"sentences": 0, "not parsed": 0, "other tokens": 0, "one parse": 0}
    for done, sentence in enumerate(sentences, start=1):
        counts["sentences"] += 1
        linkages = parser.parse(list(sentence.tokens))
        chosen = choose(sentence, linkages)
        if not linkages:
            counts["not parsed"] += 1
        elif not any(aligned(sentence, c) for c in linkages):
            counts["other tokens"] += 1
        elif chosen is None:
            counts["one parse"] += 1
        else:
            parsed.append(chosen)
        progress(done)
    return Corpus(tuple(parsed), counts)


def load_corpus(
    data: Path,
    cache: Path,
    link_grammar: Callable[[], Path],
    progress: Callable[[int], None] = lambda done: None,
) -> Corpus:
    """The candidates of GENIA's sentences, read from `cache` if they are stored there.

    Parameters
    ----------
    data : Path
        The folder with GENIA's CoNLL-U files.
    cache : Path
        A folder for the linkages; it is not in the repository.
    link_grammar : callable
        Returns the folder of Link Grammar; called only if sentences have to be parsed.
    progress : callable
        Called with the number of parsed sentences.
    """
    files = [data / f"{part}.conllu.gz" for part in PARTS]
    settings = f"{FORMAT} {PER_SENTENCE} {LINKAGE_LIMIT} {SECONDS}".encode()
    key = hashlib.sha256(settings + b"".join(file.read_bytes() for file in files)).hexdigest()
    kept = cache / f"linkages-{key[:16]}.json.gz"
    sentences = [sentence for file in files for sentence in read_conllu(file)]
    if not kept.exists():
        parser = LinkParser(link_grammar(), linkage_limit=LINKAGE_LIMIT, seconds=SECONDS)
        corpus = parse_treebank(sentences, parser, progress)
        cache.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as beside, gzip.open(beside, "wt", encoding="utf-8") as file:
            json.dump(to_json(corpus), file)
    with gzip.open(kept, "rt", encoding="utf-8") as file:
        return from_json(json.load(file), {s.name: s for s in sentences})


def to_json(corpus: Corpus) -> dict:
    """Words and links of every candidate; the sentences themselves stay in the treebank."""
    return {
        "counts": corpus.counts,
        "parsed": [
            {
                "name": p.sentence.name,
                "places": p.places,
                "linkages": [[c.words, c.links] for c in p.linkages],
            }
            for p in corpus.parsed
        ],
    }


def from_json(stored: dict, sentences: dict[str, Sentence]) -> Corpus:
    """Read what `to_json` has stored."""
    return Corpus(tuple(_parsed(stored["parsed"], sentences)), stored["counts"])


def _parsed(stored: list[dict], sentences: dict[str, Sentence]) -> Iterator[Parsed]:
    for entry in stored:
        linkages = tuple(
            Linkage(tuple(words), tuple((i, j, label) for i, j, label in links))
            for words, links in entry["linkages"]
        )
        yield Parsed(sentences[entry["name"]], linkages, tuple(entry["places"]))


def summary(corpus: Corpus) -> dict[str, float]:
    """Mean F1 of the candidates over sentences, before training."""
    styles = {"linked": linked_style, "plain": plain_arcs}
    found: dict[str, float] = {}
    for name, gold in styles.items():
        scores = [p.scores(gold) for p in corpus.parsed]
        first = [s[int(np.argmin(p.places))] for s, p in zip(scores, corpus.parsed, strict=True)]
        found[f"best, {name}"] = float(np.mean([s.max() for s in scores]))
        found[f"mean, {name}"] = float(np.mean([s.mean() for s in scores]))
        found[f"first, {name}"] = float(np.mean(first))
    return found
