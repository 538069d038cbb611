"""
A first ranking
===============

A shop shows twelve products for each search. People have graded how well each product fits, from 0
(not at all) to 3 (exactly). This example learns to rank the products of new searches, evaluates the
ranking, and shows which features it depends on.
"""

# %%
# The data
# --------
# Every row is a product that was found by a search. ``X`` holds its features, ``y`` its grade, and
# ``qid`` the number of the search. Only rows of the same search are compared with each other.

from rankwise import RankRLS
from rankwise.data import make_ranking
from rankwise.metrics import evaluate_ranking
from rankwise.plots import plot_coefficients

names = ["title match", "reviews", "price", "age", "photos", "stock"]
data = make_ranking(
    n_queries=150, rows_per_query=12, n_features=6, n_levels=4, noise=0.7, random_state=1
)
print(data)

# %%
# A ranker
# --------
# Whole searches are kept for the test, because the ranker will be used on new searches.
# ``RankRLS`` needs no settings. It chooses the strength of its regularization, alpha, by
# predicting each training search with a ranker that was trained on the others.

train = data.qid < 100
test = ~train
ranker = RankRLS().fit(data.X[train], data.y[train], qid=data.qid[train])
print(f"alpha = {ranker.alpha_:.3g}")

# %%
# The curve shows the held-out score at every alpha that was tried. It is flat where the exact value
# hardly matters.

ax = ranker.alpha_curve_.plot()
ax

# %%
# How good is it?
# ---------------
# Scores have no unit. A product with a higher score is shown first. NDCG@10 is 1 if the first ten
# products are in the best possible order.

scores = ranker.predict(data.X[test])
result = evaluate_ranking(data.y[test], scores, data.qid[test])
print(result)

# %%
# The mean hides that some searches are ranked better than others. These are the searches to look at
# next.

ax = result.plot("NDCG@10")
ax

# %%
# What does the score depend on?
# ------------------------------
# A linear ranker has one weight for each feature.

ax = plot_coefficients(ranker, names=names)
ax

# %%
# One search
# ----------
# The products of one new search, in the order of their scores.

one = data.qid == 120
found, grades = ranker.predict(data.X[one]), data.y[one]
print("place  score  grade")
for place, row in enumerate(found.argsort()[::-1], 1):
    print(f"{place:5}  {found[row]:5.2f}  {grades[row]:5.0f}")
