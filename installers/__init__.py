"""Sets a machine up for Ringmaster, with the standard library alone.

`run`, `test`, `bench` and `lock` are what people start.  They read `environment.sh`, which goes
straight to Python when the environment is there, and otherwise calls `installers.prepare`.
"""
