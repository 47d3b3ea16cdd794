"""Connects to an abstract socket, which no file system shows: daemons listen on them."""

from autograder.attacks.arenas.baits import an_abstract_listener
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="B19",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("network", "landlock"), bait=an_abstract_listener),
    hostile="""
def attempt(name):
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + name)
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt(name):
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("\\0" + name)
    server.listen()
    client.connect("\\0" + name)
    server.accept()[0].sendall(b"honest")
    return client.recv(100).decode()
""",
)
