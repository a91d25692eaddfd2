"""`python -m attnrate.cli` is the command attnrate."""

from attnrate.cli import main

main()
