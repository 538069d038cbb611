"""Model files in the repository: every version reads them, and refuses them when tampered with."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rankwise import PairwiseGP, load_model, save_model
from rankwise.errors import ModelFileError, RankwiseError
from rankwise.rankers import RANKERS
from tests.model_files.make import scores_of

# Files with parts of scikit-learn name the version that wrote them; another one warns.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Trying to unpickle:sklearn.exceptions.InconsistentVersionWarning"
)

FILES = sorted(Path(__file__).parent.glob("model_files/format*/*.rankwise"))


def known_scores(path):
    """Rows, and the scores that the model in a file gave them when it was written."""
    known = json.loads(path.with_suffix(".json").read_text())
    return np.array(known["X"]), np.array(known["scores"])


def require_extra(path):
    """Skip a file whose ranker needs an extra that is not installed."""
    if path.stem == "boosted":
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_format_are_read(path):
    require_extra(path)
    X, scores = known_scores(path)
    assert_allclose(scores_of(load_model(path), X), scores, rtol=1e-6, atol=1e-9)


def test_there_is_a_file_of_every_ranker():
    assert set(RANKERS) <= {path.stem for path in FILES}


def damaged_arrays(array):
    """The array with a row too few, with an axis too many, and with entries that cannot be."""
    if array.ndim:
        yield array[:-1]
    yield array[None]
    if array.dtype.kind == "f":
        yield np.full_like(array, np.nan)
    if array.dtype.kind == "i":
        for entry in (2**30, -(2**30)):
            yield np.full_like(array, entry)


def rewrite(path, changes, **options):
    """Replace members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in (members | changes).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if not path.stem.endswith("grid")],
    ids=lambda path: path.stem,
)
def test_arrays_that_do_not_belong_together_are_refused(path, tmp_path):
    require_extra(path)
    X, _ = known_scores(path)
    n_refused, copy = 0, tmp_path / "tampered.rankwise"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}
    for name, content in members.items():
        array = np.load(io.BytesIO(content))
        for damaged in damaged_arrays(array) if array.size else ():
            member = io.BytesIO()
            np.save(member, damaged)
            copy.write_bytes(path.read_bytes())
            rewrite(copy, {name: member.getvalue()})
            try:
                model = load_model(copy)
            except ModelFileError:
                n_refused += 1
                continue
            what = f"{name}: {damaged.dtype} {damaged.shape}"
            assert np.isfinite(scores_of(model, X)).all(), (
                what
            )  # an array that predict does not use
    assert n_refused


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parameters_that_a_file_lacks_get_their_defaults(path, tmp_path):
    require_extra(path)
    copy = tmp_path / "older.rankwise"
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    left_out = _drop_last_parameters(tree)
    rewrite(copy, {"model.json": json.dumps(tree)})
    model = load_model(copy)
    assert left_out
    assert repr(model)
    assert model._repr_html_()


def _drop_last_parameters(node):
    """Remove the last parameter of every ranker in a tree, and return their number."""
    if isinstance(node, list):
        return sum(map(_drop_last_parameters, node))
    if not isinstance(node, dict):
        return 0
    found = sum(map(_drop_last_parameters, node.values()))
    if "ranker" in node and len(node["ranker"]["parameters"]) > 2:
        node["ranker"]["parameters"].popitem()
        found += 1
    return found


@pytest.mark.parametrize("pointers", [(0, 3, 6, -(2**30)), (0, 3, 6, 0), (0, 2**31 - 1, 6, 9)])
def test_pointers_that_decrease_are_refused(pointers, tmp_path):
    (path,) = (path for path in FILES if path.stem == "sparse-bilinear")
    copy, member = tmp_path / "tampered.rankwise", io.BytesIO()
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    np.save(member, np.array(pointers, dtype=np.int32))
    name = tree["model"]["ranker"]["fitted"]["coef_"]["csr"]["indptr"]
    rewrite(copy, {name: member.getvalue()})
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(copy)


@pytest.mark.parametrize(
    "value",
    [[0, 1], "passthrough", {"ranker": {"name": "seen-features", "parameters": {}, "fitted": {
        "n_features_in_": 3, "n_queries_": 1}}}],
)  # fmt: skip
def test_values_that_are_not_parts_of_a_pipeline_are_refused(value, tmp_path):
    path = next(path for path in FILES if path.stem == "seen-features")
    copy = tmp_path / "tampered.rankwise"
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    tree["model"]["scikit-learn"]["values"][0] = value
    rewrite(copy, {"model.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match=r"is needed|is missing"):
        load_model(copy)
    values = tree["model"]["scikit-learn"]["values"]
    values[0] = values[1]
    rewrite(copy, {"model.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match="RankRLS is not a transformer"):
        load_model(copy)


def test_intercepts_of_outputs_that_are_not_there_are_refused(tmp_path):
    copy = changed(tmp_path, "rankrls", {"intercept": 0.0}, {"intercept": [0.0, 1.0]})
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(copy)


def test_scores_of_a_process_that_overflow_are_an_error(tmp_path):
    path = next(path for path in FILES if path.stem == "pairwise-gp")
    copy, member = tmp_path / "tampered.rankwise", io.BytesIO()
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
        node = tree["model"]["ranker"]["fitted"]["posterior_"]["object"]["fields"]["processes"][0]
        for field in ("approximation", "weights", "mean"):
            node = node["object"]["fields"][field]
        name = node["array"]
        mean = np.load(io.BytesIO(archive.read(name)))
    np.save(member, np.full_like(mean, 1.7e308))
    rewrite(copy, {name: member.getvalue()})
    with np.errstate(all="ignore"), pytest.raises(RankwiseError, match="not finite"):
        load_model(copy).predict(known_scores(path)[0])


def test_arrays_as_constants_of_kernels_are_refused(tmp_path):
    path, copy = tmp_path / "gp.rankwise", tmp_path / "tampered.rankwise"
    kernel = ConstantKernel(2.0) * RBF(1.5)
    X, pairs = np.arange(6.0)[:, None], [(5, 4), (3, 2), (1, 0)]
    save_model(PairwiseGP(kernel, optimizer=None).fit_pairs(X, pairs), path)
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        text = archive.read("model.json").decode()
        name = next(name for name in archive.namelist() if name.endswith(".npy"))
    given = json.dumps({"constant_value": 2.0})[1:-1]
    assert given in text
    for array in ({"array": name}, [0, 1], {"tuple": [0, 1]}):
        rewrite(copy, {"model.json": text.replace(given, f'"constant_value": {json.dumps(array)}')})
        with pytest.raises(ModelFileError, match="constant_value"):
            load_model(copy)


def changed(folder, stem, old, new):
    """A copy of a file with some fields of its document replaced."""
    path = next(path for path in FILES if path.stem == stem)
    copy = folder / "tampered.rankwise"
    copy.write_bytes(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        text = archive.read("model.json").decode()
    given, wanted = (json.dumps(fields)[1:-1] for fields in (old, new))
    assert given in text
    rewrite(copy, {"model.json": text.replace(given, wanted)})
    return copy
