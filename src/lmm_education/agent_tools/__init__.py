"""The course as tools of agents, whoever runs them: a ChatMD file, a server of the Model Context Protocol.

`chatmd` knows these modules by name only, in its table of tools.
"""
