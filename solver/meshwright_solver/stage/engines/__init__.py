"""The engines that search the strategies of a stage, one a file, and their registry."""
