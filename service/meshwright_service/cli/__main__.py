"""`python -m meshwright_service.cli`: the command meshwright-server."""

from meshwright_service.cli.main import main

main()
