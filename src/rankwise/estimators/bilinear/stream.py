"""A stream of triplets for the bilinear ranker: what it began with, and how far it has come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

from rankwise.errors import ParameterError
from rankwise.estimators.bilinear.settings import settings_of, starting_weights
from rankwise.solvers.bilinear.learner import Learner

PARAMETERS = (
    "alpha", "eta0", "schedule", "shrink_every", "structure", "init", "dtype", "refit", "n_jobs",
)  # fmt: skip
"""Those that cannot change during a stream."""


def check_streamable(ranker: Any) -> None:
    """Parameters with which W does not depend on how a stream is cut."""
    if ranker.n_jobs != 1:
        raise ParameterError(
            "partial_fit takes one step after the other: with more threads W would depend on "
            "how a stream is cut. Set n_jobs=1."
        )
    if ranker.structure == "sparse" and ranker.refit:
        raise ParameterError(
            "partial_fit sees every triplet once, and a refit would need them again: set "
            "refit=False."
        )
    if ranker.structure == "sparse" and ranker.alpha is None:
        raise ParameterError("partial_fit cannot try several alphas on a stream: give alpha.")


class Stream:
    """A learner on its way.

    Parameters
    ----------
    began : dict
        `PARAMETERS` at the first call.
    shape : (int, int)
        Of W.

    Attributes
    ----------
    learner : Learner
    """

    def __init__(self, began: dict[str, Any], shape: tuple[int, int]) -> None:
        how = SimpleNamespace(**began)
        self.began = began
        self.learner = Learner(
            starting_weights(how, shape), settings_of(how, 1), dense=how.structure == "dense",
            frozen=how.structure in ("diagonal", "identity"),
        )  # fmt: skip

    @classmethod
    def of(cls, ranker: Any, shape: tuple[int, int]) -> Self:
        """The stream that a ranker begins."""
        return cls({name: getattr(ranker, name) for name in PARAMETERS}, shape)

    @classmethod
    def restored(cls, state: dict[str, Any], shape: tuple[int, int]) -> Self:
        """The stream that `state` was called on."""
        stream = cls(state["began"], shape)
        stream.learner.restore(state["learner"])
        return stream

    def state(self) -> dict[str, Any]:
        """What goes into files."""
        return {"began": self.began, "learner": self.learner.state()}

    def check(self, ranker: Any) -> None:
        """Parameters are those of the first call."""
        for name, began in self.began.items():
            now = getattr(ranker, name)
            if now != began:
                raise ParameterError(
                    f"This stream began with {name}={began!r}, and now it is {now!r}: set it back, "
                    "or begin another stream with a clone of this ranker."
                )
