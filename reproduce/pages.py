"""What experiments write: results beside their code, and blocks of text in their READMEs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from rankwise.files import replacing

# Not in the repository: what was parsed, and Link Grammar.
CACHE = Path(os.environ.get("RANKWISE_CACHE") or Path(__file__).parent.parent / ".cache")
BEGIN, END = "<!-- {}: written by run.py -->", "<!-- end of {} -->"


def kept(path: Path) -> dict[str, Any]:
    """The results that a JSON file holds; none if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Put results among those that a JSON file holds, and return all of them."""
    every = kept(path) | found
    text = json.dumps(every, indent=1)
    # Numbers of a list side by side: files that can be read, and compared line by line.
    text = re.sub(r"\[\s+([^][{}]+?)\s+\]", lambda m: f"[{' '.join(m.group(1).split())}]", text)
    with replacing(path) as beside:
        beside.write_text(text + "\n", encoding="utf-8")
    return every


def put_block(path: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of a block; add them at the end if there are none."""
    begin, end = BEGIN.format(name), END.format(name)
    whole = path.read_text(encoding="utf-8")
    if begin not in whole:
        whole = f"{whole.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = whole.partition(begin)
    after = rest.partition(end)[2]
    with replacing(path) as beside:
        beside.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
