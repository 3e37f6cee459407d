"""The readiness port: how each of its promises looks from outside."""

from loopcore.testing.conformance.readiness.any_thread import ReadinessFromAnywhere
from loopcore.testing.conformance.readiness.closing import ReadinessEnds
from loopcore.testing.conformance.readiness.models import ReadinessModels
from loopcore.testing.conformance.readiness.registrations import Registrations
from loopcore.testing.conformance.readiness.waiting import ReadinessWaits

READINESS_LEVELS = (Registrations, ReadinessWaits, ReadinessEnds, ReadinessFromAnywhere, ReadinessModels)
