"""The program as a whole: help, one line per error, pipes."""

import ast
import errno
import gzip
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise
from rankwise import __version__
from rankwise.cli import entry
from rankwise.cli.main import app
from rankwise.cli.terminal import complain, duration, note, say
from tests.scripts import invoke

COMMANDS = ("demo", "auto", "fit", "tune", "predict", "evaluate", "info")
PROGRAM = [sys.executable, "-m", "rankwise"]


def test_errors_of_the_library_name_no_options():
    folder, option = Path(rankwise.__file__).parent, re.compile(r"(?<![\w-])--[a-z]{2}")
    files = [path for path in folder.rglob("*.py") if "cli" not in path.parts]
    texts = {path: text for path in files if option.search(text := path.read_text())}
    for path, text in texts.items():
        raised = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Raise)]
        words = [node.value for one in raised for node in ast.walk(one) if hasattr(node, "value")]
        assert [word for word in words if isinstance(word, str) and option.search(word)] == [], path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_examples(run, command):
    text = run(command, "--help").stdout
    assert "Examples:" in text
    assert f"rankwise {command}" in text


def test_no_arguments_give_help(run):
    text = run().stdout
    for command in COMMANDS:
        assert f" {command} " in text
    assert text == run("--help").stdout == run("-h").stdout


def test_version(run):
    assert run("--version").stdout == f"rankwise {__version__}\n"


def test_what_it_calls_itself_can_be_pasted(tmp_path):
    """In the same folder and in another one, whether the shell finds the program or not."""
    script = tmp_path / "an environment" / "bin" / "rankwise"
    script.parent.mkdir(parents=True)
    script.write_text(
        f"#!{sys.executable}\nfrom rankwise.cli.terminal import called_as\n"
        "print(called_as())\nprint(called_as(anywhere=True))\n"
    )
    script.chmod(0o755)
    plain = {**os.environ, "PATH": "/usr/bin:/bin"}
    found = {**os.environ, "PATH": f"{script.parent}:/usr/bin:/bin"}

    def paste(command, folder, env):
        done = subprocess.run(
            command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    here, anywhere = paste("'an environment/bin/rankwise'", tmp_path, plain)
    assert here == "'an environment/bin/rankwise'"
    assert paste(anywhere, script.parent, plain)[1] == anywhere
    assert paste("rankwise", tmp_path, found) == ["rankwise", "rankwise"]


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from rankwise.cli.main import app\n"
        "try: app(['fit', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'skops', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fitt"], "No such command"),
        (["fit"], "--help"),
        (["fit", "no-such-file", "-o", "x"], "does not exist"),
        (["info", os.curdir], "is a directory"),
        (["--no-such-option"], "--no-such-option"),
        (["info", os.devnull], "is empty"),
        (["info", "--query", "a", "--query=b", os.devnull], "'--query': Give it only once"),
        (["fit", os.devnull, "-o", "x", "--set", "a", "-o", "y"], "'--out' / '-o': Give it only"),
    ],
)
def test_wrong_arguments(run, arguments, message):
    assert message in run(*arguments, ok=False)


@pytest.mark.parametrize(
    ("command", "option", "message"),
    [
        ("fit", "--alpha", 'alpha must be a finite number, 0 or more, or "auto": got'),
        ("fit", "--impute", "or a finite number: got"),
        ("tune", "--alphas", "alpha must be a finite number, 0 or more: got"),
        ("evaluate", "--at", "--at must be an integer of at least 1: got"),
        (
            "leaderboard",
            "--penalty",
            "or one of evidence, held-out: got",
        ),
    ],
)
def test_numbers_that_are_refused(run, tmp_path, command, option, message):
    table = tmp_path / "table.csv"
    table.write_text("label,query,x\n1,1,2\n0,1,3\n")
    given = {
        "fit": ["--kernel", "rbf", "-o", tmp_path / "model.rankwise"],
        "tune": ["-o", tmp_path / "model.rankwise"],
    }
    found = run(command, table, option, "inf", *given.get(command, []), ok=False)
    assert f"{message} 'inf'" in found


def test_a_truncated_gz(files, run, tmp_path):
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(files.train.read_bytes())[:-40])
    assert "damaged gzip file" in run("fit", path, "-o", tmp_path / "model.rankwise", ok=False)


def test_a_pickle_is_never_loaded(files, run, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    path = tmp_path / "model.rankwise"
    path.write_bytes(pickle.dumps(Bomb()))
    assert "cannot be read as a model file" in run("predict", path, files.test, ok=False)
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "Not enough memory. Unable to allocate 9 TiB"),
        (MemoryError(), "Not enough memory."),
        (PermissionError(13, "Permission denied", "a.txt"), "a.txt: Permission denied."),
        (ValueError("two\n   lines"), "two lines"),
        (EOFError("at byte 7"), "A file ends too early: at byte 7"),
        (np.linalg.LinAlgError("Singular matrix"), "Singular matrix"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "can't decode"),
        (ImportError("no pandas"), "no pandas"),
    ],
)
def test_every_error_about_input_is_one_line(files, run, monkeypatch, error, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("rankwise.data.read_letor", fail)
    assert message in run("info", files.train, ok=False)


def test_bugs_are_not_hidden(files, monkeypatch):
    monkeypatch.setattr("rankwise.data.read_letor", 7)
    result = invoke(["info", files.train])
    assert isinstance(result.exception, TypeError)


def test_a_traceback_on_request(files, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no")

    monkeypatch.setattr("rankwise.data.read_letor", fail)
    monkeypatch.setenv("RANKWISE_TRACEBACK", "1")
    result = invoke(["info", files.train])
    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (entry.Terminated, 143)])
def test_an_interrupt_ends_without_traceback(files, monkeypatch, error, code):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr("rankwise.data.read_letor", stop)
    result = invoke(["info", files.train])
    assert result.exit_code == code
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"rankwise: interrupted: Reading {files.train} (")
    assert line.endswith("). Nothing was written.")


def test_an_interrupt_of_the_imports_ends_without_traceback(monkeypatch, capsys):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "rankwise.cli.main", Interrupted())
    with pytest.raises(SystemExit) as end:
        entry.run()
    assert end.value.code == 130
    assert capsys.readouterr().err == "rankwise: interrupted: Nothing was written.\n"


def test_an_interrupt_before_the_command_ends_without_traceback(monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "rankwise.cli.main")
    monkeypatch.setattr("typer.main.get_command", stop)
    with pytest.raises(SystemExit) as end:
        entry.run()
    assert end.value.code == 130
    assert capsys.readouterr().err == "rankwise: interrupted: Nothing was written.\n"


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (entry.Terminated, 143)])
def test_an_interrupt_of_the_arguments_ends_with_a_line(monkeypatch, error, code):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr("typer.core.TyperGroup.make_context", stop)
    result = invoke(["info"])
    assert result.exit_code == code
    assert result.stderr == "rankwise: interrupted: Nothing was written.\n"


def test_sigterm_ends_the_program_as_an_interrupt_does(monkeypatch):
    monkeypatch.setattr("rankwise.cli.main.run", lambda: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(entry.Terminated):
        entry.run()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("columns", ["60", "100"])
def test_help_has_whole_names_of_options_and_no_type_of_flags(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    text = run("auto", "--help").stdout
    assert "--memory-budget" in text
    assert "--no-boosted" in text
    assert "bool" not in text


@pytest.mark.parametrize("saved", [False, True])
def test_an_interrupt_says_what_was_written(files, monkeypatch, tmp_path, saved):
    out = tmp_path / "model.rankwise"
    out.write_text("of old")
    where = "rankwise.cli.fit._chosen" if saved else "rankwise.RankRLS.fit"

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stop)
    result = invoke(["fit", files.train, "--force", "-o", out])
    assert result.exit_code == 130
    doing = "" if saved else f"Fitting to {len(files.train.read_text().splitlines())} rows. "
    wrote = "written" if saved else "not written"
    assert result.stderr == f"rankwise: interrupted: {doing}{out} was {wrote}.\n"
    assert (out.read_bytes() == b"of old") != saved


@pytest.fixture
def safe_devices(monkeypatch):
    """A program that is wrong and has root's rights could replace a device."""
    replace = os.replace

    def replace_file(old, new):
        assert not str(new).startswith("/dev/"), f"{new} would be replaced"
        replace(old, new)

    monkeypatch.setattr("os.replace", replace_file)


@pytest.mark.usefixtures("safe_devices")
def test_files_are_replaced_only_by_force(files, run, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    model = tmp_path / "model.rankwise"
    run("fit", files.train, "--alpha", 1, "-o", model)
    commands = (
        ["fit", files.train, "-o", out],
        ["tune", files.train, "-o", out],
        ["tune", files.train, "-o", tmp_path / "new", "--plot", out.rename(tmp_path / "out.svg")],
        ["auto", files.train, "-o", out],
        ["predict", model, files.test, "-o", out],
        ["evaluate", model, files.test, "--per-query", out],
    )
    for command in commands:
        (tmp_path / "out").write_text("mine")
        message = run(*command, ok=False)
        assert message.endswith("exists: give --force to replace it, or write to another file.")
        assert (tmp_path / "out").read_text() == "mine"
    run("predict", model, files.test, "-f", "-o", out)
    assert out.read_text() != "mine"
    run("predict", model, files.test, "-o", os.devnull)  # never refused: it is no file


def test_quiet_leaves_results_and_warnings(files, run, tmp_path):
    model = tmp_path / "model.rankwise"
    assert run("fit", files.train, "--alpha", 1, "-o", model, "--quiet").stderr == ""
    loud, silent = (run("evaluate", model, files.test, *q) for q in ([], ["-q"]))
    assert loud.stdout == silent.stdout
    assert silent.stderr == ""
    assert "Done in " in loud.stderr.splitlines()[-1]
    few = tmp_path / "few.txt"
    few.write_text("0 qid:1 1:0.5\n1 qid:1 3:0.25\n")
    assert run("evaluate", model, few, "--quiet").stderr.startswith("rankwise: warning: ")
    assert "no-such-file" in run("info", "no-such-file", "--quiet", ok=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_quiet(run, command):
    assert "--quiet" in run(command, "--help").stdout


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_errors_are_coloured_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for variables, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        with monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.delenv("NO_COLOR", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            terminal = Terminal()
            patch.setattr("sys.stderr", terminal)
            complain("error", "no")
        assert ("\x1b[" in terminal.getvalue()) == colored


def test_warnings_are_one_line_each(files, run, monkeypatch):
    import rankwise.data

    read = rankwise.data.read_letor

    def warn(*arguments, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("a doubt", UserWarning, stacklevel=1)
        return read(*arguments, **options)

    monkeypatch.setattr("rankwise.data.read_letor", warn)
    result = run("info", files.train)
    assert result.stderr == "rankwise: warning: a doubt\n"


def test_errors_of_the_process_are_one_line():
    done = subprocess.run([*PROGRAM, "fitt"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "No such command 'fitt'. Did you mean 'fit'? Try 'python -m rankwise" in done.stderr


def test_a_reader_that_closes_the_pipe_early():
    code = (
        "from rankwise.cli.main import app\n"
        "@app.command()\n"
        "def chatter():\n"
        "    for _ in range(20_000): print('more than a pipe holds')\n"
        "app(['chatter'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout.readline().startswith(b"more")
        program.stdout.close()
        complaint = program.stderr.read()
        assert program.wait(timeout=300) == 141
    assert complaint == b""


def test_a_terminal_with_ascii_only(files):
    result = CliRunner(charset="ascii").invoke(app, ["info", str(files.train)])
    assert result.exit_code == 0, result.exception
    assert "?????" in result.stdout  # the bars of the histogram


@pytest.mark.parametrize("command", ["fit DATA --out DATA", "tune DATA --out DATA"])
def test_no_command_overwrites_its_input(command, tmp_path):
    data = tmp_path / "train.txt"
    text = "".join(f"{k % 2} qid:{k // 4} 1:{k}\n" for k in range(12))
    data.write_text(text)
    result = invoke(command.replace("DATA", str(data)).split())
    assert result.exit_code == 2
    assert "is an input of this command" in result.output
    assert data.read_text() == text


def test_on_a_terminal_lines_end_between_words(monkeypatch, capsys):
    sentence = "The best is 0.0068 better than the next in disagreement."
    note(sentence)
    assert capsys.readouterr().err == f"{sentence}\n"  # a pipe gets it as it is
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    say(sentence)
    note(sentence)
    complain("error", sentence)
    note(sentence, wrap=False)
    out, err = capsys.readouterr()
    assert out.splitlines() == ["The best is 0.0068", "better than the next", "in disagreement."]
    assert err == f"{out}rankwise: error: The\nbest is 0.0068\nbetter than the next\n" + (
        f"in disagreement.\n{sentence}\n"
    )


def test_inputs_are_never_overwritten(files, run, tmp_path):
    """Not by the picture of tune either, whose name follows from that of the model."""
    train = tmp_path / "data.svg"
    train.write_bytes(files.train.read_bytes())
    message = run("tune", train, "--out", tmp_path / "data.rankwise", "--force", ok=False)
    assert message == f"{train} is an input of this command: write to another file."
    page = tmp_path / "page.html"
    message = run("auto", files.train, "--out", page, "--report", page, ok=False)
    assert message == f"{page} would be written twice: give each output its own file."
    assert train.read_bytes() == files.train.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "--features", "9" * 20], "from 1 to 2147483647: got '99999999999999999999'"),
        (["fit", "--features", "9" * 5000], "from 1 to 2147483647: got '9999"),
        (["tune", "--alphas", ""], "alpha must be a finite number, 0 or more: got ''"),
    ],
)
def test_numbers_that_are_none(files, run, tmp_path, arguments, words):
    command, *options = arguments
    assert words in run(command, files.train, *options, "-o", tmp_path / "m.rankwise", ok=False)


def test_scores_are_not_compressed(files, run, model, tmp_path):
    out = tmp_path / "scores.txt.gz"
    assert "leave .gz out" in run("predict", model, files.test, "-o", out, ok=False)
    assert not out.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.usefixtures("safe_devices")
def test_devices(files, run):
    run("fit", files.train, "--alpha", 1, "-o", os.devnull)
    told = run("fit", files.train, "--alpha", 1, "-o", "/dev/full", ok=False)
    assert "No space left" in told
    assert "Errno" not in told


@pytest.mark.parametrize("remark", [note, partial(complain, "error")])
def test_a_stderr_that_cannot_be_written_to(monkeypatch, remark):
    tried = []

    class Full(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    remark("nobody reads this")
    assert len(tried) == 1
    assert sys.stderr.name == os.devnull  # from now on
    remark("nor this")
    assert len(tried) == 1
    sys.stderr.close()


def test_closed_streams(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", None)
    ran = []
    monkeypatch.setattr("rankwise.cli.main.run", lambda: ran.append(print("gone")))
    entry.run()
    assert ran == [None]
    for name in ("stdin", "stdout", "stderr"):
        assert getattr(sys, name).name == os.devnull
        getattr(sys, name).close()
