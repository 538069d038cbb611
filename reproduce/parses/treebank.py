"""Gold dependencies, and their conversion to arcs in the style of Link Grammar.

Universal dependencies connect content words; Link Grammar links prepositions, auxiliaries and
conjunctions. `linked_style` converts the former to the latter, so that a correct linkage can match
them. Without it, no linkage is rewarded for attaching a preposition correctly.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Arc = tuple[int, int]
AUXILIARY = {"aux", "auxpass", "cop"}
SUBJECT = {"nsubj", "nsubjpass", "csubj", "csubjpass", "expl"}
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"}


@dataclass(frozen=True)
class Sentence:
    """Tokens with their heads (-1 for the root) and relations."""

    name: str
    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_conllu(path: Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file in gz; without multiword ranges and empty nodes."""
    stem = path.name.split(".")[0]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows: list[list[str]] = []
        number = 0
        for line in [*file, "\n"]:
            if line.strip():
                if not line.startswith("#"):
                    rows.append(line.rstrip("\n").split("\t"))
                continue
            rows = [row for row in rows if row[0].isdigit()]
            if rows:
                number += 1
                yield Sentence(
                    f"{stem}:{number}",
                    tuple(BRACKETS.get(row[1], row[1]) for row in rows),
                    tuple(int(row[6]) - 1 for row in rows),
                    tuple(row[7] for row in rows),
                )
            rows = []


def plain_arcs(sentence: Sentence) -> set[Arc]:
    """Head and dependent of every word that is not punctuation, the smaller index first."""
    return {
        _arc(i, head)
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
        if head >= 0 and relation != "punct"
    }


def linked_style(sentence: Sentence) -> set[Arc]:
    """Gold arcs in the style of Link Grammar, without punctuation.

    1. Auxiliaries and copulas before their predicate: the first holds the subject, each holds
       the next, the last holds the predicate; towards its head, the first stands for all.
    2. Coordination: the last conjunction holds all conjuncts and stands for them towards their
       head, and it holds the subject if the other conjuncts have none of their own.
    3. Prepositions and subordinators: "bind to DNA" has the arcs (bind, to) and (to, DNA).

    All other arcs are unchanged.
    """
    gold = _Tree(sentence)
    words = [i for i, relation in enumerate(gold.relations) if relation != "punct"]
    for i in words:
        helpers = [h for h in gold.children(i, AUXILIARY) if h < i]
        if helpers:
            gold.chain([*helpers, i])
            gold.move(gold.children(i, SUBJECT), helpers[0])
    for i in words:
        conjunctions, conjuncts = gold.children(i, {"cc"}), gold.children(i, {"conj"})
        if conjunctions and conjuncts:
            subjects = gold.children(i, SUBJECT)
            if not any(gold.children(c, SUBJECT) for c in conjuncts):
                gold.move(subjects, conjunctions[-1])
            gold.join(conjunctions[-1], [i, *conjuncts])
    for i in words:
        links = gold.children(i, {"case", "mark"})
        if links:
            gold.chain([*links, i])
    rest = ((i, gold.heads[i]) for i in words if i not in gold.placed and gold.heads[i] >= 0)
    gold.arcs |= {_arc(gold.top[i], head) for i, head in rest}
    return {(i, j) for i, j in gold.arcs if i != j}


class _Tree:
    """A gold tree under reconstruction."""

    def __init__(self, sentence: Sentence) -> None:
        self.relations = [relation.split(":")[0] for relation in sentence.relations]
        self.heads = list(sentence.heads)
        self._dependents: dict[int, list[int]] = {}
        for i, head in enumerate(sentence.heads):
            self._dependents.setdefault(head, []).append(i)
        self.top = list(range(len(self.heads)))  # what stands for a word towards its head
        self.placed: set[int] = set()  # words whose arc is among `arcs`
        self.arcs: set[Arc] = set()

    def children(self, i: int, relations: Set[str]) -> list[int]:
        """Dependents by these relations in the gold tree, from left to right."""
        return [c for c in self._dependents.get(i, ()) if self.relations[c] in relations]

    def move(self, words: list[int], head: int) -> None:
        for word in words:
            self.heads[word] = head

    def chain(self, words: list[int]) -> None:
        """Each word holds the next; the first stands for the last."""
        *front, last = words
        tops = [*front, self.top[last]]
        self.arcs |= {_arc(i, j) for i, j in pairwise(tops)}
        self.placed |= set(front)
        self.top[last] = front[0]

    def join(self, conjunction: int, conjuncts: list[int]) -> None:
        """A conjunction holds the conjuncts, and stands for the first."""
        first, *others = conjuncts
        self.arcs |= {_arc(conjunction, self.top[c]) for c in conjuncts}
        self.placed |= {conjunction, *others}
        self.top[first] = conjunction


def _arc(i: int, j: int) -> Arc:
    return (i, j) if i < j else (j, i)
