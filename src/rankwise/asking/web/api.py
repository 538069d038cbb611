"""The same as JSON, for other front ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rankwise.asking.items import Item
from rankwise.asking.ledger import OUTCOMES, Answer
from rankwise.asking.session import Question, Session
from rankwise.asking.web.guards import Doorkeeper, Visitor
from rankwise.parameters import Choice, check_value

Act = Callable[[Visitor, dict[str, Any]], Any]


class ApiRoutes:
    """JSON routes.

    A request has the header ``Authorization: Bearer KEY``, with the key of a link; or the cookie
    of the page, and then writes need the header ``X-CSRF-Token``.
    """

    def __init__(self, session: Session, door: Doorkeeper) -> None:
        self.session, self.door = session, door

    def routes(self) -> list[Route]:
        return [
            Route("/api/schema", self._reading(lambda visitor: schema())),
            Route("/api/progress", self._reading(self.progress)),
            Route("/api/ranking", self._reading(self.ranking, organizer=True)),
            Route("/api/answers", self._reading(self.answers, organizer=True)),
            Route("/api/question", self._writing(self.question), methods=["POST"]),
            Route("/api/answer", self._writing(self.answer), methods=["POST"]),
            Route("/api/undo", self._writing(self.undo), methods=["POST"]),
        ]

    def progress(self, visitor: Visitor) -> dict[str, Any]:
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

    def ranking(self, visitor: Visitor) -> dict[str, Any]:
        found = self.session.ranking()
        return {"interval": found.level, "ranking": found.rows()}

    def answers(self, visitor: Visitor) -> dict[str, Any]:
        return {"answers": [_answer(a) for a in self.session.answers]}

    def question(self, visitor: Visitor, body: dict[str, Any]) -> dict[str, Any]:
        return {"question": _question(self.session.ask(visitor.rater))}

    def answer(self, visitor: Visitor, body: dict[str, Any]) -> dict[str, Any]:
        token, outcome = str(body.get("token")), body.get("outcome")
        check_value("outcome", outcome, Choice(*OUTCOMES, "skip"))
        saved = self.session.answer(token, str(outcome), rater=visitor.rater)
        return {"answer": _answer(saved), "question": _question(self.session.ask(visitor.rater))}

    def undo(self, visitor: Visitor, body: dict[str, Any]) -> dict[str, Any]:
        return {"question": _question(self.session.undo(visitor.rater))}

    def _reading(
        self, act: Callable[[Visitor], Any], *, organizer: bool = False
    ) -> Callable[[Request], Response]:
        def route(request: Request) -> Response:
            who = self.door.organizer(request) if organizer else self.door.visitor(request)
            return JSONResponse(act(who))

        return route

    def _writing(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def route(request: Request) -> Response:
            visitor = self.door.visitor(request)
            self.door.check_write(request, visitor, request.headers.get("x-csrf-token", ""))
            body = await request.body()
            try:
                values = json.loads(body) if body else {}
            except ValueError as error:
                raise HTTPException(400, f"The body is not JSON: {error}.") from error
            except RecursionError as error:
                raise HTTPException(400, "The body has objects too deep in others.") from error
            if not isinstance(values, dict):
                raise HTTPException(400, "The body must be an object.")
            return JSONResponse(await run_in_threadpool(act, visitor, values))

        return route


def schema() -> dict[str, Any]:
    """The routes in the words of OpenAPI.

    Examples
    --------
    >>> from rankwise.asking.web.api import schema
    >>> sorted(schema()["paths"])[:2]
    ['/api/answer', '/api/answers']
    """
    from rankwise import __version__

    def of(description: str, **properties: Any) -> dict[str, Any]:
        content = {"application/json": {"schema": _object(**properties)}}
        return {"200": {"description": description, "content": content}}

    text, number, flag = ({"type": kind} for kind in ("string", "number", "boolean"))
    whole = {"type": "integer"}
    question = {"$ref": "#/components/schemas/Question"}
    answer = {"$ref": "#/components/schemas/Answer"}
    item = {"$ref": "#/components/schemas/Item"}
    maybe = {"oneOf": [question, {"type": "null"}]}
    place = _object(
        rank=whole, item=text, score=number, low=number, high=number, rank_low=whole,
        rank_high=whole, answers=whole,
    )  # fmt: skip
    outcome = {"type": "string", "enum": [*OUTCOMES, "skip"]}
    sent = {"content": {"application/json": {"schema": _object(token=text, outcome=outcome)}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rankwise ask", "version": __version__},
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Item": _object(
                    id=text, text=text, markdown=flag, image=text,
                    facts={"type": "object", "additionalProperties": text},
                ),
                "Question": _object(token=text, rater=text, first=item, second=item),
                "Answer": _object(
                    number=whole, time=number, first=text, second=text, outcome=outcome,
                    rater=text, withdrawn=flag, changed=flag,
                ),
            },
        },
        "security": [{"key": []}],
        "paths": {
            "/api/schema": {"get": {"responses": of("This document.")}},
            "/api/progress": {
                "get": {
                    "responses": of(
                        "How far the goal is.", question=text, advice=text, goal=text,
                        goal_reached=flag, certainty=number, expected_wrong=number, answers=whole,
                        answers_left={"type": ["integer", "null"]}, paused=flag,
                    )
                }
            },
            "/api/ranking": {
                "get": {
                    "responses": of(
                        "The ranking, for the organizer.",
                        interval=number,
                        ranking={"type": "array", "items": place},
                    )
                }
            },
            "/api/answers": {
                "get": {
                    "responses": of(
                        "All answers and skips, for the organizer.",
                        answers={"type": "array", "items": answer},
                    )
                }
            },
            "/api/question": {"post": {"responses": of("The next pair.", question=maybe)}},
            "/api/answer": {
                "post": {
                    "requestBody": sent,
                    "responses": of("What was saved, and the next.", answer=answer, question=maybe),
                }
            },
            "/api/undo": {"post": {"responses": of("The same pair again.", question=question)}},
        },
    }  # fmt: skip


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _item(item: Item) -> dict[str, Any]:
    image = f"/image/{item.image}" if item.image else ""
    return {
        "id": item.id,
        "text": item.shown,
        "markdown": item.markdown,
        "image": image,
        "facts": item.facts,
    }


def _question(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    return {
        "token": question.token,
        "rater": question.rater,
        "first": _item(question.first),
        "second": _item(question.second),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return dict(vars(answer))
