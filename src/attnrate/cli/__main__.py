"""Run the command line as `python -m attnrate.cli`."""

from attnrate.cli import main

main()
