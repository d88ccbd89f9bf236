"""Runs as AG-UI 1.0: what followers see, and what AG-UI clients ask for.

Pure: nothing here does I/O. The types of the package `ag-ui-protocol` check in the tests what is
sent; they are not needed to send it.
"""

from perdure.gateway.streaming.ag_ui.encoder import AgUi
from perdure.gateway.streaming.ag_ui.wire import frames

__all__ = ["AgUi", "frames"]
