"""How fit meets its rows: all of them in memory, or block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from logging import CRITICAL
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.inputs import normalized, read_data, with_width
from rankwise.cli.terminal import counting, measuring, working
from rankwise.errors import DataError, MissingExtraError

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
            return self._ranker.path(data.X, data.y, alphas, qid=data.qid)


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
            return self._ranker.path_blocks(self, alphas)

    def __iter__(self) -> Iterator[LetorData]:
        for block in self._blocks:
            yield normalized(block) if self._normalize else block


class OnCluster:
    """A file of which workers read parts."""

    def __init__(self, ranker: Any, path: Path, features: int | None, client: Any) -> None:
        from rankwise.distributed._fit import Run

        self._ranker = ranker
        self._client = client
        with working(f"Looking through {path}"):
            self._parts = with_width(
                path,
                features,
                "--features",
                lambda: Run(client).open([path], None, None, features),
            )
        assert self._parts.shape is not None  # LETOR files tell it
        self.n_rows, self.n_features = self._parts.shape

    def fit(self) -> Any:
        """The ranker, fitted."""
        from rankwise.distributed import fit

        with counting("Tasks of workers") as progress:
            return fit(self._ranker, self._parts, client=self._client, progress=progress)

    def fit_path(self, alphas: Sequence[float]) -> Any:
        """The ranker at each alpha."""
        from rankwise.distributed import path

        with counting("Tasks of workers") as progress:
            return path(self._ranker, self._parts, alphas, client=self._client, progress=progress)


@contextmanager
def connected(workers: int | None, cluster: str | None) -> Iterator[Any]:
    """A client of some local workers, or of a cluster at an address; None without either."""
    if workers is None and cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    with ExitStack() as stack:
        there = cluster if workers is None else stack.enter_context(_local_cluster(workers))
        try:
            client = stack.enter_context(Client(there, timeout="20s"))
        except (OSError, ValueError) as error:
            raise DataError(f"No Dask scheduler answers at {there}: {error}.") from error
        yield client


def _local_cluster(workers: int, tries: int = 3) -> Any:
    """Processes of this machine, silent: what goes wrong in them is told by the client."""
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": CRITICAL}
    try:
        return LocalCluster(n_workers=workers, **options)
    except AssertionError:  # Dask's loop has ten seconds to start, which a busy machine may miss
        if tries == 1:
            raise
    return _local_cluster(workers, tries - 1)


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
