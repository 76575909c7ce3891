"""The zoo: a small real model and really trained drafters, so that every method runs anywhere.

    >>> from pipeline.zoo import materialise
    >>> folder = materialise("smollm2-135m-instruct")

There is no smaller family for tests. Of an engine's start with an MTP drafter 15 % (11 of 77 s,
measured on two busy cores) goes by the model: weights, key cache, warm-up. The rest is imports and
configuration, which a model of two megabytes would wait for just as long.

Importing this package is cheap; torch is imported by the first call that has something to build.
"""

from pipeline.zoo.catalogue import TARGET, digest_of, materialise, names

__all__ = ["TARGET", "digest_of", "materialise", "names"]
