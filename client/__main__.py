"""`python -m client` from a checkout is the command `perdure`."""

from perdure.client.cli.app import main

if __name__ == "__main__":
    main()
