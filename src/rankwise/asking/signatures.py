"""Signatures with the key of a session, and names of questions that carry all an answer needs."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from rankwise.asking.refused import Refused


def signature(key: str, kind: str, text: str) -> str:
    """A signature that only the owner of the key can make.

    Each kind of signature has a key of its own: one that was made for a cookie says nothing about
    a question, whatever the two texts are.

    Examples
    --------
    >>> from rankwise.asking.signatures import signature
    >>> signature("00ff", "cookie", "rater0") == signature("00ff", "question", "rater0")
    False
    """
    own = hmac.digest(bytes.fromhex(key), kind.encode(), "sha256")
    return hmac.new(own, _bytes(text), hashlib.sha256).hexdigest()[:32]


def same(one: str, two: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(_bytes(one), _bytes(two))


def make_token(key: str, rater: int, first: int, second: int) -> str:
    """A name for a question, made of numbers: it is understood after a restart as well.

    Examples
    --------
    >>> from rankwise.asking.signatures import make_token, read_token
    >>> read_token("00ff", make_token("00ff", 0, 3, 1))
    (0, 3, 1)
    """
    text = f"{rater}.{first}.{second}.{secrets.token_hex(8)}"
    return f"{text}.{signature(key, 'question', text)}"


def read_token(key: str, token: str) -> tuple[int, int, int]:
    """The numbers of the rater and of the two items."""
    text, _, signed = str(token).rpartition(".")
    if not same(signature(key, "question", text), signed):
        raise Refused("This question was not asked here. Open the page again.")
    rater, first, second, _ = text.split(".")
    return int(rater), int(first), int(second)


def _bytes(text: str) -> bytes:
    """Text as bytes, even if JSON made it of halves of letters (surrogates)."""
    return text.encode("utf-8", "surrogatepass")
