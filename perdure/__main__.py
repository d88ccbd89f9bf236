"""`python -m perdure` is the command `perdure`."""

from perdure.client.cli.app import main

if __name__ == "__main__":
    main()
