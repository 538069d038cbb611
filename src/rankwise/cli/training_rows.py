"""Where `rankwise fit` finds its rows: in memory, in a file read block by block, on workers.

Each class has `n_rows`, `n_features`, `feature_names`, `has_queries`, `preparation`, `fit(ranker)`,
and `path(ranker, alphas)`, which fits the ranker with each alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.data_options import DataOptions, note_ids, split_names
from rankwise.cli.hashed_features import MOST_NUMBERED
from rankwise.cli.input_files import explaining_width
from rankwise.cli.options import refuse
from rankwise.cli.preparation import Preparation
from rankwise.cli.terminal import note, progress
from rankwise.errors import DataError, MissingExtraError
from rankwise.routing import last_step, predict_with_queries

if TYPE_CHECKING:
    from rankwise.data import LetorData, TableData


MOST_WORKERS = 1000


class InMemory:
    """The rows of a file that is read whole."""

    def __init__(self, path: Path, options: DataOptions, ranker: Any) -> None:
        self._data, self.preparation = options.read_training(path, ranker)
        roles = getattr(self._data, "roles", None)
        self.feature_names = None if roles is None else roles.features
        self.n_rows, self.n_features = self._data.X.shape
        self.has_queries = self._data.qid is not None
        self._read_like = partial(
            options.read_like,
            preparation=self.preparation,
            names=self.feature_names,
            n_features=self.n_features,
            whose=path,
        )

    def add_unlabelled(self, path: Path) -> None:
        """Add the rows of another file, whose labels are not used."""
        more = self._read_like(path, needs_label=False)
        if (more.qid is None) != (self._data.qid is None):
            raise DataError(f"{path} and the training file must both have query ids, or neither.")
        self._data = _with_unlabelled(self._data, more)
        self.n_rows = self._data.X.shape[0]

    def fit(self, ranker: Any) -> Any:
        from rankwise.model_selection.search.refits import fit_with_queries

        with progress(f"Fitting to {self.n_rows:,} rows"):
            fit_with_queries(ranker, self._data.X, self._data.y, self._data.qid)
        return ranker

    def path(self, ranker: Any, alphas: Sequence[float]) -> Any:
        data = self._data
        with progress(f"Fitting {len(alphas)} values of alpha to {self.n_rows:,} rows") as report:
            if hasattr(ranker, "path"):
                return ranker.path(data.X, data.y, alphas, qid=data.qid)
            return _Refits.of(ranker, alphas, data, report)


def _with_unlabelled(data: Any, more: Any) -> Any:
    """Rows, and others whose labels are NaN. Equal query ids are the same query."""
    import numpy as np
    import scipy.sparse as sp

    parts = data.X, more.X
    if hasattr(data.X, "columns"):
        import pandas as pd

        X = pd.concat(parts, ignore_index=True)
    else:
        X = sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.vstack(parts)
    ids = None
    if data.qid is not None:
        numbers = all(one.qid.dtype.kind in "iu" for one in (data, more))
        ids = np.concatenate(
            [one.qid if numbers else one.qid.astype(str).astype(object) for one in (data, more)]
        )
    y = np.concatenate([data.y, np.full(more.X.shape[0], np.nan)])
    return replace(data, X=X, y=y, qid=ids)


class _Refits:
    """A ranker that is fitted again with each alpha; predicts like a `RegularizationPath`."""

    def __init__(self, rankers: list[Any]) -> None:
        self._rankers = rankers

    @classmethod
    def of(
        cls,
        ranker: Any,
        alphas: Sequence[float],
        data: LetorData | TableData,
        report: Callable[..., None],
    ) -> _Refits:
        from sklearn.base import clone

        from rankwise.model_selection.search.refits import fit_with_queries

        rankers = [clone(ranker) for _ in alphas]
        for done, (one, alpha) in enumerate(zip(rankers, alphas, strict=True)):
            report(done, len(alphas), f"alpha {alpha:.3g}")
            last_step(one).set_params(alpha=alpha)
            fit_with_queries(one, data.X, data.y, data.qid)
        return cls(rankers)

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        return [predict_with_queries(ranker, X, qid) for ranker in self._rankers]

    def estimator(self, i: int) -> Any:
        return self._rankers[i]


class Streamed:
    """The rows of a file in blocks of whole queries, read as often as needed."""

    def __init__(self, path: Path, options: DataOptions) -> None:
        self._path = path
        self._report: Callable[..., None]
        self.preparation = Preparation()
        if options.is_table(path):
            self._open_table(options)
        else:
            self._open_letor(options)
        survey = self._blocks.survey
        self.n_rows, self.n_features = survey.n_rows, survey.n_features
        self.has_queries = survey.n_queries > 0

    def _open_letor(self, options: DataOptions) -> None:
        from rankwise.data import LetorBlocks

        self.feature_names = None
        self._blocks: Any = LetorBlocks(
            self._path,
            n_features=options.n_features,
            fill=options.fill,
            progress=lambda done, total: self._report(done, total),
        )
        width = explaining_width(self._path, options.n_features, "--features", options.fill)
        with self._showing("Checking"), width:
            _ = self._blocks.survey

    def _open_table(self, options: DataOptions) -> None:
        from rankwise.data import TableBlocks

        file = options.table_file(self._path)
        self._blocks = TableBlocks(
            self._path,
            qid=options.query,
            label=options.label,
            features=split_names(options.features),
            ignore=options.ignored,
            format=file.format,
            separator=None if options.separator is None else file.separator,
            decimal=options.decimal,
            progress=lambda done, total: self._report(done, total),
        )
        self.feature_names = self._blocks.roles.features
        with self._showing("Checking"):
            _ = self._blocks.survey
        note(f"{self._path}: {self._blocks.roles.words()}. Read block by block.")
        note_ids(self._blocks.roles)

    def fit(self, ranker: Any) -> Any:
        with self._showing("Fitting to"):
            return ranker.fit_blocks(self)

    def path(self, ranker: Any, alphas: Sequence[float]) -> Any:
        with self._showing("Fitting to"):
            return ranker.path_blocks(self, alphas)

    def __iter__(self) -> Iterator[LetorData | TableData]:
        yield from self._blocks

    @contextmanager
    def _showing(self, what: str) -> Iterator[None]:
        """Show how much of the file is read, in every pass over it."""
        with progress(f"{what} {self._path}") as self._report:
            yield


class OnWorkers:
    """The rows of a file of which each worker reads parts."""

    def __init__(self, path: Path, options: DataOptions, client: Any) -> None:
        from rankwise.distributed._cluster_fit import Run

        if options.is_table(path):
            raise DataError(f"{path} is a table, and workers read LETOR files: leave them out.")
        self._client = client
        self.preparation, self.feature_names = Preparation(), None
        n_features = options.n_features
        with progress(f"Checking {path}"), explaining_width(path, n_features, "--features"):
            self._parts = Run(client).open([path], None, None, n_features)
        assert self._parts.shape is not None  # LETOR files have one
        self.n_rows, self.n_features = self._parts.shape
        self.has_queries = self._parts.has_ids
        if self.n_features > MOST_NUMBERED:
            raise DataError(
                f"{path} has feature numbers up to {self.n_features:,}, which may be hashes. "
                "Workers do not find out which of them occur: leave --workers out."
            )
        _check_queries_of_workers(path, options, self.n_rows, has_queries=self.has_queries)

    def fit(self, ranker: Any) -> Any:
        from rankwise import distributed

        with progress("Tasks of workers") as report:
            return distributed.fit(ranker, self._parts, client=self._client, progress=report)

    def path(self, ranker: Any, alphas: Sequence[float]) -> Any:
        from rankwise import distributed

        with progress("Tasks of workers") as report:
            return distributed.path(
                ranker, self._parts, alphas, client=self._client, progress=report
            )


def _check_queries_of_workers(
    path: Path, options: DataOptions, n_rows: int, *, has_queries: bool
) -> None:
    """Workers read parts of the file, to which group sizes beside the file do not belong."""
    from rankwise.data.query_rows import group_file_beside

    file = group_file_beside(path)
    if file is not None and not has_queries:
        raise DataError(
            f"{path} has no qid, and workers do not read the group sizes in {file}. Write qid:ID "
            "after the label of every row, or leave --workers out."
        )
    options.check_queries(path, n_rows, has_queries=has_queries)


TrainingRows = InMemory | Streamed | OnWorkers


def open_rows(path: Path, options: DataOptions, ranker: Any, client: Any) -> TrainingRows:
    """The rows of a file, on the workers of a client, block by block, or in memory.

    Rankers on landmarks read each block once or twice. A file without query ids is one ranking,
    which no block may split. Encoders and imputers need all rows at once,
    and of hashed features, the whole file tells which of them occur.
    """
    from rankwise import SparseRankRLS, SparseRLS

    if client is not None:
        return OnWorkers(path, options, client)
    whole = options.encode or options.impute
    if isinstance(ranker, SparseRankRLS | SparseRLS) and not whole:
        streamed = Streamed(path, options)
        if streamed.has_queries and streamed.n_features <= MOST_NUMBERED:
            options.check_queries(path, streamed.n_rows, has_queries=True)
            return streamed
    return InMemory(path, options, ranker)


@contextmanager
def connected(workers: str | None) -> Iterator[Any]:
    """A client of that many local workers, or of the cluster at an address; None without either."""
    if workers is None:
        yield None
        return
    number = int(workers) if workers.isdecimal() else None
    if number is not None and not 1 <= number <= MOST_WORKERS:
        refuse(
            "workers", f"Give a number from 1 to {MOST_WORKERS:,}, or an address: got {workers}."
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    with ExitStack() as stack:
        stack.enter_context(_without_logs())
        there = workers if number is None else stack.enter_context(local_cluster(number))
        try:
            client = stack.enter_context(Client(there, timeout="20s"))
        except (OSError, ValueError) as error:
            raise DataError(f"No Dask scheduler answers at {there}: {error}.") from error
        try:
            yield client
        except KilledWorker as error:
            raise DataError(
                f"{error.allowed_failures + 1} workers have ended while they worked on the same "
                "task. Do they have enough memory?"
            ) from error
        except (CommClosedError, CancelledError) as error:
            raise DataError(f"The Dask scheduler at {there} no longer answers: {error}.") from error


@contextmanager
def _without_logs() -> Iterator[None]:
    """The client reports errors of workers and of the scheduler; Dask would log them as well."""
    loggers = [getLogger(name) for name in ("distributed", "tornado.application", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def local_cluster(workers: int, *, tries: int = 3) -> Any:
    """Worker processes on this machine, without logs: the client reports their errors."""
    from distributed import LocalCluster

    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            silence_logs=CRITICAL,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": ":0"},  # its HTTP server takes any free port
        )
    except AssertionError:  # Dask's event loop must start within ten seconds
        if tries == 1:
            raise
    return local_cluster(workers, tries=tries - 1)
