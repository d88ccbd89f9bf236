"""Who may call a route, as the types of its parameters."""

from typing import Annotated

from fastapi import Depends

from perdure.client.manager import RunManager
from perdure.gateway.access import Caller, needs
from perdure.gateway.ids import manager_of

Reader = Annotated[Caller, Depends(needs("read"))]
Writer = Annotated[Caller, Depends(needs("write"))]
Approver = Annotated[Caller, Depends(needs("approve"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
Manager = Annotated[RunManager, Depends(manager_of)]
