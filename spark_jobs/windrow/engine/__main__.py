"""Run the engine of the home in the foreground: `python -m windrow.engine`."""

from windrow.engine.keeper import main

if __name__ == "__main__":
    main()
