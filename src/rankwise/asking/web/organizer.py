"""The pages of the organizer: the ranking as it grows, raters, answers, items."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rankwise.asking.background import Background
from rankwise.asking.items import IMAGE_TYPES, TEXT_TYPES, Item, file_item, read_items
from rankwise.asking.session import Refused
from rankwise.asking.web.guards import as_number
from rankwise.asking.web.templating import Pages
from rankwise.errors import DataError

_HOURS = 12
_PAGE = 50  # answers on a page
_SHOWN = 200  # items, the best ones: the page is loaded every few seconds
Act = Callable[[dict[str, Any]], str]  # handles a form, and returns where to go next


class OrganizerRoutes(Pages):
    """The pages of the organizer."""

    background: Background | None = None

    def routes(self) -> list[Route]:
        acts: tuple[Act, ...] = (
            *(self.rater, self.drop, self.item, self.upload),
            *(self.pause, self.withdraw, self.change),
        )
        return [
            Route("/organizer", partial(self.overview, "organizer.html")),
            Route("/organizer/live", partial(self.overview, "live.html")),
            Route("/organizer/answers", self.answers),
            *(
                Route(f"/organizer/{act.__name__}", self._acting(act), methods=["POST"])
                for act in acts
            ),
        ]

    def answers(self, request: Request) -> Response:
        """Who answered what, the last first."""
        visitor = self.door.visitor(request, organizer=True)
        rater = request.query_params.get("rater", "")
        found = [a for a in reversed(self.session.answers) if not rater or a.rater == rater]
        pages = max(1, -(-len(found) // _PAGE))
        page = min(pages, max(1, as_number(request.query_params.get("page", "1")) or 1))
        shown = {"answers": found[(page - 1) * _PAGE : page * _PAGE], "total": len(found)}
        place = {"page": page, "pages": pages, "rater": rater, "when": _when}
        return self.page("answers.html", visitor, **shown, **place)

    def overview(self, template: str, request: Request) -> Response:
        """Everything at a glance, or the part of it that changes by itself."""
        visitor, session = self.door.visitor(request, organizer=True), self.session
        ranking, progress = session.ranking(), session.progress()
        rows = ranking.rows(_SHOWN)
        for row in rows:
            row["score"] = round(row["score"], 2) + 0.0  # not "-0.00"
            row["p_top"] = row[f"p_top_{ranking.k}"]
        times = [a.time for a in session.answers if a.outcome != "skip" and not a.withdrawn]
        return self.page(
            template,
            visitor,
            progress=progress,
            ranking=ranking,
            rows=rows,
            reports={report.name: report for report in session.rater_reports()},
            base=f"{request.url.scheme}://{request.url.netloc}/start?token=",
            hours=_per_hour(times),
            error=self.background.error if self.background else "",
        )

    def _acting(self, act: Act) -> Callable[[Request], Awaitable[Response]]:
        """A route for a form of the organizer."""

        async def route(request: Request) -> Response:
            _, form = await self.door.read_form(request, organizer=True)
            return RedirectResponse(await run_in_threadpool(act, form), status_code=303)

        return route

    def rater(self, form: dict[str, Any]) -> str:
        self.session.add_rater(_text(form, "name"))
        return "/organizer#raters"

    def drop(self, form: dict[str, Any]) -> str:
        self.session.drop_rater(_text(form, "rater"), dropped=_text(form, "dropped") == "1")
        return "/organizer#raters"

    def pause(self, form: dict[str, Any]) -> str:
        self.session.pause(_text(form, "paused") == "1")
        return "/organizer"

    def withdraw(self, form: dict[str, Any]) -> str:
        self.session.withdraw(_number(form, "answer"))
        return "/organizer/answers"

    def change(self, form: dict[str, Any]) -> str:
        self.session.change(_number(form, "answer"), _text(form, "outcome"))
        return "/organizer/answers"

    def item(self, form: dict[str, Any]) -> str:
        name, text = _text(form, "id"), _text(form, "text").strip()
        if not name.strip():
            raise Refused("The item needs a name.")
        return self._add([Item(name, text=text, markdown=_text(form, "markdown") == "1")])

    def upload(self, form: dict[str, Any]) -> str:
        """Add the items of a table, or an image or a text as an item."""
        name, data = Path(str(form.get("name", ""))).name, form.get("file", b"")
        if not name or not isinstance(data, bytes) or not data:
            raise Refused("Choose a file with something in it.")
        suffix, keep = Path(name).suffix.lower(), self.session.log.put_file
        tables = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
        if suffix not in (*IMAGE_TYPES, *TEXT_TYPES, *tables):
            kinds = ".csv, .tsv, .json, .jsonl, .parquet, .txt, .md or an image"
            raise Refused(f"{name}: give a file that ends with {kinds}.")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"items{suffix}")
            path.write_bytes(data)
            try:
                if suffix not in tables:
                    return self._add([file_item(name, path, keep)])
                items = read_items(path, keep)
            except DataError as error:
                raise DataError(str(error).replace(str(path), name)) from None
        known = {item.id for item in self.session.items}
        new = [item for item in items if item.id not in known]
        if not new:
            raise Refused(f"All items of {name} are here already.")
        return self._add(new)

    def _add(self, items: list[Item]) -> str:
        if self.session.items[0].features:
            raise Refused(
                "These items have features, which a new item needs too: add it to the file, and "
                "start rankwise ask again."
            )
        self.session.add_items(items)
        return "/organizer#items"


def _text(form: dict[str, Any], name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


def _number(form: dict[str, Any], name: str) -> int:
    number = as_number(text := _text(form, name))
    if number is None:
        raise Refused(f"{name} must be a number: got {text[:40]!r}.")
    return number


def _per_hour(times: list[float]) -> list[int]:
    """Answers in each of the last hours; answers from a clock that was set back count as now."""
    now, counts = time.time(), [0] * _HOURS
    for when in times:
        ago = max(0, int((now - when) // 3600))
        if ago < _HOURS:
            counts[_HOURS - 1 - ago] += 1
    return counts


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
