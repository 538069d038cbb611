"""Start writers of a session one after the other, and kill each in the middle of an answer.

Usage: python kill_writers.py FILE N. Prints how many answers were confirmed, and how many of these
are not in the file.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from rankwise.asking.log import Log


def write(path, pipe):
    """Save answers and confirm each, until killed."""
    log = Log(path)
    k = 0
    while True:
        token = f"{os.getpid()}-{k}"
        log.append("answer", {"outcome": "first"}, token)
        os.write(pipe, f"{token}\n".encode())
        k += 1


def main(path, n_kills):
    rng = random.Random(0)
    confirmed = []
    for _ in range(n_kills):
        read, pipe = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            write(path, pipe)
        os.close(pipe)
        text = os.read(read, 64)  # the first answer was confirmed
        time.sleep(rng.uniform(0.0, 0.004))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(read, 65536):
            text += more
        os.close(read)
        confirmed += text.decode().split("\n")[:-1]
    log = Log(path)
    saved = [entry.token for entry in log.entries()]
    log.close()
    print(len(confirmed), len(set(confirmed) - set(saved)), len(saved) - len(set(saved)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
