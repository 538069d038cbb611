"""Build a wheel and an sdist, and try them in new environments: ``make package``.

The wheel is tried with the oldest versions that pyproject.toml declares, with and without extras,
and with the newest; the sdist with the newest. Nothing of this repository is on the path there.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = ("plots", "tables", "boost", "onnx", "ask")  # of gpu and dask, the tests say more


def oldest(extras):
    """The lower bounds of pyproject.toml as pins: name -> version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [project["dependencies"], *(project["optional-dependencies"][e] for e in extras)]
    found = {}
    for requirement in (requirement for group in named for requirement in group):
        name, more, bound = re.match(r"([\w-]+)(?:\[(.*)\])?(?:>=([\d.]+))?", requirement).groups()
        found |= oldest(more.split(",")) if name == project["name"] else {name: bound}
    return found


def as_constraints(pins):
    """The text of a file for pip."""
    return "".join(f"{name}=={bound}\n" for name, bound in pins.items())


def build(folder):
    """The paths of a new wheel and sdist."""
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel, sdist):
    """Every file of the package is in both, and nothing that was compiled or computed is."""
    tracked = subprocess.run(
        ["git", "ls-files", "src/rankwise"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {name.removeprefix("src/") for name in tracked}
    assert in_wheel == wanted, sorted(in_wheel ^ wanted)
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    missing = {*tracked, "README.md", "LICENSE", "CITATION.cff", "pyproject.toml"} - in_sdist
    assert not missing, sorted(missing)
    assert not [name for name in in_sdist if name.endswith((".nbi", ".nbc", ".pyc"))]
    print(f"{wheel.name} has {len(in_wheel)} files, {sdist.name} has {len(in_sdist)}")


def try_out(path, extras, pins):
    """Install a file in a new environment, and run the smoke test in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        python = place / "env" / "bin" / "python"
        constraints = place / "constraints.txt"
        constraints.write_text(as_constraints(pins))
        wanted = f"{path}[{','.join(extras)}]" if extras else str(path)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--constraint", constraints, wanted], check=True)
        empty = place / "empty"
        empty.mkdir()
        smoke = Path(__file__).with_name("smoke.py").read_text(encoding="utf-8")
        (place / "smoke.py").write_text(smoke, encoding="utf-8")
        subprocess.run([python, "-I", place / "smoke.py", *extras], cwd=empty, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the built files")
    parser.add_argument("--pins", action="store_true", help="print what make test-oldest installs")
    given = parser.parse_args()
    if given.pins:
        print(as_constraints(oldest(["test"])), end="")
        return
    given.out.mkdir(exist_ok=True)
    for old in given.out.glob("rankwise-*"):
        old.unlink()
    wheel, sdist = build(given.out)
    check_contents(wheel, sdist)
    for path, extras, pins in (
        (wheel, (), oldest(())),
        (wheel, EXTRAS, oldest(EXTRAS)),
        (wheel, EXTRAS, {}),
        (sdist, (), {}),
    ):
        words = "oldest" if pins else "newest"
        print(f"{path.name}, {words} versions, extras: {', '.join(extras) or 'none'}", flush=True)
        try_out(path, extras, pins)


if __name__ == "__main__":
    main()
