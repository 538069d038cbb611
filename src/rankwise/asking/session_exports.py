"""The results of a session: tables for programs and for spreadsheets, a model, a page."""

from __future__ import annotations

import base64
import html
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import numpy as np

from rankwise.asking.items import Item
from rankwise.asking.judged_raters import ADVERSARY
from rankwise.asking.log import OUTCOMES, Answer
from rankwise.asking.session import Session
from rankwise.asking.standings import Ranking
from rankwise.errors import DataError
from rankwise.tables import csv_text, plural

_WORDS = ("win", "loss", "tie", "tie")  # for OUTCOMES
_WINNERS = ("model_a", "model_b", "tie", "both_bad")
_OTHER_WORDS = (
    ("first", "second", "draw", "tie (bothbad)"),
    ("left", "right", "draw", "tie (bothbad)"),
    ("a", "b", "both", "tie (bothbad)"),
)
_FRAME = (  # the same for all pictures, light or dark: also drawings without a background are seen
    "display: block; width: 12rem; height: 12rem; object-fit: contain; background: #c4c9cf"
)
_SHOWN, _PICTURES, _PICTURE_BYTES = 60, 12, 1_500_000


def exact_ranking(session: Session) -> Ranking:
    """The ranking by a fit from scratch to the present answers."""
    session.settle()
    return session.ranking()


def ranking_csv(session: Session, *, for_spreadsheets: bool = False) -> str:
    """The ranking with intervals."""
    rows = exact_ranking(session).rows()
    values = (row.values() for row in rows)
    return csv_text(list(rows[0]), values, for_spreadsheets=for_spreadsheets)


ranking_for_spreadsheets = partial(ranking_csv, for_spreadsheets=True)


def ranking_json(session: Session) -> str:
    """The ranking with intervals, its settings, and the reports on raters."""
    ranking = exact_ranking(session)
    raters = sum(not rater.dropped for rater in session.raters)
    found = {"raters": raters, "interval": ranking.level, "ranking": ranking.rows()}
    found["rater_reports"] = [asdict(report) for report in session.rater_reports()]
    return json.dumps(how_far(session) | found, ensure_ascii=False, indent=1)


def how_far(session: Session) -> dict[str, Any]:
    """What is asked, and how far the goal is."""
    progress = session.progress()
    return {
        "question": session.settings.question,
        "goal": str(progress.goal),
        "goal_reached": progress.met,
        "certainty": progress.certainty,
        "expected_wrong": progress.expected_wrong,
        "answers": session.n_answers(),
    }


def comparisons_csv(session: Session, *, for_spreadsheets: bool = False) -> str:
    """The answers that count, as `rankwise preferences` reads them."""
    names = ("first", "second", "outcome", "rater", "time")
    words = _free_words(session, _WORDS)
    rows = ((a.first, a.second, words[a.outcome], a.rater, _time(a)) for a in session.counted())
    return csv_text(names, rows, for_spreadsheets=for_spreadsheets)


comparisons_for_spreadsheets = partial(comparisons_csv, for_spreadsheets=True)


def battles_csv(session: Session) -> str:
    """The answers that count, in the columns of arena battles, as `rankwise leaderboard` reads."""
    names = ("model_a", "model_b", "winner", "judge", "tstamp")
    words = _free_words(session, _WINNERS)
    rows = ((a.first, a.second, words[a.outcome], a.rater, a.time) for a in session.counted())
    return csv_text(names, rows)


def model_bytes(session: Session) -> bytes:
    """The model file of a `PairwiseGP` fitted from scratch to the present answers."""
    from rankwise.persistence import save_model

    model, _ = session.fit()
    with tempfile.TemporaryDirectory() as folder:
        path = save_model(model.gp, Path(folder, "model.rankwise"))
        return Path(path).read_bytes()


def share_page(session: Session) -> str:
    """The ranking as a page in one file, without scripts."""
    from rankwise.report import Facts, Figure, Page, Section, Text  # slow to import

    ranking, progress = exact_ranking(session), session.progress()
    items = {item.id: item for item in session.items}
    n_raters = len({a.rater for a in session.counted()})
    n_answers = session.n_answers()
    facts = Facts(
        (
            (f"{len(ranking):,}", "items"),
            (f"{n_answers:,}", "answers"),
            (f"{n_raters:,}", "rater" if n_raters == 1 else "raters"),
            (f"{100 * progress.certainty:.0f}%", "sure that the goal is reached"),
        )
    )
    shown = min(len(ranking), _SHOWN)
    caption = (
        f"Scores with {100 * ranking.level:.0f}% intervals, relative to the mean of all items, in "
        "units of the noise of an answer. Where intervals overlap much, the order is uncertain."
    )
    figure = Figure(rank_chart(ranking, shown), f"Scores of {plural(shown, 'item')}", caption)
    blocks: list[Any] = [facts, Text(f"{progress.goal}. {progress}"), figure]
    against = sum(report.remark == ADVERSARY for report in session.rater_reports())
    if against:
        words = f"{plural(against, 'rater')} of {n_raters} preferred the worse items"
        blocks.insert(2, Text(f"{words}: these answers count the other way round."))
    pictures, large = _pictures(session, ranking, items)
    sections = [Section("Result", blocks)]
    if pictures:
        sections.append(Section("Pictures", [_Gallery(pictures)]))
    if large:
        words = f"Pictures of more than {_PICTURE_BYTES / 1e6} MB are left out: {', '.join(large)}."
        sections.append(Section("", [Text(words)]))
    sections.append(Section("All items", [ranking.to_table(brief=True)]))
    day = time.strftime("%Y-%m-%d")
    return Page(
        session.settings.question,
        f"A ranking of {plural(len(ranking), 'item')} from {plural(n_answers, 'answer')} of "
        f"{plural(n_raters, 'rater')}.",
        sections,
        footer=f"Made with `rankwise ask` on {day}.",
    ).to_html()


@dataclass(frozen=True)
class _Gallery:
    """Pictures of the best items."""

    pictures: list[tuple[str, str]]  # caption and address

    def to_html(self) -> str:
        return "".join(
            f'<figure style="display: inline-block; margin: 0.5rem; vertical-align: top">'
            f'<img src="{source}" alt="" style="{_FRAME}">'
            f'<figcaption style="max-width: 12rem; overflow-wrap: anywhere">{html.escape(caption)}'
            "</figcaption></figure>"
            for caption, source in self.pictures
        )

    def to_markdown(self) -> str:
        return "\n".join(f"- {caption}" for caption, _ in self.pictures)


def _pictures(
    session: Session, ranking: Ranking, items: dict[str, Item]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The pictures of the best items, and the captions of those that are too large."""
    found, large = [], []
    for place, name in enumerate(ranking.items[:_PICTURES], 1):
        kept = session.log.get_file(items[name].image) if items[name].image else None
        if kept is None:
            continue
        data, media_type = kept
        caption = f"{place}. {name}"
        if len(data) > _PICTURE_BYTES:
            large.append(caption)
        else:
            found.append((caption, f"data:{media_type};base64,{base64.b64encode(data).decode()}"))
    return found, large


def _free_words(session: Session, usual: Sequence[str]) -> dict[str, str]:
    """Words for outcomes that are not ids: readers would take the id of an item as the winner."""
    ids = {item.id for item in session.items}
    for words in (usual, *_OTHER_WORDS):
        if ids.isdisjoint(words):
            return dict(zip(OUTCOMES, words, strict=True))
    raise DataError(
        f"Items have the ids {', '.join(sorted(ids & {*usual, *chain(*_OTHER_WORDS)}))}, which are "
        "words for outcomes as well: rename one of them."
    )


def _time(answer: Answer) -> str:
    return datetime.fromtimestamp(answer.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_WIDTH, _ROW, _NAMES, _LETTERS = 460, 18, 170, 22  # letters can be read on a phone
_BLUE = "var(--series-1, #0072b2)"


def rank_chart(ranking: Ranking, shown: int) -> str:
    """Scores with intervals, the best items on top."""
    least = min(0.0, float(ranking.low[:shown].min()))
    most = max(0.0, float(ranking.high[:shown].max()))
    span, right = (most - least) or 1.0, _WIDTH - 12
    left = _NAMES + 8

    def at(value: float) -> float:
        return left + (right - left) * (value - least) / span

    height = _ROW * shown + 12
    zero = at(0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor">',
        f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{height}" stroke="currentColor" '
        'opacity="0.3"/>',
    ]
    for k, name in enumerate(ranking.items[:shown]):
        y = _ROW * k + 14
        low, score, high = (float(part[k]) for part in (ranking.low, ranking.score, ranking.high))
        words = html.escape(_beginning(name))
        parts += [
            f'<text x="{_NAMES}" y="{y + 4}" text-anchor="end">{words}</text>',
            f'<line x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{_BLUE}" stroke-width="3" opacity="0.55"/>',
            f'<circle cx="{at(score):.1f}" cy="{y}" r="4" fill="{_BLUE}"/>',
        ]
    return "".join((*parts, "</svg>"))


def _beginning(name: str) -> str:
    """As much of a name as fits beside its score; Chinese letters are twice as wide."""
    ends = np.cumsum([1 + (east_asian_width(letter) in "WF") for letter in name])
    return name if ends[-1] <= _LETTERS else f"{name[: np.searchsorted(ends, _LETTERS)]}…"
