"""The one base of every value in `runs`: frozen, strict about names, JSON in and out."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value.

    Unknown fields are ignored on reading, so that an older worker can read what a newer one
    wrote: fields are only ever added, with defaults.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
