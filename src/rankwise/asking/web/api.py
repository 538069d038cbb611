"""The same as JSON, for other front ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
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
        found, settings = self.session.progress(), self.session.settings
        return {
            "question": settings.question,
            "advice": settings.advice,
            "goal": str(found.goal),
            "goal_reached": found.met,
            "certainty": found.certainty,
            "expected_wrong": found.expected_wrong,
            "answers": self.session.n_answers(),
            "answers_left": found.answers_left,
            "paused": self.session.paused,
        }

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


def _object(text: str = "", **properties: Any) -> dict[str, Any]:
    """A schema of an object, with names of properties that are text, and the others."""
    found = {name: {"type": "string"} for name in text.split()} | properties
    return {"type": "object", "properties": found, "required": list(found)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_NUMBER, _WHOLE, _FLAG = ({"type": kind} for kind in ("number", "integer", "boolean"))
_OUTCOME = {"type": "string", "enum": [*OUTCOMES, "skip"]}
_REFERENCE = "#/components/schemas/"
_ITEM, _QUESTION, _ANSWER = ({"$ref": _REFERENCE + name} for name in ("Item", "Question", "Answer"))
_NEXT = {"oneOf": [_QUESTION, {"type": "null"}]}
_FACTS = {"type": "object", "additionalProperties": {"type": "string"}}
_SCHEMAS = {
    "Item": _object("id text image", markdown=_FLAG, facts=_FACTS),
    "Question": _object("token rater", first=_ITEM, second=_ITEM),
    "Answer": _object(
        "first second rater", number=_WHOLE, time=_NUMBER, outcome=_OUTCOME, withdrawn=_FLAG,
        changed=_FLAG,
    ),
}  # fmt: skip
_PLACE = _object(
    "item", rank=_WHOLE, score=_NUMBER, low=_NUMBER, high=_NUMBER, rank_low=_WHOLE,
    rank_high=_WHOLE, answers=_WHOLE,
)  # fmt: skip
_PROGRESS = _object(
    "question advice goal", goal_reached=_FLAG, certainty=_NUMBER, expected_wrong=_NUMBER,
    answers=_WHOLE, answers_left={"type": ["integer", "null"]}, paused=_FLAG,
)  # fmt: skip
_CALLS = {  # by path: method, what comes back, its schema
    "schema": ("get", "This document.", _object()),
    "progress": ("get", "How far the goal is.", _PROGRESS),
    "ranking": (
        "get",
        "The ranking, for the organizer.",
        _object(interval=_NUMBER, ranking=_list(_PLACE)),
    ),
    "answers": (
        "get",
        "All answers and skips, for the organizer.",
        _object(answers=_list(_ANSWER)),
    ),
    "question": ("post", "The next pair.", _object(question=_NEXT)),
    "answer": ("post", "What was saved, and the next.", _object(answer=_ANSWER, question=_NEXT)),
    "undo": ("post", "The same pair again.", _object(question=_QUESTION)),
}


def schema() -> dict[str, Any]:
    """The routes in the words of OpenAPI.

    Examples
    --------
    >>> from rankwise.asking.web.api import schema
    >>> sorted(schema()["paths"])[:2]
    ['/api/answer', '/api/answers']
    """
    paths: dict[str, Any] = {}
    for name, (method, description, found) in _CALLS.items():
        content = {"application/json": {"schema": found}}
        responses = {"200": {"description": description, "content": content}}
        paths[f"/api/{name}"] = {method: {"responses": responses}}
    sent = {"application/json": {"schema": _object("token", outcome=_OUTCOME)}}
    paths["/api/answer"]["post"]["requestBody"] = {"content": sent}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rankwise ask", "version": __version__},
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
        "security": [{"key": []}],
        "paths": paths,
    }
