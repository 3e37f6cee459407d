"""gunicorn's worker class without the packages that it needs; tests/examples/test_cookbook.py runs it with them."""

import subprocess
import sys


def test_without_its_packages_the_worker_says_how_to_install_them() -> None:
    program = "import sys; sys.modules['uvicorn_worker'] = None; import loopcore.gunicorn"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: loopcore.gunicorn needs gunicorn and uvicorn-worker (")
    assert last.endswith('install them: python -m pip install "loopcore[gunicorn]"')
