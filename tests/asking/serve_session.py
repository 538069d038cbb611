"""Serve a session of letters until killed. Usage: python serve_session.py FILE PORT"""

import sys
from pathlib import Path

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


def main(path, port):
    session = make_session(path)
    listening = listening_socket("127.0.0.1", port)
    port = listening.getsockname()[1]
    print(f"http://127.0.0.1:{port}/start?token={Doorkeeper(session).organizer_key}", flush=True)
    make_server(make_app(session)).run(sockets=[listening])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
