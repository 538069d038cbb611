"""Serve a session of letters until killed. Usage: python serve_session.py FILE PORT"""

import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import sleep

from rankwise.asking import Item, Session
from rankwise.asking.log import Log
from rankwise.asking.web.app import listening_socket, make_app, make_server
from rankwise.asking.web.guards import Doorkeeper

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><rect/></svg>'


def make_session(path):
    """Eight letters, each with a picture."""
    log = Log(path)
    image = log.put_file(SVG, "image/svg+xml")
    return Session([Item(letter, image=image) for letter in "abcdefgh"], log=log)


@contextmanager
def serving(app, port=0):
    """Serve an application in a thread, and give its address, until the block ends."""
    listening = listening_socket("127.0.0.1", port)
    server = make_server(app)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def main(path, port):
    session = make_session(path)
    listening = listening_socket("127.0.0.1", port)
    port = listening.getsockname()[1]
    print(f"http://127.0.0.1:{port}/start?token={Doorkeeper(session).organizer_key}", flush=True)
    make_server(make_app(session)).run(sockets=[listening])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
