"""``python -m omnizarr`` is the `omnizarr` command."""

from omnizarr.cli.main import main

main()
