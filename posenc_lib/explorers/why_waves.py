"""The Why waves explorer: one position written in four ways, side by side, and the step to the next position."""
from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from posenc_lib.explorer import Explorer, View, slider
from posenc_lib.explorers import clock
from posenc_lib.figures import BLUE, GREEN, GREY, ORANGE, RED, RED_TEXT, SKY, panels
from posenc_lib.marks import Line, Points, Text, frame

BITS = 5
LAST = 2**BITS - 1
SHORT, LONG = 8, LAST + 1                  # two sentences, in words
FRAME = 16                                 # what the number outgrows
BAR = -0.75                                # where the growing number stands in its panel
NUMBER, FRACTION, BINARY, WAVES = range(4)
SPEEDS = (1.0, 0.3, 0.1)                   # radians a position of the three hands
HANDS = ((BLUE, 1.0), (ORANGE, 0.8), (GREEN, 0.6))


def background() -> Figure:
    figure, (number, fraction, binary, waves) = panels(1.7, 1.9, 2.9, 2.6, height=3.3, width=9.6)
    number.set(xlim=(-1, 1), ylim=(-2, FRAME), xticks=[], ylabel="value", title="p itself")
    number.axhspan(-1, 1, color=SKY, alpha=0.4, linewidth=0)
    number.text(-0.45, 1.2, "entries of\nan embedding", fontsize=8)
    fraction.set(xlim=(-0.5, 1.5), ylim=(-0.06, 1.06), xticks=[0, 1], ylabel="value", title="p / N")
    fraction.set_xticklabels([f"N = {SHORT}", f"N = {LONG}"])
    for column, length in enumerate((SHORT, LONG)):
        fraction.plot(np.full(length, column), np.arange(length) / length, "_", color=GREY, markersize=14)
    digits = binary_digits(np.arange(LAST + 1))
    binary.pcolormesh(np.arange(LAST + 2) - 0.5, np.arange(BITS + 1) - 0.5, digits.T, cmap="Greys", vmin=0, vmax=1.6)
    binary.set(xlim=(-0.5, LAST + 0.5), ylim=(BITS - 0.5, -0.5), yticks=range(BITS), xlabel="position p")
    binary.set_yticklabels([str(2**bit) for bit in range(BITS)])
    binary.set(ylabel="digit worth", title="binary digits")
    binary.text(LAST + 1, 0, "  ")                                      # room for the digits of the chosen position
    clock.face(waves, "hands, radians a step", labels=False)
    turn = np.linspace(0, 2 * np.pi, 121)
    for _, length in HANDS[1:]:
        waves.plot(length * np.cos(turn), length * np.sin(turn), color=GREY, linewidth=0.5)
    return figure


def binary_digits(position: np.ndarray | int) -> np.ndarray:
    """The binary digits of each position, the fastest (worth 1) first: `[..., BITS]`."""
    return (np.asarray(position)[..., None] >> np.arange(BITS)) & 1


def hands(position: int) -> np.ndarray:
    """Sine and cosine of the three hands, `[6]`."""
    angles = position * np.array(SPEEDS)
    return np.stack([np.sin(angles), np.cos(angles)], -1).ravel()


def why_waves_view(position: int) -> View:
    digits = binary_digits(position)
    flips = int((digits != binary_digits(position + 1)).sum()) if position < LAST else 0
    fits = position < SHORT
    marks = [
        Line([BAR, BAR], [0, position], panel=NUMBER, color=RED, width=5),
        Points([BAR], [position], panel=NUMBER, color=RED, size=11) if position < FRAME else
        Text(BAR, FRAME, f"▲ {position}", panel=NUMBER, color=RED_TEXT, align="left", shift=(6, 8)),
        Points([1], [position / LONG], panel=FRACTION, color=BLUE, size=11),
        Points([0], [position / SHORT], panel=FRACTION, color=BLUE, size=11) if fits else
        Text(0, 1.0, "no such word", panel=FRACTION, color=RED_TEXT, size=10),
        frame(position - 0.5, position + 0.5, -0.5, BITS - 0.5, panel=BINARY, color=RED, width=2),
        *(Text(LAST + 0.5, bit, str(digit), panel=BINARY, color=RED_TEXT, shift=(9, 0))
          for bit, digit in enumerate(digits)),
        *(clock.hand(position * speed, panel=WAVES, color=color, length=length)
          for speed, (color, length) in zip(SPEEDS, HANDS, strict=True)),
        *(Text((length + 0.12) * math.cos(position * speed), (length + 0.12) * math.sin(position * speed), f"{speed:g}",
               panel=WAVES, color=color, size=11) for speed, (color, length) in zip(SPEEDS, HANDS, strict=True)),
    ]
    written = "".join(str(digit) for digit in digits[::-1])
    step = math.dist(hands(position), hands(position + 1))
    flipped = f"√{flips} = {math.sqrt(flips):.3f}: {flips} digit{'s' * (flips != 1)} flip"
    next_binary = flipped if flips else "a sixth digit is needed"
    short = f"{position / SHORT:.3f} if N = {SHORT}" if fits else f"nothing if N = {SHORT}"
    return View(marks, [
        f"{'':14}{'now':40}distance to the next position",
        f"{'p':14}{position:<40}1",
        f"{'p / N':14}{short + f', {position / LONG:.3f} if N = {LONG}':40}{1 / SHORT:.3f} or {1 / LONG:.3f}",
        f"{'binary':14}{written:40}{next_binary}",
        f"{'hands':14}{'  '.join(f'{position * speed:.1f} rad' for speed in SPEEDS):40}{step:.3f}, the same everywhere",
    ], (f"Position {position}: as a number, as a fraction of the sentence, as binary digits {written}, and as three "
        f"clock hands. To the next position, {next_binary}; the hands move by {step:.3f}."))


def why_waves_explorer() -> Explorer:
    return Explorer(background, why_waves_view, position=slider(0, LAST, 6))
