"""What a machine says of itself: devices, the links between them, NUMA nodes, network.

Every reader is a function of text; `machine.reading` alone runs commands and opens files.
"""
