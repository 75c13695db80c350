"""The exercise of chapter 0: a first taste of one that answers back."""
from posenc_lib.checking import EXERCISES, Exercise, Mistake

EXERCISES["0.1"] = Exercise(
    cases=[(3,), (-5,), (0.25,)],
    truth=lambda number: 2 * number,
    mistakes=[
        Mistake("It comes back as it was: write 2 * before it.", lambda number: number),
        Mistake("This is its square: ** is a power, and * a product.", lambda number: number**2),
        Mistake("This is 2 more. Asked for is twice as much.", lambda number: number + 2),
        Mistake("This is half of it. Asked for is twice as much.", lambda number: number / 2),
    ],
    explain=lambda _, number: f"Asked for is twice {number:g}.",
    shows="this is how an exercise answers.",
)
