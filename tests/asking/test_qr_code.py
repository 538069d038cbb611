"""QR codes: the modules that another library draws, and what cannot be drawn."""

import hashlib
import re

import numpy as np
import pytest

from rankwise.asking.web.qr_code import MARGIN, qr_code, qr_svg
from rankwise.errors import DataError

LINK = "http://host.example/start?token=0123456789abcdef" * 10
# Letters that fill a version, and the digest of the modules that segno 1.6.6 draws for them:
# segno.make(text, error="m", mode="byte", boost_error=False, micro=False).
SEGNO = {
    26: "e3fe0414b940d3ad",
    106: "e8b5bca8f84ac340",
    122: "41895d43f1783ac1",
    180: "8763f3a48997ced0",
    213: "351464358a409e3b",
    251: "07c153a11fcc4cdd",
    287: "f140ac3c024ce6a3",
    331: "4e01e4ae9d28e189",
}


@pytest.mark.parametrize("n", SEGNO)
def test_another_library_draws_the_same(n):
    found = np.packbits(qr_code(LINK[:n])).tobytes()
    assert hashlib.sha256(found).hexdigest()[:16] == SEGNO[n]


def test_the_picture_has_all_dark_modules():
    dark = qr_code("http://192.168.1.5:8642/start?token=" + 32 * "a")
    places = re.findall(
        r"M(\d+) (\d+)h1v1h-1z", qr_svg("http://192.168.1.5:8642/start?token=" + 32 * "a")
    )
    shown = np.zeros_like(dark)
    for x, y in places:
        shown[int(y) - MARGIN, int(x) - MARGIN] = True
    assert (shown == dark).all()
    assert dark.shape == (37, 37)


def test_a_text_that_is_too_long():
    with pytest.raises(DataError, match="332 bytes is too long"):
        qr_code(LINK[:332])
