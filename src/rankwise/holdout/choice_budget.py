"""How long the choice of alpha may take, and how much data it uses.

Read these as ``budget.SECONDS`` after ``from rankwise.holdout import choice_budget as budget``.
"""

SECONDS = 0.3  # a choice may always take this long
FLOPS, SMALL_FLOPS, CALL = 2e10, 4e9, 4e-5  # speed of large and of small systems; time of a call
KERNEL_ROWS = 600  # of a kernel matrix: if there are more, a sample of rows is held out
STORED = 2 * 10**7  # numbers: largest coordinates that are stored
PAIR_ROWS = 600  # rows among which pairs are held out
COMPARISONS = 20_000  # that are held out
SAMPLE_ROWS, SAMPLE_SHARE = 10_000, 0.1  # rows in the folds of a sample: the larger of the two
FEWEST_FOLDS, MOST_FOLDS = 3, 10
PART = 0.2  # share of the rows that are held out together
KERNEL_SHARE = 0.3  # of the rows of a kernel matrix in a sample
N_ALPHAS = 12  # of a typical grid
FEWEST_ROWS = 4
CHOICE_TOL, CHOICE_STEPS = 1e-3, 100  # of conjugate gradients
