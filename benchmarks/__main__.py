"""`python -m benchmarks [NAME …]`"""
import importlib
import sys

NAMES = ("imports", "table", "encoder", "explorers", "browser", "rotary")


def main() -> None:
    names = sys.argv[1:] or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"There is no benchmark {unknown[0]}. There are: {', '.join(NAMES)}")
    for name in names:
        importlib.import_module(f"benchmarks.{name}").run()


if __name__ == "__main__":
    main()
