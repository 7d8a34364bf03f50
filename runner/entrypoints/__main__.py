"""`python -m runner.entrypoints`: the command line without its installed script."""

from runner.entrypoints.cli import main

main()
