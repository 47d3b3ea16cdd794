"""Switches the network of its ranks off, through the one netlink socket that they may open."""

from dataclasses import replace

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import LIMITS, Walls, missing

WITH_RANKS = replace(LIMITS, loopback=True)

attack = Attack(
    threat="H30",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("privileges", limits=WITH_RANKS), on=Walls(limits=WITH_RANKS)),
    hostile="""
import struct

def attempt():
    body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex("lo"), 0, 1)  # not up any more
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as ask:
        ask.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 1, 0) + body)  # RTM_NEWLINK
        error = -struct.unpack_from("=i", ask.recv(4096), 16)[0]
    return error or True
""",
    twin="""
def attempt():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            peer, _ = server.accept()
            with peer:
                client.sendall(b"honest")
                return peer.recv(6).decode()
""",
)
