"""Signatures with the key of a session, and names of questions that carry all an answer needs."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from rankwise.asking.refused import Refused


def signature(key: str, text: str) -> str:
    """A signature that only the owner of the key can make."""
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()[:32]


def make_token(key: str, rater: int, first: int, second: int) -> str:
    """A name for a question, made of numbers: it is understood after a restart as well.

    Examples
    --------
    >>> from rankwise.asking.signatures import make_token, read_token
    >>> read_token("00ff", make_token("00ff", 0, 3, 1))
    (0, 3, 1)
    """
    text = f"{rater}.{first}.{second}.{secrets.token_hex(8)}"
    return f"{text}.{signature(key, text)}"


def read_token(key: str, token: str) -> tuple[int, int, int]:
    """The numbers of the rater and of the two items."""
    text, _, signed = str(token).rpartition(".")
    if not hmac.compare_digest(signature(key, text).encode(), signed.encode()):
        raise Refused("This question was not asked here. Open the page again.")
    rater, first, second, _ = text.split(".")
    return int(rater), int(first), int(second)
