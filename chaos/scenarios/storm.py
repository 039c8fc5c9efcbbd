"""Faults drawn from a seed: a script nobody wrote. It is played like any other,
by the simulator, too:

    chaos/netns storm --seed 7 > storm.txt; kvasir-sim --script storm.txt
"""
import random

from . import ALL, Scenario
from .scripts import play

SHORT_S, LONG_S = 8, 60


class Storm:
    """What may happen next, given what happened."""

    def __init__(self, seed, seconds):
        self.random = random.Random(seed)
        self.end_ms = seconds * 1000
        self.nodes = [f"n{i + 1}" for i in range(self.random.randint(3, 5))]
        self.engines = [f"e{i + 1}" for i in range(self.random.randint(2, 3))]
        self.restarts = self.random.sample(2 * self.engines, 2 * len(self.engines))
        self.down = []
        self.still = {}  # name: until

    def awake(self, at):
        return [n for n in self.nodes if n not in self.down and self.still.get(n, 0) <= at]

    def kill(self, at):
        """One always runs: clients may count on it."""
        awake = self.awake(at)
        if len(awake) < 2:
            return self.start(at)
        name = self.random.choice(awake)
        self.down.append(name)
        return f"{self.random.choice(['kill', 'kill', 'stop'])} {name}"

    def start(self, at):
        if not self.down:
            return self.wire(at)
        return f"start {self.down.pop(self.random.randrange(len(self.down)))}"

    def pause(self, at):
        awake = self.awake(at)
        if len(awake) < 2:
            return self.start(at)
        name, long = self.random.choice(awake), self.random.randint(200, 3000)
        self.still[name] = at + long
        return f"pause {name} {long}ms"

    def wire(self, _at):
        one, other = self.random.sample(self.nodes, 2)
        delay = self.random.randint(1, 80)
        return self.random.choice([
            f"sever {one} {other}", f"mute {one} {other}", "heal", "heal",
            f"loss {self.random.randint(1, 25)}%",
            f"delay {delay}ms {self.random.randint(0, delay)}ms"])

    def restart(self, at):
        """More than three within a minute, and an engine is held to be two that
        share an address: what it has is not looked up for a minute."""
        if not self.restarts:
            return self.wire(at)
        return f"restart {self.restarts.pop()}"

    def script(self):
        lines = [f"nodes {len(self.nodes)}", f"engines {len(self.engines)}"]
        at = 0
        while True:
            at += self.random.randint(100, 1400)
            if at >= self.end_ms:
                return "\n".join([*lines, f"at {self.end_ms}ms end", ""])
            what = self.random.choices(
                [self.kill, self.start, self.pause, self.wire, self.restart], [3, 4, 2, 6, 1])[0]
            lines.append(f"at {at}ms {what(at)}")


def script(seed, seconds=SHORT_S):
    return Storm(seed, seconds).script()


def storm(world, say):
    text = script(world.seed, LONG_S if world.long else SHORT_S)
    say(seed=world.seed)
    path = world.net.folder / "storm.txt"
    path.write_text(text)
    try:
        play(path, world, say)
    except (AssertionError, TimeoutError) as error:
        raise AssertionError(f"{error}\n{text}again: chaos/netns run storm --seed {world.seed}"
                             f"{' --long' if world.long else ''}") from error


def sizes(seed):
    """A storm's first draws are how many hosts it has, however long it is."""
    drawn = Storm(seed, SHORT_S)
    return {"nodes": len(drawn.nodes), "engines": len(drawn.engines)}


ALL.append(Scenario(storm, "what a seed draws, for 8 s (long: 60 s): nodes killed, stopped, "
                    "frozen, the wire severed, deaf, lossy, slow, engines restarted",
                    "only streams open at what is killed fail; all alike when it ends", "", 16,
                    sizes))
