"""For all tests: the machine may be busy, so no property is judged by its time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
