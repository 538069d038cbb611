"""``python -m rankwise`` is the program rankwise."""

from rankwise.cli.entry import run

if __name__ == "__main__":
    run()
