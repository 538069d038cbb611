"""Files about the package agree with pyproject.toml, with each other, and with what make runs."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import rankwise
from tests.package.check import oldest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MINORS = re.findall(r"Python :: (3\.\d+)'", str(PROJECT["classifiers"]))


def yaml_of(path):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_conda_recipe_needs_what_the_wheel_needs():
    recipe = yaml_of("conda/recipe.yaml")
    needs = {requirement.replace(" ", "") for requirement in recipe["requirements"]["run"]}
    assert needs == {*PROJECT["dependencies"], f"python{PROJECT['requires-python']}"}
    assert recipe["package"]["version"] == rankwise.__version__
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["build"]["python"]["entry_points"] == [
        f"rankwise = {PROJECT['scripts']['rankwise']}",
    ]


def test_every_version_is_the_same():
    for path in ("CITATION.cff", "docs/citing.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert (
            re.search(r"^ *version(?:: | = \{)([\d.]+)", text, re.MULTILINE)[1]
            == rankwise.__version__
        )
    status = "4 - Beta" if rankwise.__version__.startswith("0.") else "5 - Production/Stable"
    assert f"Development Status :: {status}" in PROJECT["classifiers"]


def test_continuous_integration_runs_the_declared_pythons():
    assert f">={MINORS[0]}" == PROJECT["requires-python"]
    github, gitlab = yaml_of(".github/workflows/checks.yml"), yaml_of(".gitlab-ci.yml")
    assert github["jobs"]["checks"]["strategy"]["matrix"]["python"] == MINORS
    assert github["jobs"]["checks"]["steps"][-1] == {"run": ".ci/run"}
    assert gitlab["checks"]["parallel"]["matrix"] == [{"PYTHON_VERSION": MINORS}]
    assert gitlab["checks"]["script"] == [".ci/run"]


def test_hooks_before_commits_run_what_make_lint_runs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    wanted = [line.strip().replace("$(BIN)", ".venv/bin") for line in lint.splitlines()]
    (local,) = yaml_of(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == [
        line.removesuffix(" .") for line in wanted
    ]


def test_no_file_about_the_package_has_an_address():
    files = ["pyproject.toml", "conda/recipe.yaml", ".pre-commit-config.yaml", ".gitlab-ci.yml"]
    files += [str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.*")]
    assert len(files) >= 8
    for path in files:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "://" not in text, path


def test_the_paper_cites_each_entry_of_its_bibliography():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    entries = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8").split("\n@")
    keys = {entry.partition("{")[2].partition(",")[0] for entry in entries}
    assert keys == set(re.findall(r"@([A-Z]\w+\d{4})", text))
    for entry in entries:
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) = \{", entry, re.MULTILINE))
        assert entry.rstrip().endswith("}\n}"), entry
        assert not re.search(r"\}\n  \w", entry), f"a comma is missing: {entry}"


def test_all_extras_are_everything_but_torch():
    extras = PROJECT["optional-dependencies"]
    users = {"plots", "boost", "tables", "dask", "onnx", "ask"}
    assert set(re.search(r"\[(.*)\]", extras["all"][0])[1].split(",")) == users
    assert [re.match(r"\w+", needed)[0] for needed in extras["gpu"]] == ["torch"]
    assert not any("torch" in needed for extra in users for needed in extras[extra])


def test_extras_of_benchmarks_have_what_the_benchmarks_import():
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("benchmarks/*.py"))
    found = set(re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE))
    here = {"rankwise", "benchmarks", "reproduce"} | sys.stdlib_module_names
    known = {name.replace("-", "_") for name in oldest(["bench", "peers", "gpu"])}
    assert "ranx" in found
    # scikit-learn has another name, and arena_rank is imported if it is there.
    assert found - here - known == {"sklearn", "arena_rank"}
