"""
A leaderboard that shows what it does not know
==============================================

Visitors of a page compare responses of language models. Their verdicts depend on each other, and
longer responses win more often. This example rates the models with the style held fixed. It shows
which models can be told apart, and how far intervals fall short if sessions are ignored.

The battles are generated, so that the truth is known. With ``--quick``, there are fewer.
"""

import sys
from dataclasses import replace

import numpy as np

from rankwise import Leaderboard
from rankwise.data import make_battles

# %%
# The battles
# -----------
# Sessions contain five battles on average, most of them between the same two models.

quick = "--quick" in sys.argv
made = make_battles(
    12, 1500 if quick else 6000, session_size=5, rematch=0.7, dependence=0.7, random_state=2
)
battles = made.battles
print(battles)

# %%
# Ratings with clustered intervals
# --------------------------------
# Models of a group cannot be told apart from the first one of the group. The effect of the style is
# not shrunk, and its true value is 0.183. One interval in twenty does not contain the truth.

board = Leaderboard().fit(battles)
print(board.standings())
style = board.coefficients()
print(f"style {style['coefficient'][0]:.3f} ({style['low'][0]:.3f} to {style['high'][0]:.3f})\n")

# %%
# The same as a picture, with the ranks that remain possible on the right. A thin line separates
# groups.

ax = board.plot()
ax.set_title("clustered by session")
ax

# %%
# What if sessions are ignored?
# -----------------------------
# The ratings are the same, but intervals are too short, and fewer of them contain the true rating.

alone = Leaderboard().fit(replace(battles, groups=None))
for name, fitted in (("clustered", board), ("as if independent", alone)):
    table = fitted.standings().to_frame()
    truth = dict(zip(battles.items.tolist(), made.ratings, strict=True))
    true = np.array([truth[item] for item in table.index])
    inside = ((table["low"] <= true) & (true <= table["high"])).mean()
    width = (table["high"] - table["low"]).mean()
    print(f"{name}: mean width {width:.2f}, {inside:.0%} of the intervals hold the truth")

# %%
# Too many models look settled:

ax = alone.plot()
ax.set_title("as if battles were independent")
ax

# %%
# What to compare next
# --------------------

print("compare next:", ", ".join(" and ".join(pair) for pair in board.suggest_pairs(3)))
