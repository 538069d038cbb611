"""Dates and times of battles as numbers of days."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.data.table_files import as_number
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import entries_of, is_number

DAY = np.timedelta64(1, "D")
EPOCH = datetime(1970, 1, 1)
MONTH = re.compile(r"\d{4}-\d{2}")


def check_times(
    values: Any, n: int, place: Callable[[int], str] = "Battle {}".format
) -> tuple[Array, bool]:
    """Times as numbers, and whether they are dates: then they are days since 1970.

    Dates are ISO text ("2026-11-18", "2026-11-18T12:30", or "2026-11" for the first of the month),
    whole numbers of the form 20261118, `datetime` objects, or arrays of datetime64 as of pandas.
    Other numbers stay as they are.

    Examples
    --------
    >>> check_times(["1970-01-02", "1970-01-03T12:00"], 2)
    (array([1. , 2.5]), True)
    >>> check_times([3, 5.5], 2)
    (array([3. , 5.5]), False)
    >>> check_times(["2026-02-30"], 1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rankwise.errors.DataError: Battle 0: the time '2026-02-30' is neither a date nor a number. ...
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        found = (values.astype("datetime64[us]") - np.datetime64(0, "us")) / DAY
        entries, dated = list(values), True
    else:
        entries = entries_of(values)
        meaning = {}
        for entry in entries:
            if _key(entry) not in meaning:
                meaning[_key(entry)] = _time(entry)
        compact = all(kind != "number" for kind, _ in meaning.values())
        dated = compact and bool(meaning)
        mixed = not compact and any(kind == "date" for kind, _ in meaning.values())
        found = np.array(
            [meaning[_key(entry)][1] if dated else as_number(entry) for entry in entries]
        )
        if mixed:
            kinds = [meaning[_key(entry)][0] for entry in entries]
            k = kinds.index("number" if kinds[0] == "date" else "date")
            raise DataError(
                f"{place(k)}: the time {entries[k]!r} is a {kinds[k]}, and {entries[0]!r} a "
                f"{kinds[0]}: use dates only, or numbers only."
            )
    if found.shape != (n,):
        raise DataError(f"time needs one entry per battle: got shape {found.shape} for {n}.")
    wrong = ~np.isfinite(found)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"{place(k)}: the time {str(entries[k])!r} is neither a date nor a number. Use dates "
            f"such as 2026-11-18 ({int(wrong.sum())} such in all)."
        )
    return found, dated


def _key(entry: Any) -> Any:
    return (type(entry), str(entry))


def _time(entry: Any) -> tuple[str, float]:
    """Whether an entry is a date, a number that may be one, or a number; and its days."""
    if isinstance(entry, np.datetime64):
        return "date", float((entry.astype("datetime64[us]") - np.datetime64(0, "us")) / DAY)
    if isinstance(entry, datetime):
        return "date", _days(entry)
    if isinstance(entry, date):
        return "date", _days(datetime(entry.year, entry.month, entry.day))
    text = str(entry).strip()
    if is_number(text):
        if len(text) == 8 and text.isdecimal():
            try:
                return "compact", _days(datetime.strptime(text, "%Y%m%d"))
            except ValueError:
                pass
        return "number", as_number(text)
    if MONTH.fullmatch(text):
        text += "-01"
    try:
        return "date", _days(datetime.fromisoformat(text))
    except ValueError:
        return "neither", float("nan")


def _days(when: datetime) -> float:
    if when != when:  # NaT of pandas
        return float("nan")
    if when.tzinfo is not None:
        when = when.astimezone(UTC).replace(tzinfo=None)
    return (when - EPOCH).total_seconds() / 86400


EVERY = ("day", "week", "month", "quarter", "year")
MOST_PERIODS = 500


def periods_of(time: Array, every: Any, *, dated: bool) -> NDArray[Any]:
    """The period of each time: 2026-11, 2026-Q4, or 2026-11-16, the first day of a week.

    `every` is one of `EVERY`, for dates, or a length, in days if times are dates. Periods of other
    times are numbers, their beginnings.

    Examples
    --------
    >>> days, _ = check_times(["2026-11-18", "2026-12-01"], 2)
    >>> periods_of(days, "month", dated=True).tolist()
    ['2026-11', '2026-12']
    >>> periods_of(days, "quarter", dated=True).tolist()
    ['2026-Q4', '2026-Q4']
    >>> periods_of(np.array([3.0, 7.5, 10.0]), 5, dated=False).tolist()
    [0, 5, 10]
    """
    if every in EVERY:
        if not dated:
            raise ParameterError(
                f"every={every!r} needs dates, and the times are numbers: use a number."
            )
        found = _named_periods(np.floor(time).astype(np.int64).astype("datetime64[D]"), every)
    else:
        length = as_number(every)
        if not (0.0 < length < np.inf):
            names = ", ".join(EVERY)
            raise ParameterError(f"every must be {names} or a positive number: got {every!r}.")
        begin = np.floor(time / length) * length
        found = np.array([shown_time(day, dated=True) for day in begin]) if dated else begin
        if not dated:
            whole = (begin == np.round(begin)).all()
            found = begin.astype(np.int64) if whole else np.array([f"{at:.12g}" for at in begin])
    n = len(set(found.tolist()))
    if n > MOST_PERIODS:
        raise ParameterError(
            f"every={every!r} makes {n:,} periods: use longer ones, so that there are at most "
            f"{MOST_PERIODS}."
        )
    return found


def _named_periods(days: NDArray[Any], every: str) -> NDArray[Any]:
    """The periods of dates."""
    if every == "week":  # 1970-01-01 was a Thursday
        days = days - ((days.astype(np.int64) + 3) % 7).astype("timedelta64[D]")
    if every == "quarter":
        months = days.astype("datetime64[M]").astype(np.int64)
        return np.array([f"{1970 + m // 12}-Q{m % 12 // 3 + 1}" for m in months.tolist()])
    unit = {"month": "M", "year": "Y"}.get(every, "D")
    return days.astype(f"datetime64[{unit}]").astype(str)


def shown_time(days: float, *, dated: bool) -> str:
    """A time as a user would write it."""
    return str(as_datetimes(np.array([days]), dated=True)[0]) if dated else f"{days:g}"


def as_datetimes(days: Array, *, dated: bool) -> NDArray[Any]:
    """Dates as an array of datetime64; other times as they are."""
    if not dated:
        return days
    found = np.datetime64(0, "s") + np.round(days * 86400).astype("timedelta64[s]")
    return found.astype("datetime64[D]") if (days == np.floor(days)).all() else found
