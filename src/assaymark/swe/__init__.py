"""Software-engineering tasks: patches that a model or an agent writes for issues of real repositories, and their tests.

`instances` has SWE-bench's records, `grading` decides what a patch resolves and stores it, `report` counts it.
Models' patches, and whatever they start, are not trusted: they are applied and run in a sandbox only.
"""
