"""The command without its script, as images run it: `python3 -m services.cli audit`."""

from services.cli.main import main

main(prog_name="phalanx")
