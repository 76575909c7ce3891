"""The zoo: a small real model and really trained drafters, so that every method runs anywhere.

    >>> from pipeline.zoo import materialise
    >>> folder = materialise("smollm2-135m-instruct")

Importing this package is cheap; torch is imported by the first call that has something to build.
"""

from pipeline.zoo.catalogue import TARGET, digest_of, materialise, names

__all__ = ["TARGET", "digest_of", "materialise", "names"]
