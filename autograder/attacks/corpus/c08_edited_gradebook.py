"""Opens the gradebook's database, and gives itself points."""

from autograder.attacks.arenas.baits import a_gradebook
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="C08",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(plain=True), bait=a_gradebook),
    hostile="""
import sqlite3
def attempt(gradebook):
    try:
        with sqlite3.connect(gradebook) as opened:
            opened.execute("update grades set points = 2 where student = 'eve'")
    except sqlite3.Error as error:
        return str(error)
""",
    twin="""
import sqlite3
def attempt(gradebook):
    with sqlite3.connect("own.db") as opened:
        opened.execute("create table notes (word text)")
        opened.execute("insert into notes values ('honest')")
        return opened.execute("select word from notes").fetchone()[0]
""",
)
