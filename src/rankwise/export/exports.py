"""A model in another form, with the check of its scores."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from rankwise.export.checks import ExportCheck
from rankwise.files import replacing


@dataclass(frozen=True, repr=False)
class Export:
    """A model in the form that a target takes; made by `to_onnx`, `to_elasticsearch` and others.

    Attributes
    ----------
    target : str
        "onnx", "elasticsearch", "opensearch", "solr", "vespa" or "json".
    content : str or bytes
        What the target takes. Of an ONNX model, the bytes of the file.
    check : ExportCheck
        How its scores compare with those of the model.
    """

    target: str
    content: str | bytes
    check: ExportCheck

    def __repr__(self) -> str:
        unit = "bytes" if isinstance(self.content, bytes) else "characters"
        return f"<Export to {self.target}, {len(self.content):,} {unit}. {self.check}>"

    def with_notes(self, *notes: str) -> Export:
        """The same with further notes in its check.

        Parameters
        ----------
        *notes : str

        Returns
        -------
        Export
        """
        check = replace(self.check, notes=(*notes, *self.check.notes))
        return replace(self, check=check)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file, and the check beside it.

        Parameters
        ----------
        path : path-like
            The check is written to the same name with ``.check.json`` behind it.

        Returns
        -------
        Path
        """
        path = Path(path)
        data = self.content.encode("utf-8") if isinstance(self.content, str) else self.content
        with replacing(path) as model, replacing(check_path(path)) as check:
            model.write_bytes(data)
            check.write_text(self.check.to_json(), encoding="utf-8")
        return path


def check_path(path: str | os.PathLike[str]) -> Path:
    """Where the check of an exported file is written.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Path

    Examples
    --------
    >>> from rankwise.export import check_path
    >>> check_path("model.onnx").name
    'model.onnx.check.json'
    """
    return Path(f"{os.fspath(path)}.check.json")
