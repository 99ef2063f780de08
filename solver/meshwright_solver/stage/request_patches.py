"""Request patches of considered configurations, extended from a narrower request to the user's."""

from __future__ import annotations

from meshwright.schema import Answer, RequestPatch
from meshwright.schema.request_patch import joined


def of_wider_request(answer: Answer, patch: RequestPatch | None) -> Answer:
    """The answer with request patches for the wider request, of which `patch` made the narrower
    one. None: no patch makes it, so that no considered configuration has one."""
    if answer.plan is None:
        return answer
    search = answer.plan.search
    considered = tuple(
        configuration.model_copy(
            update={"request_patch": patch and joined(configuration.request_patch, patch)}
        )
        if configuration.request_patch is not None
        else configuration
        for configuration in search.considered
    )
    search = search.model_copy(update={"considered": considered})
    plan = answer.plan.model_copy(update={"search": search})
    return answer.model_copy(update={"plan": plan})
