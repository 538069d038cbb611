"""The same as JSON, for other front ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rankwise import __version__
from rankwise.asking.items import Item
from rankwise.asking.ledger import OUTCOMES
from rankwise.asking.session import Question, Session
from rankwise.asking.session_exports import how_far
from rankwise.asking.web.guards import Doorkeeper, Visitor
from rankwise.parameters import Choice, check_value


class ApiRoutes:
    """JSON routes.

    A request has the header ``Authorization: Bearer KEY``, with the key of a link; or the cookie
    of the page, and then writes need the header ``X-CSRF-Token``.
    """

    def __init__(self, session: Session, door: Doorkeeper) -> None:
        self.session, self.door = session, door

    def routes(self) -> list[Route]:
        return [
            Route("/api/schema", self._reading(schema)),
            Route("/api/progress", self._reading(self.progress)),
            Route("/api/ranking", self._reading(self.ranking, organizer=True)),
            Route("/api/answers", self._reading(self.answers, organizer=True)),
            Route("/api/question", self._writing(self.question), methods=["POST"]),
            Route("/api/answer", self._writing(self.answer), methods=["POST"]),
            Route("/api/undo", self._writing(self.undo), methods=["POST"]),
        ]

    def progress(self) -> dict[str, Any]:
        session, left = self.session, self.session.progress().answers_left
        state = {"answers_left": left, "paused": session.paused}
        return {"advice": session.settings.advice, **how_far(session), **state}

    def ranking(self) -> dict[str, Any]:
        found = self.session.ranking()
        return {"interval": found.level, "ranking": found.rows()}

    def answers(self) -> dict[str, Any]:
        return {"answers": [asdict(answer) for answer in self.session.answers]}

    def question(self, rater: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"question": _question(self.session.ask(rater))}

    def answer(self, rater: str, body: dict[str, Any]) -> dict[str, Any]:
        token, outcome = str(body.get("token")), body.get("outcome")
        check_value("outcome", outcome, Choice(*OUTCOMES, "skip"))
        saved = self.session.answer(token, str(outcome), rater=rater)
        return {"answer": asdict(saved), "question": _question(self.session.ask(rater))}

    def undo(self, rater: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"question": _question(self.session.undo(rater))}

    def _reading(
        self, act: Callable[[], Any], *, organizer: bool = False
    ) -> Callable[[Request], Response]:
        def route(request: Request) -> Response:
            self.door.visitor(request, organizer=organizer)
            return JSONResponse(act())

        return route

    def _writing(
        self, act: Callable[[str, dict[str, Any]], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def route(request: Request) -> Response:
            visitor: Visitor = self.door.visitor(request)
            self.door.check_write(request, visitor, request.headers.get("x-csrf-token", ""))
            body = await request.body()
            try:
                values = json.loads(body) if body else {}
            except (ValueError, RecursionError) as error:
                deep = isinstance(error, RecursionError)
                why = "objects are too deep in others" if deep else error
                raise HTTPException(400, f"The body is not JSON: {why}.") from error
            if not isinstance(values, dict):
                raise HTTPException(400, "The body must be an object.")
            return JSONResponse(await run_in_threadpool(act, visitor.rater, values))

        return route


def _question(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    sides = {"first": _item(question.first), "second": _item(question.second)}
    return {"token": question.token, "rater": question.rater, **sides}


def _item(item: Item) -> dict[str, Any]:
    image = f"/image/{item.image}" if item.image else ""
    shown = {"text": item.shown, "markdown": item.markdown, "image": image, "facts": item.facts}
    return {"id": item.id, **shown}


@cache
def schema() -> dict[str, Any]:
    """The routes in the words of OpenAPI, which the file ``schema.json`` has.

    Examples
    --------
    >>> from rankwise.asking.web.api import schema
    >>> sorted(schema()["paths"])[:2]
    ['/api/answer', '/api/answers']
    """
    text = files("rankwise.asking.web").joinpath("schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    found["info"]["version"] = __version__
    return found
