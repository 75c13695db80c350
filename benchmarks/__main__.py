"""`python -m benchmarks [NAME …]`"""
import importlib
import sys

NAMES = ("imports", "table", "encoder", "explorers", "browser", "rotary")
NAMED = ("classroom",)                          # needs another environment: only when it is asked for


def main() -> None:
    names = sys.argv[1:] or NAMES
    if unknown := [name for name in names if name not in NAMES + NAMED]:
        sys.exit(f"There is no benchmark {unknown[0]}. There are: {', '.join(NAMES + NAMED)}")
    for name in names:
        importlib.import_module(f"benchmarks.{name}").run()


if __name__ == "__main__":
    main()
