"""Property tests without a time limit each: a shared machine can stall for longer than any."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None, max_examples=40)
settings.load_profile("shared machine")
