"""Generated patterns to try a session with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwise.asking.goals import Goal
from rankwise.asking.items import Item, KeepFile

_PALETTES = (
    ("#0b62a8", "#7dbcf0", "#f1c40f", "#fbfbf9"),
    ("#6c3483", "#d7a9e3", "#f5b041", "#1d2430"),
    ("#14663f", "#6fd3a3", "#f7dc6f", "#fdfefe"),
    ("#9a3412", "#f3a17c", "#fdebd0", "#2c3e50"),
)
_SIZE = 320


def demo_items(keep_file: KeepFile, n_items: int = 20) -> list[Item]:
    """Patterns of circles, squares and waves, as SVG images."""
    rng = np.random.default_rng(4)
    items = []
    for k in range(n_items):
        shape = ("circles", "squares", "waves")[k % 3]
        count = int(rng.integers(4, 10))
        colours = _PALETTES[int(rng.integers(len(_PALETTES)))]
        drawing = _pattern(shape, count, colours, rng)
        name = keep_file(drawing.encode(), "image/svg+xml")
        facts = {"shape": shape}
        items.append(Item(f"Pattern {k + 1}", image=name, facts=facts))
    return items


def demo_settings() -> dict[str, Any]:
    """What the demo asks."""
    return {
        "question": "Which pattern would look better on a mug?",
        "advice": "Trust your first impression. Small differences do not matter.",
        "goal": Goal("top", k=3, wrong=1, sure=0.9),
    }


def _pattern(shape: str, count: int, colours: tuple[str, ...], rng: np.random.Generator) -> str:
    step, ground = _SIZE / count, colours[int(rng.integers(3, 4))]
    parts = [f'<rect width="{_SIZE}" height="{_SIZE}" fill="{ground}"/>']
    for row in range(count):
        if shape == "waves":
            colour, y = colours[row % 3], (row + 0.5) * step
            points = " ".join(
                f"{x},{y + 0.35 * step * math.sin(x / step + row):.1f}"
                for x in range(0, _SIZE + 8, 8)
            )
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" '
                f'stroke-width="{0.3 * step:.1f}"/>'
            )
            continue
        for column in range(count):
            colour = colours[int(rng.integers(3))]
            x, y, r = (column + 0.5) * step, (row + 0.5) * step, step * rng.uniform(0.15, 0.48)
            if shape == "circles":
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{colour}"/>')
            else:
                turn = int(rng.integers(90))
                parts.append(
                    f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" '
                    f'height="{2 * r:.1f}" fill="{colour}" '
                    f'transform="rotate({turn} {x:.1f} {y:.1f})"/>'
                )
    inner = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" '
        f'width="{_SIZE}" height="{_SIZE}">{inner}</svg>'
    )
