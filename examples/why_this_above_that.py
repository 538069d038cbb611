"""
Why is this above that?
=======================

A product manager asks why a hotel is ranked above another. ``explain`` divides the difference of
the two scores among the columns of the data, exactly, also behind an encoder and a kernel.
"""

# %%
# The data
# --------
# The rows are hotels of 120 searches, with text and missing values.

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from rankwise import SparseRankRLS, TableEncoder
from rankwise.inspection import explain, explain_ranking, feature_effects

rng = np.random.default_rng(0)
n = 1200
search = np.arange(n) // 10
hotels = pd.DataFrame(
    {
        "price": rng.lognormal(4.5, 0.5, n).round(),
        "stars": rng.integers(1, 6, n),
        "distance": rng.exponential(3.0, n).round(1),
        "board": rng.choice(["breakfast", "half board", "none"], n, p=[0.5, 0.1, 0.4]),
        "reviews": rng.lognormal(4.0, 1.2, n).round(),
    }
)
hotels.loc[rng.random(n) < 0.1, "reviews"] = np.nan
liked = 0.8 * hotels["stars"] - 2.5 * np.log(hotels["price"]) - 0.5 * np.log1p(hotels["distance"])
liked += 0.6 * (hotels["board"] == "breakfast") + 0.7 * rng.standard_normal(n)
y = np.digitize(liked, np.quantile(liked, [0.5, 0.8, 0.95]))

# %%
# A ranker with a kernel on landmarks, and features that are scaled within every search:

ranker = make_pipeline(
    TableEncoder(), SparseRankRLS(n_landmarks=100, scale="query-minmax", random_state=0)
)
ranker.fit(hotels, y, sparserankrls__qid=search)

# %%
# One pair
# --------
# Why is the second hotel of search 7 above the fifth? The contributions sum to the difference.

why = explain(ranker, 2, 5, X=hotels, qid=search, query=7)
print(why)
ax = why.plot()
ax

# %%
# A whole search
# --------------
# Each hotel, with the reason why it is above the next one:

print(explain_ranking(ranker, hotels, qid=search, query=7, top=5))

# %%
# All searches
# ------------
# The score along each feature, from the smallest value of a search to the largest. The bands come
# from fits without a fifth of the searches.

effects = feature_effects(ranker, hotels, y, qid=search)
print(effects)
ax = effects.plot()
ax
