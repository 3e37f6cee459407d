"""Selection: which backend, plugins and settings a program gets.

`catalogue` reads entry points, `discovery` chooses among them, `plugin_options` reads plugins given as text, and
`environment` the other variables.

May import everything below the loop itself.
"""
