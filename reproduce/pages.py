"""Write the results of experiments to JSON files, and blocks of text to READMEs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from rankwise.files import replacing

# Parsed sentences and Link Grammar; not in the repository.
CACHE = Path(os.environ.get("RANKWISE_CACHE") or Path(__file__).parent.parent / ".cache")
BEGIN, END = "<!-- {}: written by run.py -->", "<!-- end of {} -->"


def kept(path: Path) -> dict[str, Any]:
    """The results in a JSON file; empty if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Add results to a JSON file, and return all of its results."""
    every = kept(path) | found
    text = json.dumps(every, indent=1)
    # Lists of numbers on one line, so that files are readable and have short differences.
    text = re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: f"[{' '.join(m.group(1).split())}]", text)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return every


def put_block(path: Path, name: str, text: str) -> None:
    """Replace the text between the marks of a block; append the block if there are no marks."""
    begin, end = BEGIN.format(name), END.format(name)
    whole = path.read_text(encoding="utf-8")
    if begin not in whole:
        whole = f"{whole.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    with replacing(path) as temporary:
        temporary.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
