"""`python -m perdure.gateway`."""

from perdure.gateway.serve import main

main()
