"""Set up a machine for Ringmaster, with the standard library only.

Users start `run`, `test`, `bench` and `lock`.  These read `environment.sh`, which starts Python
directly if the environment exists, and otherwise calls `installers.prepare`.
"""
