"""Hooks: what a plugin implements.

`specs` is the manual of the hooks, `types` has the Protocols of their arguments.

Imports nothing of loopcore but this folder and `loopcore.ports`.
"""
