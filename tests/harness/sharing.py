"""How the processes of `make test` share the tests."""

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "chaos": "heavy",
    "deploy": "heavy",
    "e2e": "heavy",
    "test_session_starts.py": "heavy",
    "bugbank": "bugbank",
    "local_model": "local_model",
    "packaging": "packaging",
}
"""Folders and files whose tests run one after the other, in one process: they share something
costly, or do so much at once that two of them would starve a small machine."""


class Sharing(LoadScopeScheduling):
    """Each test goes to whichever process is free, but for those that stay together.

    Groups come first, the largest before all; single tests fill what is left. (Marks of xdist do
    nothing with pytest 9.2: it writes them into an attribute that is read no more.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        return TOGETHER.get(file.name) or TOGETHER.get(file.parent.name, nodeid)
