"""Discovery of a machine: devices, their links, NUMA nodes and network ports.

Readers are functions of text; only `machine.reading` runs commands and opens files.
"""
