"""Small drawings of a session, as SVG without styles or scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rankwise.asking.standings import Ranking

_WIDTH, _ROW, _NAMES = 640, 18, 200
_BAR_WIDTH, _BAR_HEIGHT = 14, 48


def interval_bar(low: float, score: float, high: float, least: float, most: float) -> str:
    """An interval and its middle, on the scale from `least` to `most`."""
    span = (most - least) or 1.0
    x1, x, x2 = (4 + 152 * (value - least) / span for value in (low, score, high))
    zero = 4 + 152 * (0.0 - least) / span
    return (
        '<svg class="interval" viewBox="0 0 160 16" width="160" height="16" aria-hidden="true">'
        f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="16"/>'
        f'<line class="whisker" x1="{x1:.1f}" x2="{x2:.1f}" y1="8" y2="8"/>'
        f'<circle class="dot" cx="{x:.1f}" cy="8" r="4"/></svg>'
    )


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
        words = html.escape(name if len(name) <= 30 else f"{name[:29]}…")
        parts += [
            f'<text x="{_NAMES}" y="{y + 4}" text-anchor="end">{words}</text>',
            f'<line x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{y}" y2="{y}" '
            'stroke="#0072b2" stroke-width="3" opacity="0.55"/>',
            f'<circle cx="{at(score):.1f}" cy="{y}" r="4" fill="#0072b2"/>',
        ]
    return "".join((*parts, "</svg>"))


def hour_bars(counts: Sequence[int]) -> str:
    """Answers in each of the last hours, the last one on the right."""
    most = max(1, *counts)
    width = _BAR_WIDTH * len(counts)
    bars = "".join(
        f'<rect class="bar" x="{_BAR_WIDTH * k + 1}" width="{_BAR_WIDTH - 2}" '
        f'y="{_BAR_HEIGHT * (1 - n / most):.1f}" height="{_BAR_HEIGHT * n / most:.1f}">'
        f"<title>{n}</title></rect>"
        for k, n in enumerate(counts)
    )
    label = f"Answers in the last {len(counts)} hours: {', '.join(map(str, counts))}"
    return (
        f'<svg class="bars" viewBox="0 0 {width} {_BAR_HEIGHT}" width="{width}" '
        f'height="{_BAR_HEIGHT}" role="img" aria-label="{label}">{bars}</svg>'
    )
