"""What is done to a mesh, and what is promised of it then.

A scenario is a function of a started World: load, hurt, heal, check. It calls
`say(key=value)` with what it measured and expect() for what is promised; what
else is promised of all of them is checked behind it (every node says the same
in the end, and the truth; every request is accounted for)."""
import time
import traceback

from .world import World


class Broken(AssertionError):
    """A promise was not kept."""


class Skipped(Exception):
    """Cannot be tried here, and why."""


def expect(true, what):
    if not true:
        raise Broken(what)


ALL = []


class Scenario:
    """One row of the table in chaos/scenarios/README.md."""

    def __init__(self, play, hurt, promise, known, seconds, world, asked=False):
        self.play, self.hurt, self.promise = play, hurt, promise
        self.known, self.seconds, self.world = known, seconds, world
        self.asked = asked
        self.name = play.__name__

    def run(self, long=False, seed=1, minutes=None, rate=None):
        """(how it went: "kept", "broken", "known", "skipped"; why; measured;
        seconds)"""
        measured = {}
        began = time.monotonic()

        def done(how, why=""):
            return how, why, measured, time.monotonic() - began

        try:
            settings = self.world(seed) if callable(self.world) else self.world
            with World(seed=seed, **settings) as world:
                world.long, world.minutes, world.rate = long, minutes, rate
                self.play(world, lambda **what: measured.update(what))
                measured["alike_s"] = world.settle()
            return done("kept")
        except Skipped as why:
            return done("skipped", str(why))
        except (AssertionError, TimeoutError) as why:
            return done("known" if self.known else "broken",
                        self.known or str(why) or traceback.format_exc())
        except Exception:  # of the harness, or of a machine that cannot
            return done("broken", traceback.format_exc())


def scenario(hurt, promise, known="", seconds=10, asked=False, **world):
    """Registers one; `world` is what World() takes, and it is not started.
    `known`: why the promise is not kept yet; that fails no run then.
    `seconds`: about how long it takes. `asked`: only runs that name it play it."""
    def register(play):
        ALL.append(Scenario(play, hurt, promise, known, seconds, world, asked))
        return play
    return register


# In the order in which they are run.
from . import nodes, partitions, engines, islands, strangers, limits, clocks  # noqa: E402,F401
from . import hostile, places, scripts, storm, soak, handover, streams, halves  # noqa: E402,F401
