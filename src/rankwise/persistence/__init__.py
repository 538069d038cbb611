"""Model files: fitted rankers on disk, without pickle and without names of private classes.

A model file is a zip archive with uncompressed members:

``model.json``
    The format number, the version of rankwise that wrote the file, and the model as a tree of
    values. If the model was fitted to a table, also how this table was read.
``*.npy``
    A member for each NumPy array, in NumPy's own format; a CSR matrix has three. Equal arrays
    share one.
``*.skops``
    Parts that are scikit-learn's own, such as a pipeline with its scalers, as skops writes them.
    The rankers in such a part are taken out and stored in ``model.json``.

A ranker or a transformer is stored as its stable name (`rankwise.rankers`), its parameters, and its
fitted attributes: what its ``__getstate__`` returns beside the parameters. Value objects (frozen
dataclasses) are stored as a stable name and fields; their names are in
`rankwise.persistence.value_objects`. So modules and classes can be moved and renamed. If a
parameter, an attribute or a field is renamed, increase `FORMAT` and translate the old name on
reading.

Reading executes nothing from the file. Names come from the tables, a parameter that the file does
not have gets its default, and what does not belong together is refused with a `ModelFileError`.
"""

from rankwise.persistence.model_files import ModelFile, load_model, open_model, save_model

__all__ = ["ModelFile", "load_model", "open_model", "save_model"]
