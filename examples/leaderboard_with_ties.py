"""
Ties, and ranks that remain open
================================

Eight chess programs play a tournament, and a third of the games are drawn. A draw is not half a win
and half a loss. It shows that the two are close. ``Leaderboard`` models draws, and computes
intervals of ratings and of ranks, so that a table does not promise more than the games tell.
"""

# %%
# The games
# ---------
# They are generated, so that the true ratings are known.

from rankwise import Leaderboard
from rankwise.data import make_battles
from rankwise.plots import COLORS, new_axes, plot_rank_probabilities, plot_win_matrix

made = make_battles(
    8, 800, spread=1.2, ties=1.2, both_bad=0.0, style=0.0, session_size=1, rematch=0.0,
    dependence=0.0, random_state=4,
)  # fmt: skip
games = made.battles
print(games)

# %%
# The standings
# -------------
# Programs of a group cannot be told apart from its first one. "P(first)" is the probability of
# being the best of all.

board = Leaderboard().fit(games)
standings = board.standings()
print(standings)

# %%
# Intervals of ratings, and on the right the ranks that remain possible:

ax = board.plot()
ax

# %%
# Every rank
# ----------
# The whole distribution of ranks, from draws of all ratings together.

order = standings["item"]
number = {item: k for k, item in enumerate(board.items_)}
draws = board.draws_.argsort(axis=1)[:, ::-1]  # items from best to worst, in each draw
probabilities = [(draws == number[item]).mean(axis=0) for item in order]
ax = plot_rank_probabilities(probabilities, names=order)
ax

# %%
# Who beats whom
# --------------
# The matrix shows shares of points. A draw is half a point.

shares = [
    [float("nan") if a == b else board.predict_proba([a], [b])[0] @ [1, 0, 0.5] for b in order]
    for a in order
]
ax = plot_win_matrix(shares, names=order)
ax.set_title("Expected points of a game, in percent")
ax

# %%
# Does the model of draws fit?
# ----------------------------
# Close programs draw more often. Each dot is a pair of programs, larger if they played more games.
# The line is the model.

table = board.shares()
ratings = dict(zip(board.items_, board.ratings_, strict=True))
gaps = [abs(ratings[a] - ratings[b]) for a, b in zip(table["item"], table["other"], strict=True)]
line = sorted(zip(gaps, table["ties, predicted"], strict=True))
(ax,) = new_axes(size=(6.0, 3.8))
ax.scatter(gaps, table["ties"], s=4 * table["battles"], color=COLORS[1], alpha=0.6)
ax.plot(*zip(*line, strict=True), color=COLORS[0], lw=1.8)
ax.set(xlabel="difference of ratings", ylabel="share of draws", ylim=(0, 1))
ax

# %%
# Draws as half a win
# -------------------
# Many tables count a draw as half a win, as ``ties="half"`` does. The order hardly changes, but
# there is no probability of a draw, and log-odds of points are smaller than log-odds of won games.

half = Leaderboard(ties="half").fit(games)
print("program  with draws  as half wins   truth")
truth = dict(zip(games.items, made.ratings, strict=True))
for item in order:
    values = (board.predict([item])[0], half.predict([item])[0], truth[item])
    print(f"{item:7}  {values[0]:10.2f}  {values[1]:12.2f}  {values[2]:6.2f}")
