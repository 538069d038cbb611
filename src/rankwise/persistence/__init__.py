"""Model files: fitted rankers on disk, without pickle and without names of private classes.

A model file is a zip archive with uncompressed members:

``model.json``
    The format number, the version of rankwise that wrote the file, and the model as a tree of
    values.
``arrays/0.npy``, ``arrays/1.npy``, ...
    One member for each NumPy array, in NumPy's own format and in the memory order it had. A CSR
    matrix has three of them.
``scikit-learn/0.skops``, ...
    Parts that are scikit-learn's own, such as a pipeline with its scalers, as skops writes them.
    The rankers in such a part are taken out and stored in ``model.json``.

A ranker is stored as its stable name (`rankwise.rankers.RANKERS`), its parameters, and its fitted
attributes: whatever its ``__getstate__`` returns beside the parameters. A ranker whose state is
not made of plain values defines ``__getstate__`` and ``__setstate__``, as for pickle. Value objects
(frozen dataclasses) are stored by a stable name, too, and by the names of their fields; the table
of these names is in `rankwise.persistence.stable_names`. So modules and classes can be moved and
renamed. If a parameter, an attribute or a field is renamed, raise `FORMAT` and translate the old
name on reading.

Reading executes nothing from the file. Names come from the tables, a parameter that the file does
not have gets its default, and what does not belong together is refused with a `ModelFileError`.
"""

from rankwise.persistence.model_files import ModelFile, load_model, open_model, save_model

__all__ = ["ModelFile", "load_model", "open_model", "save_model"]
