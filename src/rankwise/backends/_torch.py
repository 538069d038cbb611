"""torch tensors on one device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from rankwise.backends.arrays import Backend, Index, NestedLevels, Rows, is_sparse, is_tensor

FEW_GROUPS = 64  # up to this many are summed by a product with their indicator


class Nest:
    """The formula of group_loops.py as torch expressions, on rows sorted by group."""

    def __init__(self, on: Backend, lengths: Index, a: Any, shift: Any) -> None:
        self.on, self.lengths, self.a, self._between = on, lengths, a, shift
        self.size = int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else 0
        self.level = None if self.size else on.index(np.repeat(np.arange(len(lengths)), lengths))

    @classmethod
    def of(cls, on: Backend, nest: NestedLevels) -> Nest:
        """From levels and groups; only groups of several levels need a separate mean."""
        levels = np.diff(nest.group_ptr)
        between = None
        if bool((levels > 1).any()):
            of_group = np.where(levels > 1, nest.b, 0.0)
            ends = nest.level_ptr[nest.group_ptr]
            between = (levels, ends, on.array(np.repeat(of_group, levels)))
        return cls(on, np.diff(nest.level_ptr), on.array(nest.a), between)

    def combine(self, x: Any, out: Any) -> None:
        """out <- a_l (x - mean_l) + b_g (mean_l - mean_g); `out` may be x."""
        sums = segment_sums(self.on, x, self.lengths)
        lengths = self.on.array(self.lengths)[:, None]
        means = sums / lengths
        torch.sub(self._rows(x), self._spread(means), out=self._rows(out))
        self._rows(out).mul_(self._spread(self.a[:, None]))
        if self._between is None:
            return
        levels, ends, b = self._between
        totals = segment_sums(self.on, sums, levels) / self.on.array(np.diff(ends))[:, None]
        group = self.on.index(np.repeat(np.arange(len(levels)), levels))
        self._rows(out).add_(self._spread(b[:, None] * (means - totals[group])))

    def _rows(self, x: Any) -> Any:
        return x.unflatten(0, (len(self.lengths), self.size)) if self.size else x

    def _spread(self, of_level: Any) -> Any:
        """Repeat one row per level for each row of that level."""
        return of_level[:, None] if self.size else of_level[self.level]


def segment_sums(on: Backend, x: Any, lengths: Index) -> Any:
    """Sums of consecutive segments of the given lengths; deterministic."""
    if len(lengths) == 1:
        return x.sum(dim=0, keepdim=True)
    if len(lengths) <= FEW_GROUPS:
        group = on.index(np.repeat(np.arange(len(lengths)), lengths))
        member = group[:, None] == torch.arange(len(lengths), device=x.device)
        return member.to(x.dtype).T @ x
    return torch.segment_reduce(
        x.contiguous(), "sum", lengths=on.index(lengths), axis=0, unsafe=True
    )


class Groups:
    """Consecutive groups of rows, with the methods of group_loops.py on some columns."""

    def __init__(self, on: Backend, ptr: Index) -> None:
        self.on, self.lengths = on, np.diff(ptr)
        self.starts = on.index(ptr[:-1])
        self.of_row = on.index(np.repeat(np.arange(len(self.lengths)), self.lengths))

    def minmax(self, x: Any) -> bool:
        low, high = self._extreme(x, "min"), self._extreme(x, "max")
        span = high - low
        finite = bool(torch.isfinite(span).all())
        span[span == 0] = 1.0
        x.sub_(low[self.of_row]).div_(span[self.of_row])
        return finite

    def standardize(self, x: Any) -> None:
        z = x.to(torch.float64)
        sizes = self.on.array(np.maximum(self.lengths, 1))[:, None]
        z = z - (segment_sums(self.on, z, self.lengths) / sizes)[self.of_row]
        deviation = torch.sqrt(segment_sums(self.on, z * z, self.lengths) / sizes)
        deviation[deviation == 0] = 1.0
        x.copy_(z / deviation[self.of_row])

    def rank(self, x: Any) -> None:
        n = len(x)
        order = x.argsort(dim=0, stable=True)
        order = order.gather(0, self.of_row[order].argsort(dim=0, stable=True))
        ordered = x.gather(0, order)
        position = torch.arange(n, device=x.device)[:, None].expand_as(x)
        # Runs of equal values within a group: where they start, and where the next one starts.
        starts = torch.ones_like(ordered, dtype=torch.bool)
        starts[1:] = ordered[1:] != ordered[:-1]
        starts[self.starts[self.starts < n]] = True
        first = torch.where(starts, position, 0).cummax(dim=0).values
        ends = torch.ones_like(starts)
        ends[:-1] = starts[1:]
        last = torch.where(ends, position, n).flip(0).cummin(dim=0).values.flip(0)
        size = self.on.index(self.lengths)[self.of_row][:, None]
        before = self.starts[self.of_row][:, None]
        rank = (first + last - 2 * before - (size - 1)).to(torch.float64)
        rank /= 2.0 * (size - 1).clamp(min=1)
        x.scatter_(0, order, rank.to(x.dtype))

    def _extreme(self, x: Any, which: str) -> Any:
        lengths = self.on.index(self.lengths)
        return torch.segment_reduce(x.contiguous(), which, lengths=lengths, axis=0, unsafe=True)


Tensor: TypeAlias = Any  # torch may be missing when types are checked

DEVICE_BLOCK_BYTES = 640 * 2**20  # features per block, enough for products at full speed
SHARE_OF_FREE = 1 / 24  # of the free memory of a device, at most, per block
GRAM_WIDTH = 512  # columns per panel of a symmetric update: 53% of the full product
ROUGH_WIDTH = 2048  # the same in TF32, which is ten times as fast
ROUGH_ROWS = 2000  # rows of such a product: more lose digits in sums of float32
PIVOT_WIDTH = 64  # columns of a pivoted factor per update of the remaining matrix
PINNED_BYTES = 2**24  # arrays up to this size are copied from pinned memory
PLAIN_PIVOT = 1e-6  # relative to the largest pivot: above it, no pivoting is needed


@contextmanager
def _quiet_about_sparse() -> Iterator[None]:
    """Without torch's warnings about sparse tensors, which users cannot avoid."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
        yield


class TorchBackend(Backend):
    """torch tensors on a device."""

    xp = torch
    is_host = False
    # Measured on an H200: from 4,000 rows on, eigh takes as long as 50 to 67 Cholesky
    # factorizations, or 12 inverses. No reduction to band form: its narrow panels leave a GPU idle.
    reduction_cost = 40
    inverse_cost = 12

    _known: ClassVar[dict[Any, TorchBackend]] = {}

    def __init__(self, device: Any, precision: str = "float64") -> None:
        self.device, self.precision = device, precision

    @classmethod
    def on(cls, device: Any) -> TorchBackend:
        """The backend of a device; one per device."""
        return cls._known.setdefault(device, cls(device))

    def with_precision(self, precision: str) -> TorchBackend:
        return TorchBackend(self.device, precision)

    def array(self, values: Any) -> Tensor:
        if is_tensor(values):
            return values.detach().to(self.device, torch.float64)
        if isinstance(getattr(values, "backend", None), Backend):  # HostRows: all of them
            return values[slice(None)]
        dense = values.toarray() if is_sparse(values) else values
        return self._sent(np.array(dense, dtype=np.float64, order="C"))

    def index(self, values: Any) -> Any:
        return values.to(self.device) if is_tensor(values) else self._sent(np.array(values))

    def _sent(self, values: Any) -> Tensor:
        """Copy an array, which nobody else writes to, to the device."""
        found = torch.from_numpy(values)
        if self.device.type == "cuda" and values.nbytes <= PINNED_BYTES:
            found = found.pin_memory()  # then the copy is asynchronous
        return found.to(self.device, non_blocking=True)

    def rows(self, X: Any, rows: Rows) -> Tensor:
        if not is_tensor(X):
            return self.array(X[rows])
        block = X[rows] if isinstance(rows, slice) else X[self.index(rows)]
        return block.to(torch.float64).contiguous()

    def empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def eye(self, n: int) -> Tensor:
        return torch.eye(n, dtype=torch.float64, device=self.device)

    def copy(self, X: Tensor) -> Tensor:
        return X.clone(memory_format=torch.contiguous_format)

    def contiguous(self, X: Tensor) -> Tensor:
        return X.contiguous()

    def cast(self, X: Tensor, dtype: Any) -> Any:
        return X.to(dtype)

    def diagonal(self, M: Tensor) -> Tensor:
        return M.diagonal()

    def block_bytes(self, in_cache: int) -> int:
        if self.device.type == "cpu":
            return in_cache
        free = self.free_bytes()
        share = DEVICE_BLOCK_BYTES if free is None else int(free * SHARE_OF_FREE)
        return min(DEVICE_BLOCK_BYTES, share)

    def free_bytes(self) -> int | None:
        if self.device.type != "cuda":
            return None
        free, _ = torch.cuda.mem_get_info(self.device)
        # The flat dictionary of `memory_reserved` and `memory_allocated` takes five times as long.
        now = torch.cuda.memory_stats_as_nested_dict(self.device)
        if not now:  # nothing was allocated yet
            return int(free)
        kept, used = (now[name]["all"]["current"] for name in ("reserved_bytes", "allocated_bytes"))
        return int(free + kept - used)

    def manhattan(self, X: Tensor, Y: Tensor) -> Tensor:
        return torch.cdist(X, Y, p=1.0)

    def combine_rows(
        self, X: Tensor, out: Tensor, target: Index, nest: NestedLevels, *, compiled: bool = False
    ) -> None:
        levels = Nest.of(self, nest)
        source, goal = self._order(nest.rows, len(X)), self._order(target, len(out))
        width = X.shape[1]
        step = max(1, min(width, self.block_bytes(2**26) // (8 * max(len(X), 1))))
        for start in range(0, width, step):
            part = X[:, start : start + step]
            x = part if source is None else part[source]
            into = out[:, start : start + step]
            if goal is None:
                levels.combine(x, into)
            else:
                z = torch.empty_like(x)
                levels.combine(x, z)
                into[goal] = z

    def combine_columns(self, X: Tensor, nest: NestedLevels) -> None:
        step = max(1, self.block_bytes(2**26) // (8 * max(X.shape[1], 1)))
        for start in range(0, len(X), step):
            part = X[start : start + step].T.contiguous()
            self.combine_rows(part, part, nest.rows, nest)
            X[start : start + step] = part.T

    def _order(self, rows: Index, n: int) -> Any:
        """Row numbers on the device, or None if they are all rows in order."""
        if len(rows) == n and bool((rows == np.arange(n)).all()):
            return None
        return self.index(rows)

    def group_sums(self, codes: Index, n_groups: int, X: Tensor) -> Tensor:
        flat = X.reshape(len(X), -1)
        order = np.argsort(codes, kind="stable")
        lengths = np.bincount(codes, minlength=n_groups)
        sums = segment_sums(self, flat[self.index(order)], lengths)
        return sums.reshape(n_groups, *X.shape[1:])

    def minmax_groups(self, X: Tensor, rows: Index, ptr: Index) -> bool:
        return all(self._by_groups(Groups.minmax, X, rows, ptr))

    def standardize_groups(self, X: Tensor, rows: Index, ptr: Index) -> None:
        self._by_groups(Groups.standardize, X, rows, ptr)

    def rank_groups(self, X: Tensor, rows: Index, ptr: Index) -> None:
        self._by_groups(Groups.rank, X, rows, ptr)

    def _by_groups(
        self, scale: Callable[[Groups, Tensor], Any], X: Tensor, rows: Index, ptr: Index
    ) -> list[Any]:
        """Scale some columns at a time, with their rows sorted by group."""
        groups, order = Groups(self, ptr), self._order(rows, len(X))
        step = max(1, self.block_bytes(2**26) // (8 * max(len(X), 1)))
        found = []
        for start in range(0, X.shape[1] if len(X) else 0, step):
            part = X[:, start : start + step]
            x = (part if order is None else part[order]).contiguous()
            found.append(scale(groups, x))
            if order is None:
                part.copy_(x)
            else:
                part[order] = x
        return found

    def sparse_product(self, S: Any, X: Tensor) -> Tensor:
        entries = S.tocoo()
        where = self.index(np.stack((entries.row, entries.col)).astype(np.int64))
        with _quiet_about_sparse():
            here = torch.sparse_coo_tensor(
                where, self.array(entries.data), S.shape, check_invariants=False
            )
        return torch.sparse.mm(here, X.reshape(len(X), -1)).reshape(S.shape[0], *X.shape[1:])

    def products(self, X: Any) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        if not is_sparse(X):
            dense = self.array(X)
            return lambda P: dense @ P, lambda Q: dense.T @ Q
        here, transposed = self._csr(X), self._csr(X.T.tocsr())
        return lambda P: here @ P, lambda Q: transposed @ Q

    def _csr(self, S: Any) -> Tensor:
        """A scipy.sparse CSR matrix on the device."""
        ptr, columns = (self.index(part.astype(np.int64)) for part in (S.indptr, S.indices))
        with _quiet_about_sparse():
            return torch.sparse_csr_tensor(
                ptr, columns, self.array(S.data), S.shape, check_invariants=False
            )

    def matmul(self, A: Tensor, B: Tensor) -> Tensor:
        return A @ B

    def add_gram(self, A: Tensor, Z: Tensor) -> Tensor:
        if self.precision == "tf32":
            return self._add_rough_gram(A, Z.to(torch.float32))
        for start in range(0, len(A), GRAM_WIDTH):
            stop = start + GRAM_WIDTH
            A[start:stop, start:].addmm_(Z[:, start:stop].T, Z[:, start:])
        return A

    def mirror_gram(self, A: Tensor) -> Tensor:
        return A.triu() + A.triu(1).T

    def _add_rough_gram(self, A: Tensor, Z: Tensor) -> Tensor:
        """Products in TF32 on a GPU (float32 on a CPU); blocks are summed in float64."""
        matmul = torch.backends.cuda.matmul
        before = matmul.fp32_precision
        matmul.fp32_precision = "tf32"
        try:
            for z in Z.split(ROUGH_ROWS):
                for start in range(0, len(A), ROUGH_WIDTH):
                    stop = start + ROUGH_WIDTH
                    A[start:stop, start:] += z[:, start:stop].T @ z[:, start:]
        finally:
            matmul.fp32_precision = before
        return A

    def solve_definite(self, M: Tensor, t: Tensor, lam: float) -> Tensor | None:
        factor = self._factor(M, lam)
        if factor is None:
            return None
        return torch.cholesky_solve(t.reshape(len(t), -1), factor).reshape(t.shape)

    def inverse_definite(self, M: Tensor, shift: Any) -> Tensor | None:
        factor = self._factor(M, shift)
        return None if factor is None else torch.cholesky_inverse(factor)

    def _factor(self, M: Tensor, shift: Any) -> Any:
        diagonal = M.diagonal().clone()
        M.diagonal().add_(shift)
        factor = self.cholesky(M)
        M.diagonal().copy_(diagonal)
        return factor

    def cholesky(self, M: Tensor) -> Tensor | None:
        factor, info = torch.linalg.cholesky_ex(M)
        return None if bool(info) else factor

    def pivoted_cholesky(self, K: Tensor, tolerance: float) -> tuple[Index, Tensor, Tensor]:
        plain = self.cholesky(K)
        if plain is not None:
            pivots = plain.diagonal() ** 2
            if float(pivots.min()) > max(tolerance, PLAIN_PIVOT * float(pivots.max())):
                return np.arange(len(K)), plain, self.empty(0)
        return self._pivoted_cholesky(K, tolerance)

    def _pivoted_cholesky(self, K: Tensor, tolerance: float) -> tuple[Index, Tensor, Tensor]:
        """As LAPACK's dpstrf, without moving rows; synchronizes with the host once per panel."""
        n, rank = len(K), len(K)
        A, left = K.clone(), K.diagonal().clone()
        Ft, pivots = self.zeros(n, n), self.zeros(n)  # columns of the factor, stored as rows
        chosen, open_ = torch.zeros(n, dtype=torch.int64, device=self.device), left.new_ones(n)
        for start in range(0, n, PIVOT_WIDTH):
            stop = min(start + PIVOT_WIDTH, n)
            panel = Ft[start:stop]
            for k in range(start, stop):
                p = left.argmax().reshape(1)
                pivot = left.index_select(0, p)
                before = panel[: k - start]
                known = before.index_select(1, p).T
                column = torch.addmm(A.index_select(0, p), known, before, alpha=-1.0)[0]
                line = torch.mul(column, open_ * pivot.rsqrt(), out=Ft[k])
                left.addcmul_(line, line, value=-1.0).index_fill_(0, p, -torch.inf)
                open_.index_fill_(0, p, 0.0)
                chosen[k : k + 1], pivots[k : k + 1] = p, pivot
            enough = pivots[start:stop] > tolerance
            if not bool(enough.all()):
                rank = start + int(torch.argmin(enough.to(torch.int8)))
                break
            A.addmm_(panel.T, panel, alpha=-1.0)
        kept = chosen[:rank].cpu().numpy()
        others = np.setdiff1d(np.arange(n), kept)
        rest = self.index(others)
        C = Ft[:rank, self.index(kept)].T.contiguous().tril_()
        lost = (Ft[:rank, rest] ** 2).sum(dim=0)
        return np.concatenate((kept, others)), C, K.diagonal()[rest] - lost

    def solve_triangular(self, C: Tensor, B: Tensor, *, transpose: bool = False) -> Tensor:
        matrix = C.T if transpose else C
        found = torch.linalg.solve_triangular(matrix, B.reshape(len(B), -1), upper=transpose)
        return found.reshape(B.shape)

    def solve_rows(self, C: Tensor, B: Tensor) -> None:
        B[:] = self.solve_triangular(C, B.T).T

    def solve(self, A: Tensor, B: Tensor) -> Tensor:
        try:
            return torch.linalg.solve(A, B)
        except torch.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(str(error)) from None

    def eigh(self, M: Tensor) -> tuple[Tensor, Tensor]:
        s, V = torch.linalg.eigh(M)
        return s, V

    def largest_eigh(self, M: Tensor, n: int) -> tuple[Tensor, Tensor]:
        s, V = torch.linalg.eigh(M)
        return s[-n:], V[:, -n:]

    def qr(self, A: Tensor) -> tuple[Tensor, Tensor]:
        Q, R = torch.linalg.qr(A)
        return Q, R

    def triangle(self, A: Tensor) -> Tensor:
        return torch.linalg.qr(A, mode="r").R


@cache
def _copy_stream(device: Any) -> Any:
    return torch.cuda.Stream(device)


class HostRows:
    """Rows in host memory that are processed on a device.

    ``X[rows]`` copies them to the device through two pinned buffers: one is filled while the
    other is being copied and the device works on the previous rows.

    Attributes
    ----------
    host : ndarray or sparse of shape (n_rows, n_features)
    backend : TorchBackend
    """

    def __init__(self, host: Any, backend: TorchBackend) -> None:
        self.host, self.backend = host, backend
        self.shape, self.dtype, self.ndim = host.shape, host.dtype, 2
        self._buffers: list[Any] = [None, None]
        self._sent: list[Any] = [None, None]
        self._turn = 0

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Rows) -> Any:
        block = self.host[rows]
        block = block.toarray() if is_sparse(block) else block
        if self.backend.device.type != "cuda":
            return self.backend.array(block)
        return self._send(block)

    def _send(self, block: Any) -> Any:
        self._turn = 1 - self._turn
        if self._sent[self._turn] is not None:
            self._sent[self._turn].synchronize()  # the buffer is still being read
        kind = torch.float32 if block.dtype == np.float32 else torch.float64
        buffer = self._buffers[self._turn]
        if buffer is None or buffer.numel() < block.size:
            buffer = torch.empty(block.size, dtype=kind, pin_memory=True)
            self._buffers[self._turn] = buffer
        pinned = buffer[: block.size].view(block.shape)
        np.copyto(pinned.numpy(), block)
        device = self.backend.device
        stream, work = _copy_stream(device), torch.cuda.current_stream(device)
        with torch.cuda.stream(stream):
            sent = pinned.to(device, non_blocking=True)
            self._sent[self._turn] = stream.record_event()
        work.wait_event(self._sent[self._turn])
        sent.record_stream(work)
        return sent.to(torch.float64)
