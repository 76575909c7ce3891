"""The machine a process runs on, read: memory, GPUs, disks, network, versions; once or at 1 Hz.

Records and pure functions around two thin shells, `nvml` and `look`. A host that cannot answer a
question leaves a None where the answer would be; nothing here fails because of it.
"""
