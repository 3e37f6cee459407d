"""Django, in one file: an asynchronous view, and one that blocks.

Start it with `uvicorn --loop loopcore:new_event_loop --lifespan off django_app:application`.
"""

import asyncio
import threading

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for this example",
)


async def index(request: HttpRequest) -> JsonResponse:
    """Runs on the server's loop."""
    await asyncio.sleep(0)
    return JsonResponse({"loop": type(asyncio.get_running_loop()).__module__})


def report(request: HttpRequest) -> JsonResponse:
    """A plain view: Django calls it in a thread, with its synchronous ORM at hand."""
    return JsonResponse({"in_loop_thread": threading.current_thread() is threading.main_thread()})


urlpatterns = [path("", index), path("report", report)]
application = get_asgi_application()
