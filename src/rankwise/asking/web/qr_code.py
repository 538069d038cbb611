"""QR codes of links, as SVG: byte mode, error correction M, versions 1 to 13.

The letters follow ISO/IEC 18004: a code of version v has 17 + 4 v modules on each side, and its
codewords are bytes of the field with 256 elements.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError

Modules = NDArray[np.bool_]

# Of each version at level M: all codewords, codewords for errors in a block, and blocks.
VERSIONS = (
    (26, 10, 1), (44, 16, 1), (70, 26, 1), (100, 18, 2), (134, 24, 2), (172, 16, 4), (196, 18, 4),
    (242, 22, 4), (292, 22, 5), (346, 26, 5), (404, 30, 5), (466, 22, 8), (532, 22, 9),
)  # fmt: skip
LEVEL_M = 0b00
MODULUS = 0b100011101  # x^8 + x^4 + x^3 + x^2 + 1
FORMAT, FORMAT_MASK = 0b10100110111, 0b101010000010010
VERSION = 0b1111100100101
PADDING = (0xEC, 0x11)
MARGIN = 4  # light modules around a code


def qr_code(text: str) -> Modules:
    """The dark modules of the smallest code for a text.

    Examples
    --------
    >>> qr_code("http://127.0.0.1:8642/").shape
    (25, 25)
    """
    data = text.encode()
    for version, (total, n_check, n_blocks) in enumerate(VERSIONS, 1):
        room = total - n_check * n_blocks
        bits = _bits(0b0100, 4) + _bits(len(data), 8 if version < 10 else 16)
        if len(bits) + 8 * len(data) <= 8 * room:
            break
    else:
        raise DataError(f"A text of {len(data)} bytes is too long for a QR code.")
    bits += [bit for byte in data for bit in _bits(byte, 8)]
    bits += [0] * min(4, 8 * room - len(bits))
    bits += [0] * (-len(bits) % 8)
    words = np.packbits(bits).tolist()
    words += [PADDING[k % 2] for k in range(room - len(words))]
    return _drawn(_interleaved(words, n_check, n_blocks), version)


@lru_cache(maxsize=256)
def qr_svg(text: str) -> str:
    """A code as an SVG image."""
    dark = qr_code(text)
    size = len(dark) + 2 * MARGIN
    path = "".join(f"M{x + MARGIN} {y + MARGIN}h1v1h-1z" for y, x in np.argwhere(dark).tolist())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" '
        f'width="{4 * size}" height="{4 * size}" shape-rendering="crispEdges">'
        f'<rect width="{size}" height="{size}" fill="#fff"/><path d="{path}" fill="#000"/></svg>'
    )


def _bits(number: int, n: int) -> list[int]:
    """The last n bits of a number, the highest first."""
    return [number >> k & 1 for k in reversed(range(n))]


def _times(a: int, b: int) -> int:
    """The product of two elements of the field."""
    product = 0
    for bit in _bits(b, 8):
        product = product << 1 ^ (MODULUS if product & 0x80 else 0) ^ bit * a
    return product


def _remainder(words: list[int], n: int) -> list[int]:
    """Codewords for errors: the remainder of division by (x - 1)(x - 2)...(x - 2^(n - 1))."""
    divisor, root = [1], 1
    for _ in range(n):
        shifted = [*divisor, 0]
        divisor = [a ^ _times(b, root) for a, b in zip(shifted, [0, *divisor], strict=True)]
        root = _times(root, 2)
    rest = [0] * n
    for word in words:
        factor = word ^ rest[0]
        rest = [a ^ _times(b, factor) for a, b in zip([*rest[1:], 0], divisor[1:], strict=True)]
    return rest


def _interleaved(words: list[int], n_check: int, n_blocks: int) -> list[int]:
    """The first words of all blocks, the second ones, ..., and then their codewords for errors."""
    short, n_long = divmod(len(words), n_blocks)
    sizes = [short] * (n_blocks - n_long) + [short + 1] * n_long
    starts = np.cumsum([0, *sizes])
    blocks = [words[start : start + size] for start, size in zip(starts, sizes, strict=False)]
    checks = [_remainder(block, n_check) for block in blocks]
    mixed = [block[k] for k in range(short + 1) for block in blocks if k < len(block)]
    return mixed + [check[k] for k in range(n_check) for check in checks]


def _drawn(words: list[int], version: int) -> Modules:
    """All modules, with the mask of the smallest penalty."""
    fixed, free = _patterns(version)
    y, x = _order(free)
    bits = np.unpackbits(np.array(words, dtype=np.uint8)).astype(bool)
    data = np.zeros_like(fixed)
    data[y[: len(bits)], x[: len(bits)]] = bits
    row, column = np.indices(fixed.shape)
    both = row * column
    masks = (
        (row + column) % 2, row % 2, column % 3, (row + column) % 3,
        (row // 2 + column // 3) % 2, both % 2 + both % 3, (both % 2 + both % 3) % 2,
        ((row + column) % 2 + both % 3) % 2,
    )  # fmt: skip
    codes = []
    for k, mask in enumerate(masks):
        code = np.where(free, data ^ (mask == 0), fixed)
        _write_format(code, k)
        codes.append(code)
    return min(codes, key=_penalty)


def _patterns(version: int) -> tuple[Modules, Modules]:
    """What does not depend on the data, and which modules are free for them."""
    size = 17 + 4 * version
    dark, free = np.zeros((size, size), dtype=bool), np.ones((size, size), dtype=bool)
    dark[6], dark[:, 6] = np.arange(size) % 2 == 0, np.arange(size) % 2 == 0
    free[6] = free[:, 6] = False
    ring = np.maximum(*np.abs(np.indices((9, 9)) - 4))
    for place in ((slice(0, 8), slice(0, 8)), (slice(0, 8), slice(-8, None))):
        for y, x in (place, place[::-1]):
            part = ring[1:, 1:] if y.start == 0 else ring[:-1, 1:]
            part = part if x.start == 0 else ring[1:, :-1]
            dark[y, x] = (part != 2) & (part != 4)
    free[:9, :9] = free[:9, -8:] = free[-8:, :9] = False  # with the format
    centres = _centres(version)
    for cy in centres:
        for cx in centres:
            if (cy, cx) not in ((6, 6), (6, size - 7), (size - 7, 6)):
                here = np.s_[cy - 2 : cy + 3, cx - 2 : cx + 3]
                dark[here], free[here] = ring[2:7, 2:7] != 1, False
    if version >= 7:
        bits = _bits(version << 12 | _division(version << 12, VERSION), 18)[::-1]
        block = np.array(bits, dtype=bool).reshape(6, 3)
        dark[:6, -11:-8], dark[-11:-8, :6] = block, block.T
        free[:6, -11:-8] = free[-11:-8, :6] = False
    return dark, free


def _centres(version: int) -> list[int]:
    """Rows, and columns, of the small squares that show how a code is bent."""
    if version == 1:
        return []
    last, n = 10 + 4 * version, version // 7 + 2
    step = -(-(last - 6) // (n - 1) // 2) * 2 if n > 2 else last - 6
    return [6, *(last - step * k for k in reversed(range(n - 1)))]


def _order(free: Modules) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The free modules in the order of the data: up and down in columns of two, from the right."""
    size, ys, xs = len(free), [], []
    for k, right in enumerate([*range(size - 1, 6, -2), *range(5, 0, -2)]):
        for y in range(size) if k % 2 else reversed(range(size)):
            for x in (right, right - 1):
                if free[y, x]:
                    ys.append(y)
                    xs.append(x)
    return np.array(ys), np.array(xs)


def _division(number: int, divisor: int) -> int:
    """The remainder of polynomials over the field with two elements."""
    while number.bit_length() >= divisor.bit_length():
        number ^= divisor << number.bit_length() - divisor.bit_length()
    return number


def _write_format(code: Modules, mask: int) -> None:
    """Write the level and the mask, twice, and the module that is always dark."""
    value = LEVEL_M << 3 | mask
    bits = _bits((value << 10 | _division(value << 10, FORMAT)) ^ FORMAT_MASK, 15)
    code[8, [0, 1, 2, 3, 4, 5, 7, 8]], code[[7, 5, 4, 3, 2, 1, 0], 8] = bits[:8], bits[8:]
    code[-1:-8:-1, 8], code[8, -8:] = bits[:7], bits[7:]
    code[-8, 8] = True


def _penalty(code: Modules) -> int:
    """How hard a code is to read: long runs, squares, false corners, and too much of a colour."""
    total = 0
    for lines in (code, code.T):
        for line in lines:
            runs = np.diff(np.flatnonzero(np.diff(line, prepend=~line[:1], append=~line[-1:])))
            total += int((runs[runs >= 5] - 2).sum())
            text = "".join("#" if module else "." for module in line)
            total += 40 * sum(
                text.startswith(corner, k)
                for corner in ("#.###.#....", "....#.###.#")
                for k in range(len(text))
            )
    same = (code[1:, 1:] == code[:-1, 1:]) & (code[1:, 1:] == code[1:, :-1])
    total += 3 * int((same & (code[1:, 1:] == code[:-1, :-1])).sum())
    return total + 10 * int(abs(20 * code.mean() - 10))
