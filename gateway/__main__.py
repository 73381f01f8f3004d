"""``python -m gateway`` is ``kwire``."""

from gateway.cli import main

main(prog_name="kwire")
