"""Checkpoints on disk, seen as headers and bytes: no tensor library is imported here.

A safetensors checkpoint is a set of files, each with a JSON header, and an index that says which
file holds which tensor. An engine reads the files that the index names and nothing else, so a head
for multi-token prediction (MTP) whose file the index leaves out is never loaded, and the engine
drafts from nothing without a word.

    python -m pipeline.checkpoints register-mtp FOLDER      put the head into the index
    python -m pipeline.checkpoints build-hybrid int4=… fp8=… out=…
                                                            INT4 experts, FP8 dense layers, one head

`inspect.mtp_state(folder)` answers whether a head is there and can be reached.
"""
