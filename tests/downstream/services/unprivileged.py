"""Run a command as somebody who is not root: `python unprivileged.py COMMAND...`.

PostgreSQL refuses to run as root, and so does a suite that starts it. Root becomes another user in a user namespace
of its own (user_namespaces(7)), where all that belongs to root belongs to that user: nothing has to be given away,
neither the folder of the run, nor the interpreter, nor the repository. Who is not root already runs the command as
it is.
"""

import os
import pwd
import sys

USERS = ("postgres", "nobody")
"""Whom root becomes: the first that exists. A user without a name would not do: libraries look it up."""


def main() -> None:
    """Replace this process by the command. Raises OSError if `unshare` (util-linux) or the command is missing."""
    command = sys.argv[1:]
    if os.geteuid() == 0:
        user = next(entry for name in USERS for entry in pwd.getpwall() if entry.pw_name == name)
        command = ["unshare", "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}", *command]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
