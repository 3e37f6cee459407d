"""The completion port: how each of its promises looks from outside."""

import os

from loopcore.testing.conformance.completion.any_thread import CompletionFromAnywhere
from loopcore.testing.conformance.completion.buffers import Buffers
from loopcore.testing.conformance.completion.cancelling import Cancelling
from loopcore.testing.conformance.completion.closing import CompletionEnds
from loopcore.testing.conformance.completion.datagrams import Datagrams
from loopcore.testing.conformance.completion.files import Files
from loopcore.testing.conformance.completion.forking import CompletionForks
from loopcore.testing.conformance.completion.models import CompletionModels
from loopcore.testing.conformance.completion.polls import Polls
from loopcore.testing.conformance.completion.signals import CompletionSignals
from loopcore.testing.conformance.completion.storm import Storms
from loopcore.testing.conformance.completion.streams import Streams
from loopcore.testing.conformance.completion.waiting import CompletionWaits

EVERYWHERE = (
    Streams, Datagrams, Polls, Buffers, Cancelling, CompletionFromAnywhere, CompletionWaits, CompletionEnds,
    CompletionModels, Storms,
)  # fmt: skip
POSIX = (Files, CompletionSignals, CompletionForks)
COMPLETION_LEVELS = (*EVERYWHERE, *(POSIX if os.name == "posix" else ()))
