"""Parse LETOR text into arrays: the compiled loops over every byte.

All in one file, because Numba's cache does not notice changes in functions of another file.
Plain loops over bytes with unsigned indices: reading eight digits at a time gained only 3%.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from rankwise.backends.jit import Function, compiled


def _inline(function: Function) -> Function:
    """Compile into the caller: a call per number costs a third of the speed."""
    return compiled(function, forceinline=True)


TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, DOT, ZERO, COLON = b"\t\n\r #+-.0:"
LETTER_E, LETTER_Q, LETTER_I, LETTER_D = b"eqid"
NULL_N, NULL_U, NULL_L = b"NUL"

NO_QID, INTEGER_QID, TEXT_QID = range(3)
"""Kinds of query ids. An integer is written as str(int(text)) writes it: 007 is text."""

INEXACT, EXACT, MALFORMED = range(3)

MAX_INDEX = 2**31 - 1
"""Feature indices must fit the 32-bit indices of a SciPy CSR array."""

# Clinger: w and 10**|q| are both exact doubles here, so one operation rounds once.
EXACT_INTEGER = 2**53
EXACT_POWERS = np.array([float(10**q) for q in range(23)])

# Otherwise: 10**q = (POWER[q] + d) * 2**SHIFT[q] with 0 <= d < 1 and a POWER[q] of 64 bits.
# With at most 19 digits, these q neither overflow nor underflow.
MIN_Q, MAX_Q = -300, 280


def _power_of_ten(q: int) -> tuple[int, int]:
    """The first 64 bits of 10**q, rounded down, and the power of two that scales them."""
    if q >= 0:
        shift = (10**q).bit_length() - 64
        return (10**q >> shift if shift > 0 else 10**q << -shift), shift
    shift = -(10**-q).bit_length() - 63
    mantissa = (1 << -shift) // 10**-q
    return (mantissa, shift) if mantissa < 2**64 else (mantissa >> 1, shift + 1)


_powers = [_power_of_ten(q) for q in range(MIN_Q, MAX_Q + 1)]
POWER = np.array([mantissa for mantissa, _ in _powers], dtype=np.uint64)
SHIFT = np.array([shift for _, shift in _powers], dtype=np.int64)
MIN_EXPONENT = -1074
POWER_OF_TWO = np.ldexp(1.0, np.arange(MIN_EXPONENT, 972))


class Null(NamedTuple):
    """Whether a feature may have the value NULL, and the number that it stands for."""

    allowed: bool
    value: float


class ParsedRows(NamedTuple):
    """The rows of a block of text, in CSR form; ``*_at`` are positions in the text.

    `inexact` lists numbers that are left to Python's `float`: a slot (of a value, or
    -1 - row for a label) and the position of the text.
    """

    row_at: NDArray[np.int64]
    labels: NDArray[np.float64]
    qid: NDArray[np.int64]
    qid_kind: NDArray[np.uint8]
    qid_at: NDArray[np.int64]
    comment_at: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    inexact: NDArray[np.int64]

    @classmethod
    def allocate(cls, n_bytes: int, n_lines: int) -> ParsedRows:
        """Room for any text of `n_bytes` and `n_lines`; memory is touched only when used."""
        n_pairs = n_bytes // 4 + 1  # " 1:0"
        n_inexact = n_bytes // 5 + 1  # "1e23\n"
        arrays: Any = [np.empty(n_lines, dtype) for dtype in ("i8", "f8", "i8", "u1", "i8", "i8")]
        arrays += [np.empty(n_lines + 1, "i8"), np.empty(n_pairs, "i4"), np.empty(n_pairs)]
        arrays.append(np.empty((n_inexact, 2), "i8"))
        return cls(*arrays)

    def first(self, n_rows: int) -> ParsedRows:
        """Views of the first rows."""
        n_pairs = self.indptr[n_rows]
        arrays: Any = [column[:n_rows] for column in self[:-4]]
        arrays += [self.indptr[: n_rows + 1], self.indices[:n_pairs], self.values[:n_pairs]]
        arrays.append(self.inexact)
        return ParsedRows(*arrays)


@_inline
def _is_end(c: np.uint8) -> bool:
    """Whether a token ends before this byte."""
    return c in (SPACE, NEWLINE, HASH, TAB, RETURN)


@_inline
def _high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of a product of two 64-bit numbers."""
    half = uint64(32)
    low = uint64(0xFFFFFFFF)
    a_high, a_low = a >> half, a & low
    b_high, b_low = b >> half, b & low
    middle = a_high * b_low + (a_low * b_low >> half)
    carry = a_low * b_high + (middle & low)
    return a_high * b_high + (middle >> half) + (carry >> half)


@compiled
def _nearest(w: np.uint64, q: int) -> tuple[int, float]:
    """The double nearest to w * 10**q, or INEXACT if 64 bits of 10**q do not determine it.

    The product of the first 64 bits of w and of 10**q is too small by less than two units of
    its upper half. If both ends of that interval round to the same 53 bits, these are the
    answer; about one case in a thousand is not decided.
    """
    shift = SHIFT[q - MIN_Q] + 64
    while w < uint64(1 << 63):
        w = w << uint64(1)
        shift -= 1
    high = _high_product(w, POWER[q - MIN_Q])
    dropped = uint64(11) if high >= uint64(1 << 63) else uint64(10)
    half = uint64(1) << (dropped - uint64(1))
    rest = high & ((half << uint64(1)) - uint64(1))
    if rest == half or rest == half - uint64(1):
        return INEXACT, 0.0
    mantissa = high >> dropped
    if rest > half:
        mantissa += uint64(1)
    exponent = shift + int64(dropped)
    return EXACT, float(int64(mantissa)) * POWER_OF_TWO[exponent - MIN_EXPONENT]


@_inline
def _digits(text: NDArray[np.uint8], i: int, number: np.uint64) -> tuple[np.uint64, int]:
    """Append the decimal digits at `i` to a number (modulo 2**64), and where they end."""
    digit = uint8(text[uint64(i)] - ZERO)
    while digit <= 9:
        number = number * uint64(10) + uint64(digit)
        i += 1
        digit = uint8(text[uint64(i)] - ZERO)
    return number, i


@_inline
def _number(text: NDArray[np.uint8], i: int) -> tuple[int, float, int]:
    """The decimal number at `i`: whether it is exact, its value, and where it ends."""
    c = text[uint64(i)]
    negative = c == MINUS
    if negative or c == PLUS:
        i += 1
    first = i
    w, i = _digits(text, i, uint64(0))
    n_digits = i - first
    q: Any = 0
    if text[uint64(i)] == DOT:
        point = i + 1
        w, i = _digits(text, point, w)
        q = point - i
        n_digits -= q
    status = EXACT if n_digits > 0 else MALFORMED
    if n_digits > 19:
        while text[first] == ZERO or text[first] == DOT:  # zeros in front do not count
            n_digits -= text[first] != DOT
            first += 1
        if n_digits > 19:  # w has overflowed
            status = INEXACT
    if text[uint64(i)] | 32 == LETTER_E and status != MALFORMED:
        i += 1
        c = text[uint64(i)]
        minus = c == MINUS
        if minus or c == PLUS:
            i += 1
        first = i
        power, i = _digits(text, i, uint64(0))
        if i == first:
            status = MALFORMED
        elif i - first > 18:
            status = INEXACT
        q += -int64(power) if minus else int64(power)
    if not _is_end(text[uint64(i)]):
        status = MALFORMED
    value = 0.0
    if status == EXACT:
        if w <= uint64(EXACT_INTEGER) and -22 <= q <= 22:
            value = float(int64(w))
            if q < 0:
                value /= EXACT_POWERS[uint64(-q)]
            elif q > 0:
                value *= EXACT_POWERS[uint64(q)]
        elif w != 0:
            if MIN_Q <= q <= MAX_Q:
                status, value = _nearest(w, q)
            else:
                status = INEXACT
        if negative:
            value = -value
    return status, value, i


@_inline
def _query(text: NDArray[np.uint8], i: int) -> tuple[int, np.int64, int]:
    """The query id at `i`: its kind, its value if it is an integer, and where it ends."""
    negative = text[i] == MINUS
    if negative:
        i += 1
    first = i
    value, i = _digits(text, i, uint64(0))
    kind = INTEGER_QID
    if text[first] == ZERO and (negative or i - first > 1):
        kind = TEXT_QID
    if not 0 < i - first <= 19 or not _is_end(text[i]) or value >= uint64(1 << 63):
        kind = TEXT_QID
        while not _is_end(text[i]):
            i += 1
    return kind, -int64(value) if negative else int64(value), i


@_inline
def _is_null(text: NDArray[np.uint8], i: int) -> bool:
    """Whether the token at `i` is NULL; no byte after the end of the line is read."""
    return (
        text[i] == NULL_N
        and text[i + 1] == NULL_U
        and text[i + 2] == NULL_L
        and text[i + 3] == NULL_L
        and _is_end(text[i + 4])
    )


@compiled
def _row(
    text: NDArray[np.uint8],
    i: int,
    row: int,
    n_inexact: int,
    limit: int,
    null: Null,
    out: ParsedRows,
) -> tuple[int, int, int]:
    """Parse the row that starts at `i`, after any blanks.

    Returns the start of the next line, or -1 for an invalid line; the number of inexact numbers
    in the block so far; and the last feature index of the row.
    """
    token = i
    status, value, i = _number(text, i)
    if status == MALFORMED:
        return -1, n_inexact, 0
    if status == INEXACT:
        out.inexact[n_inexact, 0] = -1 - row
        out.inexact[n_inexact, 1] = token
        n_inexact += 1
    out.labels[row] = value
    while text[i] == SPACE or text[i] == TAB or text[i] == RETURN:
        i += 1
    out.qid_kind[row] = NO_QID
    if text[i] == LETTER_Q and text[i + 1] == LETTER_I:
        if text[i + 2] != LETTER_D or text[i + 3] != COLON or _is_end(text[i + 4]):
            return -1, n_inexact, 0
        out.qid_at[row] = i + 4
        out.qid_kind[row], out.qid[row], i = _query(text, i + 4)
    out.comment_at[row] = -1
    last: Any = 0
    k = out.indptr[row]
    while True:
        c = text[uint64(i)]
        while c in (SPACE, TAB, RETURN):
            i += 1
            c = text[uint64(i)]
        if c == HASH:
            out.comment_at[row] = i + 1
            while c != NEWLINE:
                i += 1
                c = text[uint64(i)]
        if c == NEWLINE:
            out.indptr[row + 1] = k
            return i + 1, n_inexact, last
        first = i
        index, i = _digits(text, i, uint64(0))
        while i - first > 18 and text[first] == ZERO:  # zeros in front do not count
            first += 1
        if i - first > 18 or text[uint64(i)] != COLON or not last < int64(index) <= limit:
            return -1, n_inexact, 0
        last = int64(index)
        i += 1
        token = i
        status, value, i = _number(text, i)
        if status != EXACT:
            if status == INEXACT:
                out.inexact[n_inexact, 0] = k
                out.inexact[n_inexact, 1] = token
                n_inexact += 1
            elif null.allowed and _is_null(text, token):
                value = null.value
                i = token + 4
            else:
                return -1, n_inexact, 0
        out.indices[uint64(k)] = last - 1
        out.values[uint64(k)] = value
        k += 1


@compiled
def parse_lines(
    text: NDArray[np.uint8], stop: int, limit: int, null: Null, out: ParsedRows
) -> tuple[int, int, int, int, bool]:
    """Parse the lines of ``text[:stop]``, the last byte of which is a newline.

    Stops at the first invalid line: an unexpected token, an index that does not ascend or exceeds
    `limit`, or NULL if it is not allowed. Returns the start of that line (-1 if there is none), the
    number of rows, the number of entries in ``out.inexact``, the largest index, and whether every
    row has the features 1 to that index.
    """
    i = 0
    # Not the literal 0: `_row` would be compiled for it, too.
    row = int(0)  # noqa: RUF046, UP018
    n_inexact = int(0)  # noqa: RUF046, UP018
    max_index = 0
    complete = True
    out.indptr[0] = 0
    while i < stop:
        line = i
        while text[i] == SPACE or text[i] == TAB or text[i] == RETURN:
            i += 1
        if text[i] == NEWLINE or text[i] == HASH:
            while text[i] != NEWLINE:
                i += 1
            i += 1
            continue
        out.row_at[row] = line
        i, n_inexact, last = _row(text, i, row, n_inexact, limit, null, out)
        if i < 0:
            return line, row, n_inexact, max_index, complete
        n_pairs = out.indptr[row + 1] - out.indptr[row]
        complete = complete and n_pairs == last and (row == 0 or last == max_index)
        max_index = max(max_index, last)
        row += 1
    return -1, row, n_inexact, max_index, complete
