"""Asks, before a target is woken, whether its pods have a place."""

from services.autoscaler.ports import Placer, Scale
from services.core.fitting import FitUnknown, after_fit
from services.core.scaling import Autoscaler, Held, WhenItDoesNotFit, Woken


class FitQuestion:
    """The question to the placer, and what people want to happen upon a no: the HPA's annotation, else the default."""

    def __init__(self, placer: Placer | None, *, default: WhenItDoesNotFit) -> None:
        """Keep the parts; without a placer nobody is asked."""
        self._placer = placer
        self._default = default

    async def ask(self, hpa: Autoscaler, *, scale: Scale, woken: Woken) -> Woken | Held:
        """Return the wake as it is to be carried out, or what holds it."""
        when = hpa.when_it_does_not_fit or self._default
        if self._placer is not None:
            fit = await self._placer.fit(hpa, scale=scale, replicas=woken.replicas)
        elif when is WhenItDoesNotFit.HOLD:
            # People rely on being asked for; without that wish, silence is what an installation without it means.
            fit = FitUnknown(why="is not known to the autoscaler; set PHALANX_PLACER")
        else:
            return woken
        return after_fit(woken, target=hpa.target, fit=fit, when=when)
