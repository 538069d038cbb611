"""How fit meets its rows: all of them in memory, or block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.inputs import normalized, read_data, with_width
from rankwise.cli.shell import measuring, working

if TYPE_CHECKING:
    from rankwise.data import LetorBlocks, LetorData

PASSES = ("Drawing landmarks", "Summing over rows")


class InMemory:
    """A file that is read whole."""

    def __init__(self, ranker: Any, path: Path, features: int | None, *, normalize: bool) -> None:
        self._ranker = ranker
        data = read_data(path, n_features=features, whose="--features")
        self._data = normalized(data) if normalize else data
        self.n_rows, self.n_features = self._data.X.shape

    def fit(self) -> Any:
        """The ranker, fitted."""
        with working(f"Fitting to {self.n_rows:,} rows"):
            return self._ranker.fit(self._data.X, self._data.y, qid=self._data.qid)

    def fit_path(self, alphas: Sequence[float]) -> Any:
        """The ranker at each alpha."""
        with working(f"Fitting {len(alphas)} values of alpha to {self.n_rows:,} rows"):
            data = self._data
            return self._ranker.fit_path(data.X, data.y, alphas, qid=data.qid)


class Streamed:
    """A file that is gone through in blocks of whole queries, as often as need be."""

    def __init__(
        self, ranker: Any, blocks: LetorBlocks, progress: ProgressRelay, normalize: bool
    ) -> None:
        self._ranker = ranker
        self._blocks = blocks
        self._progress = progress
        self._normalize = normalize
        self.n_rows, self.n_features = blocks.survey.n_rows, blocks.survey.n_features

    def fit(self) -> Any:
        """The ranker, fitted."""
        with measuring(PASSES) as self._progress.report:
            return self._ranker.fit_blocks(self)

    def fit_path(self, alphas: Sequence[float]) -> Any:
        """The ranker at each alpha."""
        with measuring(PASSES) as self._progress.report:
            return self._ranker.fit_path_blocks(self, alphas)

    def __iter__(self) -> Iterator[LetorData]:
        for block in self._blocks:
            yield normalized(block) if self._normalize else block


class ProgressRelay:
    """Passes on what is read to whoever shows it at the moment."""

    def __init__(self) -> None:
        self.report: Callable[[int, int], None] = lambda done, total: None

    def __call__(self, done: int, total: int) -> None:
        self.report(done, total)


def open_stream(
    ranker: Any, path: Path, features: int | None, *, normalize: bool
) -> Streamed | InMemory:
    """The file in blocks; whole where it has no query ids, since one ranking has one block."""
    from rankwise.data import LetorBlocks

    progress = ProgressRelay()
    blocks = LetorBlocks(path, n_features=features, progress=progress)
    with measuring([f"Looking through {path}"]) as progress.report:
        with_width(path, features, "--features", lambda: blocks.survey)
    if blocks.survey.n_queries == 0:
        return InMemory(ranker, path, features, normalize=normalize)
    return Streamed(ranker, blocks, progress, normalize)
